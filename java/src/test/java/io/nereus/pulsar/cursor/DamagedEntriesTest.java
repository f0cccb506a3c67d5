package io.nereus.pulsar.cursor;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNotNull;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.bookkeeper.mledger.AsyncCallbacks.FindEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** What becomes of entries whose stored bytes are damaged, without an engine. */
public class DamagedEntriesTest {

    private FakeLedger ledger;
    private CursorProgress progress;
    private DamagedEntries damaged;

    @BeforeMethod
    public void setUp() {
        ledger = new FakeLedger(100);
        progress = new CursorProgress(ledger, new AckState(0));
        CursorKeeper keeper = new VolatileKeeper(ledger, progress, Map.of(), (before, now) -> { });
        damaged = new DamagedEntries("c", ledger, progress, keeper);
    }

    @AfterMethod
    public void tearDown() {
        ledger.close();
    }

    private RecordedRead read(int maxEntries) {
        RecordedRead read = new RecordedRead();
        ReadOp.start(ledger, progress, read.request(maxEntries), () -> { }, damaged);
        ledger.drain();
        assertEquals(read.calls, 1, "answered once");
        return read;
    }

    private static List<Long> offsets(int from, int to, Long... without) {
        List<Long> all = new ArrayList<>();
        for (long offset = from; offset < to; offset++) {
            all.add(offset);
        }
        all.removeAll(List.of(without));
        return all;
    }

    @Test
    public void withoutTheSettingEverythingBeforeTheDamageIsDeliveredAndNothingIsPassedOver_case_041() {
        ledger.damaged.addAll(List.of(4L, 5L));
        assertEquals(read(8).offsets(), List.of(0L, 1L, 2L, 3L));
        RecordedRead second = read(8);
        assertTrue(DamagedEntries.isDamage(second.failure), "got " + second.failure);
        assertEquals(progress.readOffset(), 4);
        assertFalse(progress.isAcked(4));
    }

    @Test
    public void withTheSettingOnlyTheDamagedEntriesArePassedOver_case_041() {
        ledger.skipsDamaged = true;
        ledger.damaged.addAll(List.of(4L, 5L));
        List<Long> delivered = new ArrayList<>(read(8).offsets());
        delivered.addAll(read(96).offsets());
        delivered.addAll(read(96).offsets());
        assertEquals(delivered.stream().distinct().sorted().toList(), offsets(0, 100, 4L, 5L));
        assertEquals(delivered.size(), 98, "none twice");
        assertEquals(progress.firstRanges(10), List.of(new AckState.Range(4, 6)), "and they count as acknowledged");
        assertEquals(progress.backlog(), 98);
    }

    @Test
    public void whatFailsOtherwiseIsNeverTakenForDamage_case_041() {
        ledger.skipsDamaged = true;
        ledger.nextReadFails = new ManagedLedgerException("timed out");
        RecordedRead read = read(8);
        assertEquals(read.failure.getMessage(), "timed out");
        assertEquals(progress.backlog(), 100);
        assertEquals(read(8).offsets().size(), 8);
    }

    @Test
    public void aDamagedEndIsNotPassedOverBeforeAGoodEntryFollows() {
        ledger.skipsDamaged = true;
        progress.seek(97);
        ledger.damaged.addAll(List.of(98L, 99L));
        assertEquals(read(8).offsets(), List.of(97L));
        assertNotNull(read(8).failure);
        assertFalse(progress.isAcked(98));
        ledger.end = 101;
        assertEquals(read(8).offsets(), List.of(100L));
        assertTrue(progress.isAcked(98) && progress.isAcked(99));
    }

    @Test
    public void aBacklogThatIsDamagedAsAWholeIsNotPassedOver() {
        ledger.skipsDamaged = true;
        ledger.end = DamagedEntries.LONGEST_RUN + 1000;
        for (long offset = 10; offset < DamagedEntries.LONGEST_RUN + 500; offset++) {
            ledger.damaged.add(offset);
        }
        progress.seek(10);
        assertNotNull(read(1).failure);
        assertEquals(progress.backlog(), ledger.end);
    }

    @Test
    public void anAcknowledgedDamagedEntryHidesNoGoodOne() {
        ledger.damaged.add(3L);
        progress.ack(List.of(new CursorProgress.Ack(3, null)));
        List<Long> delivered = new ArrayList<>(read(6).offsets());
        delivered.addAll(read(6).offsets());
        assertEquals(delivered.subList(0, 7), List.of(0L, 1L, 2L, 4L, 5L, 6L, 7L));
    }

    @Test
    public void aReplayLeavesTheDamagedEntriesOut_case_041() {
        ledger.skipsDamaged = true;
        ledger.damaged.addAll(List.of(4L, 5L));
        long[] offsets = {2, 3, 4, 5, 7};
        RecordedRead replayed = new RecordedRead();
        ReplayOp.start(ledger, offsets, damaged.replaying(offsets, replayed), null);
        ledger.drain();
        assertEquals(replayed.calls, 1);
        assertEquals(replayed.offsets(), List.of(2L, 3L, 7L));
        assertTrue(progress.isAcked(4) && progress.isAcked(5));
        ledger.skipsDamaged = false;
        ledger.damaged.add(7L);
        RecordedRead refused = new RecordedRead();
        ReplayOp.start(ledger, offsets, damaged.replaying(offsets, refused), null);
        ledger.drain();
        assertNotNull(refused.failure);
        replayed.entries.forEach(Entry::release);
        assertEquals(ledger.leaked(), 0);
    }

    @Test
    public void aSearchPassesOverDamagedEntriesWhereTheSettingAsksForIt_case_041() {
        ledger.damaged.addAll(List.of(0L, 48L, 49L, 50L, 51L, 99L));
        assertNull(newestUpTo(30, FindNewestOp.FirstEntry.MUST_MATCH));
        ledger.skipsDamaged = true;
        for (int limit = 1; limit < 99; limit++) {
            if (!ledger.damaged.contains((long) limit)) {
                assertEquals(newestUpTo(limit, FindNewestOp.FirstEntry.MUST_MATCH), ledger.position(limit));
                assertEquals(newestUpTo(limit, FindNewestOp.FirstEntry.ORDINARY), ledger.position(limit));
            }
        }
        assertEquals(newestUpTo(50, FindNewestOp.FirstEntry.ORDINARY), ledger.position(47));
        assertEquals(newestUpTo(200, FindNewestOp.FirstEntry.ORDINARY), ledger.position(98));
    }

    private Position newestUpTo(int number, FindNewestOp.FirstEntry first) {
        List<Position> found = new ArrayList<>();
        FindNewestOp.start(ledger, new AckState.Range(0, 100), first, entry -> {
            try {
                return Integer.parseInt(new String(entry.getData()).trim()) <= number;
            } finally {
                entry.release();
            }
        }, new FindEntryCallback() {
            @Override
            public void findEntryComplete(Position position, Object ctx) {
                found.add(position);
            }

            @Override
            public void findEntryFailed(ManagedLedgerException exception, Optional<Position> at, Object ctx) {
                found.add(null);
            }
        }, null);
        ledger.drain();
        assertEquals(found.size(), 1, "answered once");
        return found.get(0);
    }
}
