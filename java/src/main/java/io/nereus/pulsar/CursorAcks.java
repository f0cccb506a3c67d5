package io.nereus.pulsar;

import io.nereus.pulsar.cursor.AckState;
import io.nereus.pulsar.cursor.CursorKeeper;
import io.nereus.pulsar.cursor.CursorProgress;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ClearBacklogCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.MarkDeleteCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.SkipEntriesCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;

/**
 * The acknowledgements of one cursor: turns Pulsar's positions and sets of messages into offsets, and says what it
 * cannot take.
 *
 * <p>Owns no state. Promises: a call that is refused has changed nothing; an acknowledgement is answered once, on the
 * ledger's executor, after it is kept; a position of an older incarnation acknowledges nothing. Any thread.
 */
final class CursorAcks {

    private final NereusManagedCursor cursor;
    private final NereusManagedLedger ledger;
    private final CursorKeeper keeper;

    CursorAcks(NereusManagedCursor cursor, CursorKeeper keeper) {
        this.cursor = cursor;
        this.ledger = cursor.ledger;
        this.keeper = keeper;
    }

    void markDelete(Position position, Map<String, Long> properties, MarkDeleteCallback callback, Object ctx) {
        long[] unacked = AckSetStateUtil.getAckSetArrayOrNull(position);
        ManagedLedgerException refused = properties != null && PropertyEdits.hasNull(properties)
                ? new ManagedLedgerException("a property of the mark-delete at " + position + " has no name or no value")
                : batchRefusal(position, unacked);
        if (refused != null) {
            ledger.execute(() -> callback.markDeleteFailed(refused, ctx));
            return;
        }
        long offset = ledger.offset(position);
        if (offset >= ledger.committedEnd()) {
            ledger.execute(() -> callback.markDeleteFailed(beyondEnd(position), ctx));
        } else if (isWhole(unacked) || offset < 0) {
            markDelete(offset + 1, null, properties, callback, ctx);
        } else {
            // With messages of the entry itself left, only what lies before it is acknowledged as a whole.
            markDelete(offset, cursor.batchIndexes() ? unacked : null, properties, callback, ctx);
        }
    }

    private void markDelete(long end, long[] unacked, Map<String, Long> properties, MarkDeleteCallback callback,
                            Object ctx) {
        if (cursor.isClosed()) {
            ledger.execute(() -> callback.markDeleteFailed(cursor.closedException(), ctx));
            return;
        }
        ManagedLedgerException refused = switch (keeper.markDelete(end, unacked, properties)) {
            case DONE -> null;
            // The cause is how callers tell "already acknowledged" from a real failure.
            case BEHIND -> new ManagedLedgerException(new IllegalArgumentException("cursor " + cursor.getName()
                    + " has acknowledged up to " + cursor.getMarkDeletedPosition() + ", which is past "
                    + ledger.projection().markDeletePosition(end)));
            case RESETTING -> new ManagedLedgerException("cursor " + cursor.getName()
                    + " is being reset, it cannot mark-delete");
        };
        if (refused != null) {
            ledger.execute(() -> callback.markDeleteFailed(refused, ctx));
            return;
        }
        ledger.stats().addMarkDeleteOp();
        keeper.whenKept(new CursorKeeper.Completion() {
            @Override
            public void done() {
                callback.markDeleteComplete(ctx);
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                callback.markDeleteFailed(exception, ctx);
            }
        });
    }

    void delete(Iterable<Position> positions, DeleteCallback callback, Object ctx) {
        if (cursor.isClosed()) {
            ledger.execute(() -> callback.deleteFailed(cursor.closedException(), ctx));
            return;
        }
        boolean batchIndexes = cursor.batchIndexes();
        long end = ledger.committedEnd();
        List<CursorProgress.Ack> acks = new ArrayList<>();
        for (Position position : positions) {
            long offset = ledger.offset(position);
            if (offset >= end) {
                ledger.execute(() -> callback.deleteFailed(beyondEnd(position), ctx));
                return;
            }
            long[] unacked = AckSetStateUtil.getAckSetArrayOrNull(position);
            ManagedLedgerException refused = batchRefusal(position, unacked);
            if (refused != null) {
                ledger.execute(() -> callback.deleteFailed(refused, ctx));
                return;
            }
            boolean whole = isWhole(unacked);
            if (whole && position.getEntryId() >= 0 || !whole && batchIndexes) {
                acks.add(new CursorProgress.Ack(offset, whole ? null : unacked));
            }
        }
        cursor.progress.ack(acks);
        keeper.whenKept(new CursorKeeper.Completion() {
            @Override
            public void done() {
                callback.deleteComplete(ctx);
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                callback.deleteFailed(exception, ctx);
            }
        });
    }

    void clearBacklog(ClearBacklogCallback callback, Object ctx) {
        acknowledgeUpTo(ledger.committedEnd(), new CursorKeeper.Completion() {
            @Override
            public void done() {
                callback.clearBacklogComplete(ctx);
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                callback.clearBacklogFailed(exception, ctx);
            }
        });
    }

    /** Acknowledges everything below {@code end}, and what there is if that lies past the last entry. */
    void skip(long end, SkipEntriesCallback callback, Object ctx) {
        acknowledgeUpTo(Math.min(end, ledger.committedEnd()), new CursorKeeper.Completion() {
            @Override
            public void done() {
                callback.skipEntriesComplete(ctx);
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                callback.skipEntriesFailed(exception, ctx);
            }
        });
    }

    /** Acknowledges everything below {@code end}; that more was acknowledged meanwhile is as good. */
    private void acknowledgeUpTo(long end, CursorKeeper.Completion completion) {
        markDelete(end, null, null, new MarkDeleteCallback() {
            @Override
            public void markDeleteComplete(Object ctx) {
                completion.done();
            }

            @Override
            public void markDeleteFailed(ManagedLedgerException exception, Object ctx) {
                if (exception.getCause() instanceof IllegalArgumentException) {
                    keeper.whenKept(completion);
                } else {
                    completion.failed(exception);
                }
            }
        }, null);
    }

    /** Whether an acknowledgement leaves no message of the entry. */
    private static boolean isWhole(long[] unacked) {
        return unacked == null || BitSet.valueOf(unacked).isEmpty();
    }

    /** Refused before anything is changed, because it could never be made durable. */
    private static ManagedLedgerException batchRefusal(Position position, long[] unacked) {
        return unacked == null || unacked.length <= AckState.MAX_BATCH_WORDS ? null
                : new ManagedLedgerException("the batch at " + position + " is acknowledged message by message with "
                + unacked.length + " words; at most " + AckState.MAX_BATCH_WORDS + " (" + AckState.MAX_BATCH_WORDS * 64
                + " messages) are supported, acknowledge larger batches as a whole");
    }

    private ManagedLedgerException beyondEnd(Position position) {
        return new ManagedLedgerException("Invalid mark deleted position: " + position + " lies past the last entry "
                + ledger.getLastConfirmedEntry() + " of " + ledger.getName());
    }
}
