package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNotSame;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ConcurrentWaitCallbackException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.NoMoreEntriesToReadException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.ScanOutcome;
import org.apache.bookkeeper.mledger.impl.EntryImpl;
import org.testng.annotations.Test;

/** Reads of a cursor over a real engine. */
public class CursorReadTest extends CursorFixture {

    private static <T> T await(CompletableFuture<T> future) throws Exception {
        return future.get(SECONDS, TimeUnit.SECONDS);
    }

    private static Throwable failure(CompletableFuture<?> future) {
        return expectThrows(ExecutionException.class, () -> await(future)).getCause();
    }

    @Test
    public void readsInOrderAndMovesOn() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(5);
        assertTrue(cursor.hasMoreEntries());
        List<Entry> entries = cursor.readEntries(3);
        assertEquals(entries.get(2).getPosition(), positions.get(2));
        assertEquals(((EntryImpl) entries.get(0)).refCnt(), 1, "one reference, the receiver's");
        entries.set(1, entries.get(1)); // dispatchers replace elements
        assertEquals(LedgerFixture.texts(entries), messages(0, 3));
        assertEquals(cursor.getReadPosition(), positions.get(3));
        assertEquals(cursor.getNumberOfEntries(), 2);
        assertEquals(read(cursor, 10), messages(3, 5));
        assertFalse(cursor.hasMoreEntries());
        assertEquals(read(cursor, 10), List.of());
        cursor.rewind();
        assertEquals(read(cursor, 10), messages(0, 5));
    }

    @Test
    public void aReadStopsAtItsMaximumPosition() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(5);
        CompletableFuture<List<Entry>> read = new CompletableFuture<>();
        cursor.asyncReadEntries(10, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                read.complete(entries);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                read.completeExceptionally(exception);
            }
        }, null, positions.get(1));
        assertEquals(LedgerFixture.texts(await(read)), messages(0, 2));
    }

    @Test
    public void aWaitingReadGetsTheNextEntry() throws Exception {
        ManagedCursor cursor = latest("sub");
        CompletableFuture<List<Entry>> read = readOrWait(cursor, 10);
        assertTrue(failure(readOrWait(cursor, 10)) instanceof ConcurrentWaitCallbackException);
        assertFalse(read.isDone());
        add(1);
        assertEquals(LedgerFixture.texts(await(read)), messages(0, 1));
        assertEquals(ledger.waitingCursors(), 0);
    }

    @Test
    public void aCancelledWaitIsOver_case_017() throws Exception {
        ManagedCursor cursor = latest("sub");
        CompletableFuture<List<Entry>> read = readOrWait(cursor, 10);
        assertTrue(cursor.cancelPendingReadRequest());
        assertFalse(cursor.cancelPendingReadRequest());
        add(1);
        assertEquals(LedgerFixture.texts(await(readOrWait(cursor, 10))), messages(0, 1));
        assertFalse(read.isDone());
    }

    @Test
    public void waitsEndWithTheirCursorAndWithTheTopic() throws Exception {
        ManagedCursor closing = latest("a");
        ManagedCursor deleted = latest("b");
        ManagedCursor terminated = latest("c");
        CompletableFuture<List<Entry>> onClosing = readOrWait(closing, 1);
        CompletableFuture<List<Entry>> onDeleted = readOrWait(deleted, 1);
        CompletableFuture<List<Entry>> onTerminated = readOrWait(terminated, 1);
        closing.close();
        assertTrue(failure(onClosing) instanceof CursorAlreadyClosedException);
        ledger.deleteCursor("b");
        assertTrue(failure(onDeleted) instanceof CursorAlreadyClosedException);
        assertTrue(deleted.isClosed());
        assertFalse(onTerminated.isDone());
        ledger.terminate();
        assertTrue(failure(onTerminated) instanceof NoMoreEntriesToReadException);
        assertTrue(failure(readOrWait(terminated, 1)) instanceof NoMoreEntriesToReadException);
        assertTrue(failure(readOrWait(closing, 1)) instanceof CursorAlreadyClosedException);
        assertEquals(ledger.waitingCursors(), 0);
    }

    @Test
    public void callbacksNeverNestHoweverManyReadsChain() throws Exception {
        ManagedCursor cursor = earliest("sub");
        add(1);
        int rounds = 20_000;
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger left = new AtomicInteger(rounds);
        cursor.asyncReadEntries(1, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                entries.forEach(Entry::release);
                if (left.decrementAndGet() == 0) {
                    done.countDown();
                } else {
                    if (left.get() % 3 == 0) {
                        cursor.rewind();
                    }
                    cursor.asyncReadEntries(1, this, ctx, PositionFactory.LATEST);
                }
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                throw new AssertionError(exception);
            }
        }, null, PositionFactory.LATEST);
        assertTrue(done.await(SECONDS, TimeUnit.SECONDS), left + " reads are left");
    }

    @Test
    public void aReplayReadsWhatIsNotAcknowledged() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(8);
        cursor.delete(List.of(positions.get(2), positions.get(5)));
        Set<Position> wanted = new HashSet<>(List.of(positions.get(7), positions.get(1), positions.get(2),
            positions.get(3), positions.get(5)));
        CompletableFuture<List<Entry>> replayed = new CompletableFuture<>();
        Set<? extends Position> acknowledged = cursor.asyncReplayEntries(wanted, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                replayed.complete(entries);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                replayed.completeExceptionally(exception);
            }
        }, null);
        assertEquals(acknowledged, Set.of(positions.get(2), positions.get(5)));
        assertEquals(LedgerFixture.texts(await(replayed)), List.of("m1", "m3", "m7"));
        assertEquals(cursor.getReadPosition(), positions.get(0));
        assertEquals(cursor.replayEntries(Set.of(positions.get(5))), List.of());
        assertEquals(cursor.replayEntries(Set.of()), List.of());
    }

    @Test
    public void aReplayOfTheNextEntryMovesTheReadPositionPastIt() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(3);
        assertEquals(LedgerFixture.texts(cursor.replayEntries(Set.of(positions.get(0), positions.get(1)))),
            messages(0, 2));
        assertEquals(read(cursor, 10), messages(2, 3));
    }

    @Test
    public void trimmingAListReleasesAcknowledgedEntries() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(4);
        List<Entry> entries = cursor.readEntries(4);
        Entry second = entries.get(1);
        cursor.delete(positions.get(1));
        cursor.trimDeletedEntries(entries);
        assertEquals(entries.size(), 3);
        assertEquals(((EntryImpl) second).refCnt(), 0);
        assertEquals(LedgerFixture.texts(entries), List.of("m0", "m2", "m3"));
    }

    @Test
    public void aScanShowsTheBacklog() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(10);
        cursor.markDelete(positions.get(1));
        cursor.delete(positions.get(4));
        List<Position> seen = new ArrayList<>();
        assertEquals(await(cursor.scan(Optional.empty(), entry -> seen.add(entry.getPosition()), 3, 100, 60_000)),
            ScanOutcome.COMPLETED);
        assertEquals(seen.size(), 7);
        assertEquals(seen.get(0), positions.get(2));
        assertEquals(cursor.getReadPosition(), positions.get(2));
    }

    @Test
    public void aReaderHasItsOwnPlaceAndItsAcksAreAnsweredAtOnce() throws Exception {
        List<Position> positions = add(6);
        ManagedCursor all = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "all");
        ManagedCursor later = ledger.newNonDurableCursor(positions.get(2), "later");
        ManagedCursor end = ledger.newNonDurableCursor(PositionFactory.LATEST, "end");
        assertBacklog(all, 6);
        assertBacklog(later, 3);
        assertBacklog(end, 0);
        assertEquals(read(later, 10), messages(3, 6));
        assertEquals(read(all, 2), messages(0, 2));
        all.markDelete(positions.get(0));
        all.delete(positions.get(3));
        assertBacklog(all, 4);
        assertFalse(all.isDurable());
        assertNull(all.getPersistentMarkDeletedPosition());
        all.rewind();
        assertEquals(read(all, 10), List.of("m1", "m2", "m4", "m5"));
        await(resetLater(all, positions.get(0), false));
        assertEquals(read(all, 10), messages(0, 6));
        add(1);
        assertEquals(read(end, 10), messages(6, 7));
        all.close();
        assertTrue(all.isClosed());
    }

    @Test
    public void aDuplicateOfACursorHasItsAcksAndNothingElseInCommon() throws Exception {
        NereusManagedCursor cursor = earliest("sub");
        List<Position> positions = add(6);
        cursor.markDelete(positions.get(0));
        cursor.delete(positions.get(2));
        ManagedCursor duplicate = cursor.duplicateNonDurableCursor("copy");
        assertNotSame(duplicate, cursor);
        assertEquals(read(duplicate, 10), List.of("m1", "m3", "m4", "m5"));
        duplicate.delete(positions.get(4));
        assertBacklog(duplicate, 3);
        assertBacklog(cursor, 4);
    }

    @Test
    public void theSizeCapEstimatesEntriesAndIsNeverZero() throws Exception {
        ManagedCursor cursor = earliest("sub");
        assertEquals(cursor.applyMaxSizeCap(50, 1000), 50, "nothing is known yet");
        for (int i = 0; i < 20; i++) {
            ledger.addEntry(new byte[936]);
        }
        assertEquals(cursor.applyMaxSizeCap(50, 10_000), 10);
        assertEquals(cursor.applyMaxSizeCap(50, 1), 1);
        assertEquals(cursor.applyMaxSizeCap(50, -1), 50);
        assertEquals(cursor.applyMaxSizeCap(50, Long.MAX_VALUE), 50);
    }
}
