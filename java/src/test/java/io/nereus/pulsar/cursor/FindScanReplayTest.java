package io.nereus.pulsar.cursor;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.FindEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.ScanOutcome;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** Operations that read without moving the cursor. */
public class FindScanReplayTest {

    private FakeLedger ledger;

    @BeforeMethod
    public void setUp() {
        ledger = new FakeLedger(100);
    }

    @AfterMethod
    public void tearDown() {
        ledger.close();
    }

    // ---- find

    /** Searches and answers the offset, or null. */
    private Long find(long start, long end, FindNewestOp.FirstEntry first, Predicate<Long> condition) {
        CompletableFuture<Position> found = new CompletableFuture<>();
        FindNewestOp.start(ledger, new AckState.Range(start, end), first, entry -> {
            try {
                return condition.test(entry.getEntryId());
            } finally {
                entry.release();
            }
        }, new FindEntryCallback() {
            @Override
            public void findEntryComplete(Position position, Object ctx) {
                assertTrue(found.complete(position), "called twice");
            }

            @Override
            public void findEntryFailed(ManagedLedgerException exception, Optional<Position> failedPosition,
                                        Object ctx) {
                assertTrue(failedPosition.isPresent());
                assertTrue(found.completeExceptionally(exception), "called twice");
            }
        }, null);
        ledger.drain();
        assertEquals(ledger.leaked(), 0);
        Position position = found.join();
        return position == null ? null : position.getEntryId();
    }

    @Test
    public void findsTheBorderInLogarithmicallyManyReads() {
        for (FindNewestOp.FirstEntry first : FindNewestOp.FirstEntry.values()) {
            for (int n = 1; n <= 70; n++) {
                for (int border = 0; border <= n; border++) {
                    ledger.readStarts.clear();
                    long limit = 10 + border;
                    Long found = find(10, 10 + n, first, offset -> offset < limit);
                    assertEquals(found, border == 0 ? null : Long.valueOf(limit - 1), n + " entries, border " + border);
                    double most = Math.log(n) / Math.log(2) + 2;
                    assertTrue(ledger.readStarts.size() <= most, ledger.readStarts.size() + " reads of " + n);
                }
            }
        }
    }

    @Test
    public void anEmptyRangeHasNoNewestEntry() {
        assertNull(find(10, 10, FindNewestOp.FirstEntry.ORDINARY, offset -> true));
        assertNull(find(20, 10, FindNewestOp.FirstEntry.MUST_MATCH, offset -> true));
    }

    @Test
    public void timesThatGoBackFindTheNearestEntry_case_039() {
        int[] times = {2, 1, 3, 5, 4, 6};
        ledger.end = times.length;
        Long[] expected = {null, 1L, 1L, 2L, 2L, 4L, 5L, 5L};
        for (int t = 0; t <= 7; t++) {
            int wanted = t;
            assertEquals(find(0, times.length, FindNewestOp.FirstEntry.ORDINARY,
                offset -> times[offset.intValue()] <= wanted), expected[t], "time " + t);
        }
        assertNull(find(0, times.length, FindNewestOp.FirstEntry.MUST_MATCH, offset -> times[offset.intValue()] <= 1),
            "expiry must not take the younger first entry");
    }

    @Test
    public void aFailedReadFailsTheSearchAndNamesThePlace() {
        ledger.nextReadFails = new ManagedLedgerException("damaged");
        try {
            find(0, 10, FindNewestOp.FirstEntry.ORDINARY, offset -> true);
            throw new AssertionError("the search succeeded");
        } catch (CompletionException e) {
            assertEquals(e.getCause().getMessage(), "damaged");
        }
    }

    @Test
    public void trimmingDuringASearchMovesItsStart() {
        ledger.holdReads = true;
        CompletableFuture<Position> found = new CompletableFuture<>();
        FindNewestOp.start(ledger, new AckState.Range(0, 100), FindNewestOp.FirstEntry.MUST_MATCH, entry -> {
            boolean matches = entry.getEntryId() < 60;
            entry.release();
            return matches;
        }, new FindEntryCallback() {
            @Override
            public void findEntryComplete(Position position, Object ctx) {
                found.complete(position);
            }

            @Override
            public void findEntryFailed(ManagedLedgerException exception, Optional<Position> failed, Object ctx) {
                found.completeExceptionally(exception);
            }
        }, null);
        ledger.drain();
        ledger.trim = 30;
        ledger.holdReads = false;
        ledger.releaseHeldReads();
        ledger.drain();
        assertEquals(found.join().getEntryId(), 59);
    }

    // ---- scan

    private final List<Long> seen = new ArrayList<>();

    private CompletableFuture<ScanOutcome> scan(CursorProgress progress, long start, long most, long timeOut) {
        seen.clear();
        CompletableFuture<ScanOutcome> outcome = ScanOp.start(ledger, progress, start, entry -> {
            seen.add(entry.getEntryId());
            return entry.getEntryId() != 77;
        }, 7, most, timeOut);
        ledger.drain();
        assertEquals(ledger.leaked(), 0);
        return outcome;
    }

    @Test
    public void aScanShowsWhatIsNotAcknowledged() {
        ledger.end = 30;
        CursorProgress progress = new CursorProgress(ledger, new AckState(2));
        progress.ack(List.of(new CursorProgress.Ack(4, null)));
        assertEquals(scan(progress, 2, 1000, 60_000).join(), ScanOutcome.COMPLETED);
        assertEquals(seen.size(), 27);
        assertEquals(seen.subList(0, 3), List.of(2L, 3L, 5L));
        assertEquals(progress.readOffset(), 2, "the read position stays");
    }

    @Test
    public void aScanEndsEarlyAfterEntriesTimeOrTheWishOfThePredicate() {
        CursorProgress progress = new CursorProgress(ledger, new AckState(0));
        assertEquals(scan(progress, 0, 10, 60_000).join(), ScanOutcome.ABORTED);
        assertEquals(seen.size(), 10);
        assertEquals(scan(progress, 0, 1000, -1).join(), ScanOutcome.ABORTED);
        assertEquals(seen.size(), 0);
        assertEquals(scan(progress, 0, 1000, 60_000).join(), ScanOutcome.USER_INTERRUPTED);
        assertEquals(seen.size(), 78);
        ledger.end = 50;
        assertEquals(scan(progress, 0, 50, 60_000).join(), ScanOutcome.COMPLETED, "exactly as many as allowed");
    }

    @Test
    public void aScanFailsWithTheRead() {
        ledger.nextReadFails = new ManagedLedgerException("damaged");
        assertTrue(scan(new CursorProgress(ledger, new AckState(0)), 0, 10, 60_000).isCompletedExceptionally());
    }

    @Test
    public void aPredicateThatThrowsAnythingEndsItsOperation() {
        CursorProgress progress = new CursorProgress(ledger, new AckState(0));
        CompletableFuture<ScanOutcome> scan = ScanOp.start(ledger, progress, 0, entry -> {
            throw new AssertionError("of the predicate");
        }, 7, 1000, 60_000);
        ledger.drain();
        assertTrue(scan.isCompletedExceptionally());
        assertEquals(ledger.leaked(), 0);
        assertThrows(CompletionException.class, () -> find(0, 50, FindNewestOp.FirstEntry.ORDINARY, offset -> {
            throw new AssertionError("of the predicate");
        }));
    }

    // ---- replay

    private RecordedRead replay(long... offsets) {
        RecordedRead read = new RecordedRead();
        ReplayOp.start(ledger, offsets, read, null);
        ledger.drain();
        assertEquals(read.calls, 1);
        return read;
    }

    @Test
    public void aReplayReadsNeighboursTogetherAndAnswersInOrder() {
        RecordedRead read = replay(3, 4, 5, 9, 20, 21);
        assertEquals(read.offsets(), List.of(3L, 4L, 5L, 9L, 20L, 21L));
        assertEquals(ledger.readStarts, List.of(3L, 9L, 20L));
        read.entries.forEach(Entry::release);
        assertEquals(ledger.leaked(), 0);
    }

    @Test
    public void aReplayThatFailsInPartReleasesWhatItRead() {
        ledger.nextReadFails = new ManagedLedgerException("damaged");
        assertEquals(replay(3, 9, 20).failure.getMessage(), "damaged");
        assertEquals(ledger.leaked(), 0);
        assertTrue(replay(98, 99, 100).failure.getMessage().contains("77:100"), "names the entry that is not there");
        assertEquals(ledger.leaked(), 0);
    }
}
