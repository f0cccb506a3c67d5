package io.nereus.pulsar.cursor;

import java.util.BitSet;
import java.util.Map;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ResetCursorCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ConcurrentFindCursorPositionException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.InvalidCursorPositionException;
import org.apache.bookkeeper.mledger.Position;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Moves a cursor to another place, forgetting what it acknowledged.
 *
 * <p>Promises: the entry at the new place is delivered afterwards, also after a crash; the answer comes exactly once,
 * on the ledger's executor, after the new place is kept; if it cannot be kept nothing changes. Mark-deletes that come
 * meanwhile are refused; reads that were under way end empty. One reset of a cursor at a time.
 */
public final class ResetOp {

    private static final Logger log = LoggerFactory.getLogger(ResetOp.class);

    private ResetOp() {
    }

    /**
     * Starts a reset. On the ledger's executor.
     *
     * @param offset     where reading goes on
     * @param unacked    if not null, the messages of the batch there that are still to be delivered, as set bits
     * @param kept       what of the cursor outlives the reset
     * @param done       told before the callback when the reset is done
     */
    public static void start(CursorLedger ledger, CursorProgress progress, CursorKeeper keeper, long offset,
                             long[] unacked, Kept kept, Runnable done, ResetCursorCallback callback) {
        Position place = ledger.position(offset);
        if (!progress.beginReset()) {
            callback.resetFailed(new ConcurrentFindCursorPositionException("a reset is under way"), place);
            return;
        }
        long markDeleteEnd = kept == Kept.NOTHING ? offset : progress.markDeleteEnd();
        AckState fresh = new AckState(markDeleteEnd);
        if (unacked != null && !BitSet.valueOf(unacked).isEmpty() && offset >= markDeleteEnd) {
            fresh.ackIndexes(offset, unacked);
        }
        Map<String, Long> properties = kept == Kept.NOTHING ? Map.of() : null;
        keeper.replace(fresh, offset, properties, new CursorKeeper.Completion() {
            @Override
            public void done() {
                done.run();
                callback.resetComplete(place);
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                log.warn("a reset to {} could not be kept: {}", place, exception.toString());
                InvalidCursorPositionException failure = new InvalidCursorPositionException(
                        "the reset to " + place + " could not be kept: " + exception.getMessage());
                failure.addSuppressed(exception);
                callback.resetFailed(failure, place);
            }
        });
    }

    /** What of a cursor outlives its reset. */
    public enum Kept {
        /** It is as if the cursor had begun at the place. */
        NOTHING,
        /** Only reading goes elsewhere. The cursor of compaction says with the two which data are compacted. */
        MARK_DELETE_AND_PROPERTIES
    }
}
