package io.nereus.pulsar;

import io.nereus.pulsar.bridge.NativeStream;
import java.time.Clock;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;

/** BORDER ONLY, being written: the package-private surface for cursors. Becomes a final class shortly. */
abstract class NereusManagedLedger implements ManagedLedger {
    /** Arithmetic between positions and offsets. */
    abstract Projection projection();
    abstract NativeStream stream();
    /** Ordered, single-threaded semantics; all callbacks of this ledger and its cursors run on it. */
    abstract Executor executor();
    /** For delayed work (newEntriesCheckDelay, rate limits); hop onto executor() from it. */
    abstract ScheduledExecutorService scheduler();
    /** Last confirmed offset + 1. Moves on executor() before addComplete. Readable from any thread. */
    abstract long committedEnd();
    /** First readable offset. */
    abstract long trimOffset();
    abstract Clock clock();
    /** Ledger counters; extends ManagedLedgerMBeanImpl: addReadEntriesSample(count, bytes) is called by readEntries itself. */
    abstract LedgerStats mbean();
    @Override
    public abstract boolean isTerminated();
    /** Whether close or fencing has begun: cursors then fail waits and persists. */
    abstract boolean isClosed();
    /** Reads from exactly startOffset (callers clamp to trimOffset() first); result on executor(). */
    abstract void readEntries(long startOffset, int maxEntries, long maxBytes, long upToOffsetExclusive, ReadEntriesResult result);
    /** One notifyEntriesAvailable() on executor() when entries are committed, on terminate and on close; then it is forgotten. */
    abstract void addWaitingCursor(NereusManagedCursor cursor);
    @Override
    public abstract void removeWaitingCursor(ManagedCursor cursor);
    /** Mark-delete moved (durable: after durability; non-durable: at once). Also for reset backwards. Orders the container, checks trimming. */
    abstract void cursorMoved(NereusManagedCursor cursor, long oldMarkDeleteEnd, long newMarkDeleteEnd);
    /** setActive / setInactive of the cursor go through these. Idempotent. */
    abstract void activateCursor(NereusManagedCursor cursor);
    abstract void deactivateCursor(NereusManagedCursor cursor);
    abstract boolean isCursorActive(NereusManagedCursor cursor);
    /** Estimated bytes in [from, to), from the spans. */
    abstract long bytesBetween(long from, long to);
    /**
     * First readable offset at or after the position, within [trimOffset, committedEnd]: EARLIEST and smaller foreign
     * ledgers answer the trim offset, LATEST and larger foreign ledgers the committed end. Never throws.
     */
    abstract long offsetAtOrAfter(Position position);
    /** Throws what an operation on a fenced (ManagedLedgerFencedException) or closed ledger has to fail with. */
    abstract void checkOpen() throws ManagedLedgerException;

    /*
     * What the ledger calls on cursors (package-private members of NereusManagedCursor):
     *   static NereusManagedCursor recovered(NereusManagedLedger ledger, CursorState state)
     *        - also used for a freshly created durable cursor: the LEDGER persists the creating CursorUpdate first, then calls this.
     *   NereusNonDurableCursor(NereusManagedLedger ledger, String name, long markDeleteEnd, boolean readCompacted)   (subclass)
     *        - the ledger has already resolved the start position to markDeleteEnd.
     *   void notifyEntriesAvailable()          on executor(); new entries, terminated or closed: look at the ledger's state
     *   boolean startDeleting()                false if deletion has begun or is done; stops further persists
     *   void finishDeleting(boolean deleted)   deleted=false puts it back
     *   void ledgerTrimmed(long trim)          on executor(): everything below trim is gone; move mark-delete and read offset up in memory
     * plus the public ones: isDurable, asyncClose, setActive/setInactive, getMarkDeletedPosition, asyncClearBacklog ...
     */
}
// Border addition: the ledger also calls on cursors: PersistentTopicInternalStats.CursorStats internalStats()  (org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats.CursorStats: markDeletePosition, readPosition, waitingReadOp, ... all set).
// addWaitingCursor: the cursor must re-check committedEnd()/isTerminated()/isClosed() AFTER adding itself (and removeWaitingCursor if it need not wait).
