package io.nereus.pulsar;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ClearBacklogCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.FindEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.MarkDeleteCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ResetCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.SkipEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.util.ManagedLedgerUtils;

/**
 * The half of Pulsar's cursor interface that only says the other half in another way: each blocking call is its
 * asynchronous call and a wait, each short form is the long form with defaults.
 *
 * <p>Owns no state. A blocking call on the ledger's executor, where the answer it waits for would come, is refused.
 */
abstract class BlockingCursor implements ManagedCursor {

    static final long NO_MAX_SIZE_LIMIT = ManagedLedgerUtils.NO_MAX_SIZE_LIMIT;

    /** Whether this is the thread on which callbacks come: whoever blocked here would wait for itself. */
    abstract boolean isOnExecutor();

    /** The search of {@link #asyncFindNewestMatching}, within its bounds of now; it begins when it is run. */
    abstract Runnable search(FindPositionConstraint constraint, Predicate<Entry> condition, Position startPosition,
                             Position endPosition, FindEntryCallback callback, Object ctx);

    private <T> T result(CompletableFuture<T> future, String what) throws InterruptedException, ManagedLedgerException {
        Waiting.checkCanWait(future, what, isOnExecutor());
        return Waiting.forResult(future, what);
    }

    /** Refuses a read before it begins: entries that nobody takes would be lost to this cursor until it is rewound. */
    private void checkCanRead() throws ManagedLedgerException {
        if (isOnExecutor()) {
            throw new ManagedLedgerException("a blocking read of cursor " + getName() + " was called in a callback of"
                + " the same ledger and would wait for itself: use the asynchronous call");
        }
    }

    // ---- reads

    @Override
    public List<Entry> readEntries(int numberOfEntriesToRead) throws InterruptedException, ManagedLedgerException {
        checkCanRead();
        Read read = new Read();
        asyncReadEntries(numberOfEntriesToRead, read, null, PositionFactory.LATEST);
        return read.await();
    }

    @Override
    public void asyncReadEntries(int numberOfEntriesToRead, ReadEntriesCallback callback, Object ctx,
                                 Position maxPosition) {
        asyncReadEntries(numberOfEntriesToRead, NO_MAX_SIZE_LIMIT, callback, ctx, maxPosition);
    }

    @Override
    public void asyncReadEntries(int numberOfEntriesToRead, long maxSizeBytes, ReadEntriesCallback callback, Object ctx,
                                 Position maxPosition) {
        asyncReadEntriesWithSkip(numberOfEntriesToRead, maxSizeBytes, callback, ctx, maxPosition, null);
    }

    @Override
    public List<Entry> readEntriesOrWait(int numberOfEntriesToRead)
            throws InterruptedException, ManagedLedgerException {
        return readEntriesOrWait(numberOfEntriesToRead, NO_MAX_SIZE_LIMIT);
    }

    @Override
    public List<Entry> readEntriesOrWait(int maxEntries, long maxSizeBytes)
            throws InterruptedException, ManagedLedgerException {
        checkCanRead();
        Read read = new Read();
        asyncReadEntriesOrWait(maxEntries, maxSizeBytes, read, null, PositionFactory.LATEST);
        return read.await();
    }

    @Override
    public void asyncReadEntriesOrWait(int numberOfEntriesToRead, ReadEntriesCallback callback, Object ctx,
                                       Position maxPosition) {
        asyncReadEntriesOrWait(numberOfEntriesToRead, NO_MAX_SIZE_LIMIT, callback, ctx, maxPosition);
    }

    @Override
    public void asyncReadEntriesOrWait(int maxEntries, long maxSizeBytes, ReadEntriesCallback callback, Object ctx,
                                       Position maxPosition) {
        asyncReadEntriesWithSkipOrWait(maxEntries, maxSizeBytes, callback, ctx, maxPosition, null);
    }

    @Override
    public void asyncReadEntriesWithSkipOrWait(int maxEntries, ReadEntriesCallback callback, Object ctx,
                                               Position maxPosition, Predicate<Position> skipCondition) {
        asyncReadEntriesWithSkipOrWait(maxEntries, NO_MAX_SIZE_LIMIT, callback, ctx, maxPosition, skipCondition);
    }

    @Override
    public Entry getNthEntry(int n, IndividualDeletedEntries deletedEntries)
            throws InterruptedException, ManagedLedgerException {
        checkCanRead();
        CompletableFuture<Entry> found = new CompletableFuture<>();
        asyncGetNthEntry(n, deletedEntries, new ReadEntryCallback() {
            @Override
            public void readEntryComplete(Entry entry, Object ctx) {
                if (!found.complete(entry) && entry != null) {
                    entry.release(); // the caller has stopped waiting
                }
            }

            @Override
            public void readEntryFailed(ManagedLedgerException exception, Object ctx) {
                found.completeExceptionally(exception);
            }
        }, null);
        try {
            return Waiting.forResult(found, "reading entry " + n + " of the backlog of cursor " + getName());
        } finally {
            found.cancel(false);
        }
    }

    @Override
    public List<Entry> replayEntries(Set<? extends Position> positions)
            throws InterruptedException, ManagedLedgerException {
        checkCanRead();
        Read read = new Read();
        Set<? extends Position> acknowledged = asyncReplayEntries(positions, read, null);
        if (!positions.isEmpty() && acknowledged.size() == positions.size()) {
            return new ArrayList<>(); // nothing is read, so nothing is called back
        }
        return read.await();
    }

    @Override
    public Set<? extends Position> asyncReplayEntries(Set<? extends Position> positions, ReadEntriesCallback callback,
                                                      Object ctx) {
        return asyncReplayEntries(positions, callback, ctx, false);
    }

    // ---- acknowledgements

    @Override
    public void markDelete(Position position) throws InterruptedException, ManagedLedgerException {
        markDelete(position, Map.of());
    }

    @Override
    public void markDelete(Position position, Map<String, Long> properties)
            throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Void> done = new CompletableFuture<>();
        asyncMarkDelete(position, properties, new MarkDeleteCallback() {
            @Override
            public void markDeleteComplete(Object ctx) {
                done.complete(null);
            }

            @Override
            public void markDeleteFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
        result(done, "mark-delete of cursor " + getName());
    }

    @Override
    public void asyncMarkDelete(Position position, MarkDeleteCallback callback, Object ctx) {
        asyncMarkDelete(position, Map.of(), callback, ctx);
    }

    @Override
    public void delete(Position position) throws InterruptedException, ManagedLedgerException {
        delete(List.of(position));
    }

    @Override
    public void asyncDelete(Position position, DeleteCallback callback, Object ctx) {
        asyncDelete(List.of(position), callback, ctx);
    }

    @Override
    public void delete(Iterable<Position> positions) throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Void> done = new CompletableFuture<>();
        asyncDelete(positions, new DeleteCallback() {
            @Override
            public void deleteComplete(Object ctx) {
                done.complete(null);
            }

            @Override
            public void deleteFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
        result(done, "acknowledging on cursor " + getName());
    }

    @Override
    public void clearBacklog() throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Void> done = new CompletableFuture<>();
        asyncClearBacklog(new ClearBacklogCallback() {
            @Override
            public void clearBacklogComplete(Object ctx) {
                done.complete(null);
            }

            @Override
            public void clearBacklogFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
        result(done, "clearing the backlog of cursor " + getName());
    }

    @Override
    public void skipEntries(int numEntriesToSkip, IndividualDeletedEntries deletedEntries)
            throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Void> done = new CompletableFuture<>();
        asyncSkipEntries(numEntriesToSkip, deletedEntries, new SkipEntriesCallback() {
            @Override
            public void skipEntriesComplete(Object ctx) {
                done.complete(null);
            }

            @Override
            public void skipEntriesFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
        result(done, "skipping entries of cursor " + getName());
    }

    // ---- positions

    @Override
    public Position findNewestMatching(Predicate<Entry> condition) throws InterruptedException, ManagedLedgerException {
        return findNewestMatching(FindPositionConstraint.SearchActiveEntries, condition);
    }

    @Override
    public Position findNewestMatching(FindPositionConstraint constraint, Predicate<Entry> condition)
            throws InterruptedException, ManagedLedgerException {
        checkCanRead();
        CompletableFuture<Position> found = new CompletableFuture<>();
        search(constraint, condition, null, null, new FindEntryCallback() {
            @Override
            public void findEntryComplete(Position position, Object ctx) {
                found.complete(position);
            }

            @Override
            public void findEntryFailed(ManagedLedgerException exception, Optional<Position> failedReadPosition,
                                        Object ctx) {
                found.completeExceptionally(exception);
            }
        }, null).run();
        return Waiting.forOutcome(found);
    }

    @Override
    public void asyncFindNewestMatching(FindPositionConstraint constraint, Predicate<Entry> condition,
                                        FindEntryCallback callback, Object ctx) {
        asyncFindNewestMatching(constraint, condition, callback, ctx, false);
    }

    @Override
    public void asyncFindNewestMatching(FindPositionConstraint constraint, Predicate<Entry> condition,
                                        FindEntryCallback callback, Object ctx, boolean isFindFromLedger) {
        asyncFindNewestMatching(constraint, condition, null, null, callback, ctx, isFindFromLedger);
    }

    @Override
    public void resetCursor(Position position) throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Void> done = new CompletableFuture<>();
        asyncResetCursor(position, false, new ResetCursorCallback() {
            @Override
            public void resetComplete(Object ctx) {
                done.complete(null);
            }

            @Override
            public void resetFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        });
        result(done, "resetting cursor " + getName());
    }

    @Override
    public void rewind() {
        rewind(false);
    }

    // ---- end of life

    @Override
    public void close() throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Void> done = new CompletableFuture<>();
        asyncClose(Callbacks.closed(done), null);
        result(done, "closing cursor " + getName());
    }

    private static final class Read implements ReadEntriesCallback {

        private final CompletableFuture<List<Entry>> future = new CompletableFuture<>();

        List<Entry> await() throws InterruptedException, ManagedLedgerException {
            try {
                return Waiting.forOutcome(future);
            } finally {
                future.cancel(false); // changes nothing unless the caller was interrupted
            }
        }

        @Override
        public void readEntriesComplete(List<Entry> entries, Object ctx) {
            if (!future.complete(entries)) {
                entries.forEach(Entry::release);
            }
        }

        @Override
        public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
            future.completeExceptionally(exception);
        }
    }
}
