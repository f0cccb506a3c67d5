package io.nereus.pulsar;

import com.google.common.collect.Range;
import io.nereus.pulsar.cursor.AckState;
import io.nereus.pulsar.cursor.CursorLedger;
import io.nereus.pulsar.cursor.CursorProgress;
import java.util.List;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.Position;

/**
 * The part of Pulsar's cursor interface that only looks: where the cursor stands, what it has acknowledged, how much is
 * left.
 *
 * <p>Promises: no entry is read, nothing blocks; counts are exact, never negative, and cost the same however long the
 * backlog is. Positions are in normal form. Thread-safe.
 */
abstract class CursorQueries extends BlockingCursor {

    /** Bytes that stock counts for each entry on top of its length when it estimates entries from bytes. */
    private static final int OVERHEAD_PER_ENTRY = 64;
    private static final StackWalker CALLERS = StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE);

    final NereusManagedLedger ledger;
    final CursorProgress progress;
    private volatile long lastSeenReadOffset = -1;

    CursorQueries(NereusManagedLedger ledger, CursorProgress progress) {
        this.ledger = ledger;
        this.progress = progress;
    }

    /** The ledger itself, but for a class of the broker that would cast it. */
    @Override
    public ManagedLedger getManagedLedger() {
        return ledger.shownTo(CALLERS.getCallerClass());
    }

    @Override
    boolean isOnExecutor() {
        return ledger.isOnExecutor();
    }

    /** Whether batches may be acknowledged message by message, by the ledger's present configuration. */
    boolean batchIndexes() {
        return ledger.getConfig().isDeletionAtBatchIndexLevelEnabled();
    }

    // ---- positions

    @Override
    public Position getReadPosition() {
        return ledger.position(progress.readOffset());
    }

    @Override
    public Position getMarkDeletedPosition() {
        return ledger.position(progress.markDeleteEnd() - 1);
    }

    @Override
    public Position getFirstPosition() {
        return ledger.position(ledger.trimOffset());
    }

    /** The entry that a read from {@code position} begins with: of "before the first of a ledger", that first one. */
    long entryAt(Position position) {
        long offset = ledger.offset(position);
        return position.getEntryId() < 0 ? offset + 1 : offset;
    }

    @Override
    public boolean checkAndUpdateReadPositionChanged() {
        long now = progress.readOffset();
        boolean atTail = now >= ledger.committedEnd() - 1;
        boolean changed = now != lastSeenReadOffset;
        lastSeenReadOffset = now;
        return atTail || changed;
    }

    // ---- what is left

    /** Whether a read now would deliver an entry. */
    @Override
    public boolean hasMoreEntries() {
        return progress.hasEntries(CursorLedger.BEYOND);
    }

    @Override
    public long getNumberOfEntries() {
        return progress.unread();
    }

    /** Exact and cheap, whether {@code isPrecise} or not. */
    @Override
    public long getNumberOfEntriesInBacklog(boolean isPrecise) {
        return progress.backlog();
    }

    @Override
    public long getNumberOfEntriesSinceFirstNotAckedMessage() {
        return progress.fromFirstUnackedToRead();
    }

    @Override
    public long getEstimatedSizeSinceMarkDeletePosition() {
        return ledger.bytesBetween(progress.backlogStart(), ledger.committedEnd());
    }

    /** How many entries from the read position on make {@code maxSizeBytes}, by their average size; at least 1. */
    @Override
    public int applyMaxSizeCap(int maxEntries, long maxSizeBytes) {
        if (maxSizeBytes == NO_MAX_SIZE_LIMIT || maxSizeBytes == Long.MAX_VALUE) {
            return maxEntries;
        }
        long end = ledger.committedEnd();
        long start = Math.max(progress.readOffset(), ledger.trimOffset());
        if (start >= end) {
            start = ledger.trimOffset(); // nothing lies ahead: take the average of what there is
        }
        if (start >= end) {
            return maxEntries;
        }
        long average = ledger.bytesBetween(start, end) / (end - start) + OVERHEAD_PER_ENTRY;
        return (int) Math.max(1, Math.min(maxEntries, maxSizeBytes / average));
    }

    // ---- what is acknowledged

    @Override
    public boolean isMessageDeleted(Position position) {
        return progress.isAcked(ledger.offset(position));
    }

    /** The messages of a batch that are not acknowledged, as set bits; null unless some but not all are. */
    @Override
    public long[] getDeletedBatchIndexesAsLongArray(Position position) {
        return batchIndexes() ? progress.unackedIndexes(ledger.offset(position)) : null;
    }

    @Override
    public long[] getBatchPositionAckSet(Position position) {
        return getDeletedBatchIndexesAsLongArray(position);
    }

    @Override
    public int getTotalNonContiguousDeletedMessagesRange() {
        return progress.ranges();
    }

    @Override
    public int getNonContiguousDeletedMessagesRangeSerializedSize() {
        return progress.storedBytes();
    }

    @Override
    public Range<Position> getLastIndividualDeletedRange() {
        AckState.Range last = progress.lastRange();
        return last == null ? null
                : Range.openClosed(ledger.position(last.start() - 1), ledger.position(last.end() - 1));
    }

    @Override
    public void trimDeletedEntries(List<Entry> entries) {
        entries.removeIf(entry -> {
            boolean acknowledged = isMessageDeleted(entry.getPosition());
            if (acknowledged) {
                entry.release();
            }
            return acknowledged;
        });
    }

    /**
     * Whether there are at most as many ranges of acknowledgements as {@code managedLedgerMaxUnackedRangesToPersist} says.
     *
     * <p>More of them are as durable. But the broker asks only for subscriptions whose dispatching an operator has told
     * it to pause at that number ({@code dispatcherPauseOnAckStatePersistentEnabled}).
     */
    @Override
    public boolean isCursorDataFullyPersistable() {
        return progress.ranges() <= ledger.getConfig().getMaxUnackedRangesToPersist();
    }
}
