package io.nereus.pulsar.cursor;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertNotNull;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** Reads from a read position, without an engine. */
public class ReadOpTest {

    private FakeLedger ledger;
    private CursorProgress progress;

    @BeforeMethod
    public void setUp() {
        ledger = new FakeLedger(100);
        progress = new CursorProgress(ledger, new AckState(0));
    }

    @AfterMethod
    public void tearDown() {
        ledger.close();
    }

    private RecordedRead read(int maxEntries) {
        RecordedRead read = new RecordedRead();
        start(read.request(maxEntries));
        return read;
    }

    private void start(ReadRequest request) {
        ReadOp.start(ledger, progress, request, () -> { });
    }

    private void ack(long... offsets) {
        List<CursorProgress.Ack> acks = new ArrayList<>();
        for (long offset : offsets) {
            acks.add(new CursorProgress.Ack(offset, null));
        }
        progress.ack(acks);
    }

    @Test
    public void deliversWhatIsNotAcknowledgedInAMutableListAndMovesOn() {
        ack(1, 3, 4);
        RecordedRead read = read(4);
        assertEquals(read.calls, 0, "nothing is called back on the caller's thread");
        ledger.drain();
        assertEquals(read.offsets(), List.of(0L, 2L, 5L, 6L));
        assertEquals(progress.readOffset(), 7);
        read.entries.forEach(Entry::release);
        read.entries.clear();
        assertEquals(ledger.leaked(), 0, "every other entry was released");
    }

    @Test
    public void longRunsOfAcknowledgedEntriesAreReadAround() {
        for (long offset = 2; offset < 90; offset++) {
            ack(offset);
        }
        RecordedRead read = read(4);
        ledger.drain();
        assertEquals(read.offsets(), List.of(0L, 1L, 90L, 91L));
        assertEquals(ledger.readStarts, List.of(0L, 90L));
    }

    @Test
    public void aReadAtTheEndIsEmpty() {
        progress.seek(100);
        RecordedRead read = read(4);
        ledger.drain();
        assertEquals(read.entries, List.of());
        assertEquals(read.calls, 1);
    }

    @Test
    public void aReadStopsAtItsLimit() {
        RecordedRead read = new RecordedRead();
        start(read.request(50, Long.MAX_VALUE, 3, null));
        ledger.drain();
        assertEquals(read.offsets(), List.of(0L, 1L, 2L));
        assertEquals(progress.readOffset(), 3);
    }

    @Test
    public void bytesAreASoftLimit() {
        RecordedRead read = new RecordedRead();
        start(read.request(50, 35, CursorLedger.BEYOND, null));
        ledger.drain();
        assertEquals(read.offsets(), List.of(0L, 1L, 2L));
        RecordedRead small = new RecordedRead();
        start(small.request(50, 1, CursorLedger.BEYOND, null));
        ledger.drain();
        assertEquals(small.offsets(), List.of(3L), "one entry comes however large it is");
    }

    @Test
    public void skippedPositionsArePassedOver() {
        RecordedRead read = new RecordedRead();
        start(read.request(5, Long.MAX_VALUE, CursorLedger.BEYOND, p -> p.getEntryId() % 3 == 0));
        ledger.drain();
        assertEquals(read.offsets(), List.of(1L, 2L, 4L, 5L, 7L));
        RecordedRead none = new RecordedRead();
        start(none.request(5, Long.MAX_VALUE, CursorLedger.BEYOND, p -> true));
        ledger.drain();
        assertEquals(none.offsets(), List.of());
        assertEquals(progress.readOffset(), 100, "everything was skipped");
    }

    @Test
    public void aReadOvertakenByARewindDeliversNothingAndMovesNothing_case_094() {
        progress.seek(10);
        ledger.holdReads = true;
        RecordedRead stale = read(5);
        progress.rewind();
        ledger.releaseHeldReads();
        ledger.drain();
        assertEquals(stale.entries, List.of());
        assertEquals(progress.readOffset(), 0);
        assertEquals(ledger.leaked(), 0);
        ledger.holdReads = false;
        RecordedRead next = read(2);
        ledger.drain();
        assertEquals(next.offsets(), List.of(0L, 1L));
    }

    @Test
    public void twoReadsAtOnceShareNoEntry() {
        ledger.holdReads = true;
        RecordedRead first = read(5);
        RecordedRead second = read(5);
        ledger.releaseHeldReads();
        ledger.holdReads = false;
        ledger.drain();
        Set<Long> all = new TreeSet<>(first.offsets());
        all.addAll(second.offsets());
        assertEquals(all.size(), first.entries.size() + second.entries.size(), "an entry came twice");
        assertEquals(progress.readOffset(), 10);
    }

    @Test
    public void aReadInSeveralPartsIsNotOvertakenByALaterRead() {
        for (long offset = 2; offset < 50; offset++) {
            ack(offset);
        }
        ledger.holdReads = true;
        RecordedRead parts = read(5);
        ledger.heldReads.poll().run();
        ledger.drain();
        RecordedRead later = read(3);
        Runnable secondPart = ledger.heldReads.poll();
        ledger.holdReads = false;
        ledger.releaseHeldReads();
        ledger.drain();
        assertEquals(later.offsets(), List.of(0L, 1L, 50L), "nothing is skipped for a read that has not delivered yet");
        secondPart.run();
        ledger.drain();
        assertEquals(parts.offsets(), List.of(51L, 52L));
        assertEquals(progress.readOffset(), 53);
    }

    @Test
    public void entriesAcknowledgedWhileTheyAreReadAreLeftOut() {
        ledger.holdReads = true;
        RecordedRead read = read(3);
        ack(1);
        ledger.releaseHeldReads();
        ledger.holdReads = false;
        ledger.drain();
        assertEquals(read.offsets(), List.of(0L, 2L, 3L));
    }

    @Test
    public void aFailureIsReportedOnceAndMovesNothing() {
        ledger.nextReadFails = new ManagedLedgerException("damaged");
        RecordedRead read = read(3);
        ledger.drain();
        assertEquals(read.failure.getMessage(), "damaged");
        assertEquals(read.calls, 1);
        assertEquals(progress.readOffset(), 0);
    }

    @Test
    public void whatWasReadBeforeAFailureIsDelivered() {
        for (long offset = 2; offset < 50; offset++) {
            ack(offset);
        }
        ledger.holdReads = true;
        RecordedRead read = read(5);
        ledger.nextReadFails = new ManagedLedgerException("damaged");
        ledger.holdReads = false;
        ledger.releaseHeldReads();
        ledger.drain();
        assertNull(read.failure);
        assertEquals(read.offsets(), List.of(0L, 1L));
        assertEquals(progress.readOffset(), 50);
    }

    @Test
    public void aReadIntoATrimmedPartGoesOnBehindIt_case_038() {
        ledger.holdReads = true;
        RecordedRead read = read(3);
        ledger.trim = 40;
        ledger.holdReads = false;
        ledger.releaseHeldReads();
        ledger.drain();
        assertNotNull(read.entries);
        assertEquals(read.offsets(), List.of(40L, 41L, 42L));
    }

    /** Whoever skips is code of the broker: its defect must not leave a subscription waiting for ever. */
    @Test
    public void aSkipConditionThatThrowsFailsTheReadOnce() {
        RecordedRead atOnce = new RecordedRead();
        start(atOnce.request(5, Long.MAX_VALUE, CursorLedger.BEYOND, position -> {
            throw new IllegalStateException("of the condition");
        }));
        assertEquals(atOnce.calls, 0, "nothing is called back on the caller's thread");
        ledger.drain();
        assertNotNull(atOnce.failure);
        RecordedRead later = new RecordedRead();
        start(later.request(5, Long.MAX_VALUE, CursorLedger.BEYOND, position -> {
            if (position.getEntryId() == 4) {
                throw new AssertionError("of the condition");
            }
            return position.getEntryId() % 2 == 1;
        }));
        ledger.drain();
        assertEquals(later.offsets(), List.of(0L, 2L), "what was read before is delivered");
        later.entries.forEach(Entry::release);
        assertEquals(progress.readOffset(), 3);
        assertEquals(atOnce.calls + later.calls, 2);
        assertEquals(ledger.leaked(), 0);
    }

    @Test
    public void hasEntriesTellsWhatAReadWouldFind_case_093() {
        Random random = new Random(93);
        for (int round = 0; round < 200; round++) {
            ledger.end = random.nextInt(30);
            ledger.trim = random.nextInt((int) ledger.end + 1);
            progress = new CursorProgress(ledger, new AckState(random.nextInt((int) ledger.end + 1)));
            for (long offset = 0; offset < ledger.end; offset++) {
                if (random.nextInt(3) > 0) {
                    ack(offset);
                }
            }
            progress.forceSeek(random.nextInt(35));
            boolean expected = progress.hasEntries(CursorLedger.BEYOND);
            long unread = progress.unread();
            RecordedRead read = read(1000);
            ledger.drain();
            assertEquals(!read.entries.isEmpty(), expected, "round " + round);
            assertEquals(read.entries.size(), unread, "round " + round);
            assertTrue(progress.backlog() >= 0 && progress.unread() == 0);
        }
    }
}
