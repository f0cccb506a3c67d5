package io.nereus.pulsar;

import com.google.common.collect.Range;
import io.nereus.pulsar.cursor.AckState;
import io.nereus.pulsar.cursor.CursorProgress;
import io.nereus.pulsar.cursor.FindNewestOp;
import io.nereus.pulsar.cursor.ReadOp;
import io.nereus.pulsar.cursor.ReadRequest;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.FindEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor.FindPositionConstraint;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;

/**
 * A place in a read-only ledger that moves forward as entries are read. Acknowledges nothing and is never stored.
 *
 * <p>Promises: callbacks run exactly once, on the ledger's thread; a closed cursor refuses reads.
 */
final class NereusReadOnlyCursor implements ReadOnlyCursor {

    private final NereusReadOnlyManagedLedger ledger;
    private final CursorProgress progress;
    private final Runnable onClose;
    private volatile boolean closed;

    /**
     * @param start   offset of the first entry to read
     * @param onClose run once, when the cursor is closed
     */
    NereusReadOnlyCursor(NereusReadOnlyManagedLedger ledger, long start, Runnable onClose) {
        this.ledger = ledger;
        this.progress = new CursorProgress(ledger, new AckState(start));
        this.onClose = onClose;
    }

    @Override
    public List<Entry> readEntries(int numberOfEntriesToRead) throws InterruptedException, ManagedLedgerException {
        CompletableFuture<List<Entry>> read = new CompletableFuture<>();
        asyncReadEntries(numberOfEntriesToRead, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                read.complete(entries);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                read.completeExceptionally(exception);
            }
        }, null, PositionFactory.LATEST);
        return Waiting.forOutcome(read);
    }

    @Override
    public void asyncReadEntries(int numberOfEntriesToRead, ReadEntriesCallback callback, Object ctx,
                                 Position maxPosition) {
        asyncReadEntries(numberOfEntriesToRead, Long.MAX_VALUE, callback, ctx, maxPosition);
    }

    @Override
    public void asyncReadEntries(int numberOfEntriesToRead, long maxSizeBytes, ReadEntriesCallback callback, Object ctx,
                                 Position maxPosition) {
        if (closed) {
            ledger.executor().execute(() -> callback.readEntriesFailed(
                new CursorAlreadyClosedException("the read-only cursor of " + ledger.name() + " is closed"), ctx));
            return;
        }
        long maxBytes = maxSizeBytes > 0 ? maxSizeBytes : Long.MAX_VALUE; // Pulsar's -1 is "no limit"
        long limit = maxPosition == null ? Long.MAX_VALUE : ledger.offset(maxPosition) + 1;
        ReadOp.start(ledger, progress, new ReadRequest(numberOfEntriesToRead, maxBytes, limit, null, callback, ctx),
            () -> { });
    }

    @Override
    public Position getReadPosition() {
        return ledger.position(progress.readOffset());
    }

    @Override
    public boolean hasMoreEntries() {
        return progress.hasEntries(Long.MAX_VALUE);
    }

    @Override
    public long getNumberOfEntries() {
        return progress.unread();
    }

    @Override
    public void skipEntries(int numEntriesToSkip) {
        progress.seek(progress.readOffset() + numEntriesToSkip);
    }

    @Override
    public Position findNewestMatching(FindPositionConstraint constraint, Predicate<Entry> condition)
            throws InterruptedException, ManagedLedgerException {
        long start = constraint == FindPositionConstraint.SearchActiveEntries ? progress.readOffset()
            : ledger.trimOffset();
        CompletableFuture<Position> found = new CompletableFuture<>();
        FindNewestOp.start(ledger, new AckState.Range(start, ledger.committedEnd()),
            FindNewestOp.FirstEntry.MUST_MATCH, condition, new FindEntryCallback() {
                @Override
                public void findEntryComplete(Position position, Object ctx) {
                    found.complete(position);
                }

                @Override
                public void findEntryFailed(ManagedLedgerException exception, Optional<Position> failedReadPosition,
                                            Object ctx) {
                    found.completeExceptionally(exception);
                }
            }, null);
        return Waiting.forOutcome(found);
    }

    @Override
    public long getNumberOfEntries(Range<Position> range) {
        return ledger.entriesWithin(range);
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            onClose.run();
        }
    }

    @Override
    public void asyncClose(CloseCallback callback, Object ctx) {
        close();
        callback.closeComplete(ctx);
    }
}
