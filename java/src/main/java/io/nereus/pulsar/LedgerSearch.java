package io.nereus.pulsar;

import io.nereus.pulsar.cursor.AckState;
import io.nereus.pulsar.cursor.FindNewestOp;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.FindEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.LedgerNotExistException;
import org.apache.bookkeeper.mledger.Position;

/**
 * Reads and searches of one ledger that no cursor is involved in.
 *
 * <p>Promises: each ends exactly once; what reads entry by entry on one of the {@link AnswerThreads}, where the broker
 * may block, the others on the ledger's executor. An entry handed to a read's callback or to the predicate of
 * {@link #firstAfterMatching} belongs to the receiver; the predicate of {@link #lastMatchingUpTo} only looks. Both as
 * in stock, whose callers rely on it.
 */
final class LedgerSearch {

    private final NereusManagedLedger ledger;
    private final LedgerExtent extent;
    private final EntryReader reader;
    private final Executor answers;

    /**
     * @param answers where reads of one entry are answered
     */
    LedgerSearch(NereusManagedLedger ledger, LedgerExtent extent, EntryReader reader, Executor answers) {
        this.ledger = ledger;
        this.extent = extent;
        this.reader = reader;
        this.answers = answers;
    }

    /**
     * Reads the entry at {@code position}. A ledger that is not one of this topic's live ones fails with
     * {@link LedgerNotExistException}, which the broker answers with "not found"; a place that holds no entry fails too.
     */
    void read(Position position, ReadEntryCallback callback, Object ctx) {
        Projection projection = extent.projection();
        long end = extent.committedEnd();
        if (!extent.spans().contains(position.getLedgerId())) {
            refuse(new LedgerNotExistException("ledger " + position.getLedgerId() + " does not belong to "
                + ledger.getName() + " or was deleted"), callback, ctx);
        } else if (position.getEntryId() < 0 || !projection.owns(position)
                || projection.offset(position) >= end) {
            refuse(new ManagedLedgerException(ledger.getName() + " has no entry at " + position), callback, ctx);
        } else {
            reader.readOne(projection.offset(position), end, answeredElsewhere(callback), ctx);
        }
    }

    /** Reads the entry at {@code offset}, which was below the committed end. */
    void readAt(long offset, ReadEntryCallback callback, Object ctx) {
        reader.readOne(offset, extent.committedEnd(), callback, ctx);
    }

    private void refuse(ManagedLedgerException refusal, ReadEntryCallback callback, Object ctx) {
        answers.execute(() -> callback.readEntryFailed(refusal, ctx));
    }

    private ReadEntryCallback answeredElsewhere(ReadEntryCallback callback) {
        return new ReadEntryCallback() {
            @Override
            public void readEntryComplete(Entry entry, Object ctx) {
                answers.execute(() -> callback.readEntryComplete(entry, ctx));
            }

            @Override
            public void readEntryFailed(ManagedLedgerException exception, Object ctx) {
                answers.execute(() -> callback.readEntryFailed(exception, ctx));
            }
        };
    }

    /** The place after the newest entry that matches; the first entry's if none does. */
    CompletableFuture<Position> firstAfterMatching(Predicate<Entry> predicate) {
        CompletableFuture<Position> found = new CompletableFuture<>();
        long trim = extent.trimOffset();
        long end = extent.committedEnd();
        Position first = extent.projection().position(Math.min(trim, end));
        FindNewestOp.start(ledger, new AckState.Range(trim, end), FindNewestOp.FirstEntry.MUST_MATCH, predicate,
            new FindEntryCallback() {
                @Override
                public void findEntryComplete(Position position, Object ctx) {
                    found.complete(position == null ? first : extent.navigator().next(position));
                }

                @Override
                public void findEntryFailed(ManagedLedgerException exception, Optional<Position> failedReadPosition,
                                            Object ctx) {
                    found.completeExceptionally(exception);
                }
            }, null);
        return found;
    }

    /** The last entry at or before {@code start} that satisfies {@code predicate}. */
    CompletableFuture<Position> lastMatchingUpTo(Position start, Predicate<Entry> predicate) {
        CompletableFuture<Position> found = new CompletableFuture<>();
        new BackwardSearch(ledger, predicate, found).from(start);
        return found;
    }

    /** When the first entry after {@code acknowledged} was published, in milliseconds; -1 if there is none. */
    CompletableFuture<Long> publishTimeAfter(Position acknowledged) {
        long end = extent.committedEnd();
        long offset = extent.navigator().offsetAfter(acknowledged);
        if (offset >= end) {
            return CompletableFuture.completedFuture(-1L);
        }
        CompletableFuture<Long> publishTime = new CompletableFuture<>();
        reader.readOne(offset, end, Callbacks.publishTime(publishTime), null);
        return publishTime;
    }
}
