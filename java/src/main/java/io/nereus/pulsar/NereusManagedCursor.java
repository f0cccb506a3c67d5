package io.nereus.pulsar;

import io.nereus.pulsar.bridge.CursorState;
import io.nereus.pulsar.bridge.CursorUpdate;
import io.nereus.pulsar.cursor.AckState;
import io.nereus.pulsar.cursor.CursorKeeper;
import io.nereus.pulsar.cursor.CursorLedger;
import io.nereus.pulsar.cursor.CursorProgress;
import io.nereus.pulsar.cursor.CursorStats;
import io.nereus.pulsar.cursor.DamagedEntries;
import io.nereus.pulsar.cursor.DurableKeeper;
import io.nereus.pulsar.cursor.FindNewestOp;
import io.nereus.pulsar.cursor.ReadOp;
import io.nereus.pulsar.cursor.ReadRequest;
import io.nereus.pulsar.cursor.ReplayOp;
import io.nereus.pulsar.cursor.ResetOp;
import io.nereus.pulsar.cursor.ScanOp;
import io.nereus.pulsar.cursor.WaitingRead;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.DoubleSupplier;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ClearBacklogCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.FindEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.MarkDeleteCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ResetCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.SkipEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursorAttributes;
import org.apache.bookkeeper.mledger.ManagedCursorMXBean;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.ScanOutcome;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats;
import org.apache.pulsar.common.util.Runnables;

/**
 * One durable subscription on one topic as Pulsar sees it: translates positions and callbacks into operations of
 * {@code io.nereus.pulsar.cursor}.
 *
 * <p>Owns whether the cursor is open; where it stands is in its {@link CursorProgress}, what survives a crash in its
 * {@link CursorKeeper}, the read that waits in its {@link WaitingRead}. Promises: every callback runs exactly once, on
 * the ledger's executor, with no lock held; an acknowledgement is answered after it is durable (L15), stronger than
 * stock, whatever mark-delete rate is configured; closing succeeds only when everything is durable. Does not: limit the
 * number of acknowledgement holes, cache entries, poll.
 */
class NereusManagedCursor extends CursorQueries {

    private static final String COMPACTION_CURSOR = "__compaction";
    /** Ranges of acknowledged entries that the internal statistics spell out. */
    private static final int RANGES_SHOWN = 1000;

    private final String name;
    private final CursorKeeper keeper;
    private final CursorAcks acks;
    private final PropertyEdits properties;
    private final DamagedEntries damaged;
    private final WaitingRead waitingRead;
    private final CursorLifecycle lifecycle;
    private final CursorStats stats = new CursorStats(this);
    private final AtomicInteger readsUnderWay = new AtomicInteger();
    private final long openedMillis;

    private volatile long lastActiveMillis;
    private volatile double throttleMarkDelete;
    private volatile boolean active;
    private volatile boolean alwaysInactive;
    private volatile ManagedCursorAttributes attributes;

    /** Makes the parts that durable and non-durable cursors share. */
    NereusManagedCursor(NereusManagedLedger ledger, String name, AckState acks, KeeperMaker keeperMaker) {
        this(ledger, name, new CursorProgress(ledger, acks), keeperMaker);
    }

    /** As above, with a progress of its own kind. */
    NereusManagedCursor(NereusManagedLedger ledger, String name, CursorProgress progress, KeeperMaker keeperMaker) {
        super(ledger, progress);
        this.name = name;
        this.keeper = keeperMaker.make(progress, stats, this::keptEndMoved, this::getThrottleMarkDelete);
        this.acks = new CursorAcks(this, keeper);
        this.properties = new PropertyEdits(keeper);
        this.damaged = new DamagedEntries(name, ledger, progress, keeper);
        this.waitingRead = new WaitingRead(ledger, progress, () -> ledger.addWaitingCursor(this),
                () -> ledger.removeWaitingCursor(this), this::startRead,
                () -> ledger.getConfig().getNewEntriesCheckDelayInMillis());
        this.lifecycle = new CursorLifecycle(name, ledger, keeper, waitingRead);
        this.openedMillis = ledger.clock().millis();
        this.lastActiveMillis = openedMillis;
        this.throttleMarkDelete = ledger.getConfig().getThrottleMarkDelete();
    }

    /**
     * Makes a durable cursor from its stored state. It reads on from its first unacknowledged entry.
     *
     * @param store writes one update of a cursor; its future completes after durability
     * @throws IllegalStateException if the stored state is damaged: never taken for an empty one
     */
    static NereusManagedCursor recovered(NereusManagedLedger ledger, CursorState state,
                                         Function<CursorUpdate, CompletableFuture<Void>> store) {
        AckState acks;
        try {
            acks = AckState.recovered(state.markDeleteEnd(), state.pages());
        } catch (IllegalArgumentException e) {
            throw new IllegalStateException("the stored state of cursor " + state.name() + " of ledger "
                    + ledger.getName() + " is damaged", e);
        }
        AckState.Range last = acks.lastRange();
        long ackedEnd = last == null ? acks.markDeleteEnd() : last.end();
        if (ackedEnd > ledger.committedEnd()) {
            // Entries yet to come would never be delivered.
            throw new IllegalStateException("the stored state of cursor " + state.name() + " of ledger "
                    + ledger.getName() + " acknowledges entries below offset " + ackedEnd + ", but the ledger ends at "
                    + ledger.committedEnd());
        }
        return new NereusManagedCursor(ledger, state.name(), acks,
                (progress, stats, moved, rate) -> new DurableKeeper(state.name(), ledger, progress,
                        state.positionProperties(), state.cursorProperties(), store, stats, moved,
                        ledger.flushPasses(), rate));
    }

    /** Makes the keeper of a cursor under construction. */
    interface KeeperMaker {

        CursorKeeper make(CursorProgress progress, CursorStats stats, CursorKeeper.Moved moved, DoubleSupplier rate);
    }

    private void keptEndMoved(long before, long now) {
        ledger.cursorMoved(this, before, now);
    }

    // ---- what the ledger tells

    /** The ledger has entries, or has ended; it has forgotten this cursor's registration. On the executor. */
    void notifyEntriesAvailable() {
        waitingRead.notifyEntriesAvailable();
    }

    /** Everything below {@code trim} is gone. On the executor. */
    void ledgerTrimmed(long trim) {
        progress.trimmed(trim);
    }

    /** Stops the cursor for good; answers false if that has begun before. */
    boolean startDeleting() {
        return lifecycle.startDeleting();
    }

    /** Ends what {@link #startDeleting()} began. */
    void finishDeleting(boolean deleted) {
        lifecycle.finishDeleting(deleted);
    }

    ManagedLedgerInternalStats.CursorStats internalStats() {
        return getCursorStats();
    }

    // ---- identity and properties

    @Override
    public String getName() {
        return name;
    }

    @Override
    public boolean isDurable() {
        return true;
    }

    @Override
    public boolean isClosed() {
        return lifecycle.isClosed();
    }

    @Override
    public long getLastActive() {
        return lastActiveMillis;
    }

    @Override
    public void updateLastActive() {
        lastActiveMillis = ledger.clock().millis();
    }

    /** As durable as the mark-delete position they came with: not visible before. */
    @Override
    public Map<String, Long> getProperties() {
        return keeper.positionProperties();
    }

    @Override
    public boolean putProperty(String key, Long value) {
        properties.putOfPosition(key, value);
        return true;
    }

    @Override
    public boolean removeProperty(String key) {
        properties.removeOfPosition(key);
        return true;
    }

    @Override
    public Map<String, String> getCursorProperties() {
        return keeper.cursorProperties();
    }

    @Override
    public CompletableFuture<Void> putCursorProperty(String key, String value) {
        return properties.put(key, value);
    }

    @Override
    public CompletableFuture<Void> removeCursorProperty(String key) {
        return properties.remove(key);
    }

    @Override
    public CompletableFuture<Void> setCursorProperties(Map<String, String> cursorProperties) {
        return properties.replace(cursorProperties);
    }

    // ---- reads

    @Override
    public void asyncReadEntriesWithSkip(int numberOfEntriesToRead, long maxSizeBytes, ReadEntriesCallback callback,
                                         Object ctx, Position maxPosition, Predicate<Position> skipCondition) {
        ReadRequest request = request(numberOfEntriesToRead, maxSizeBytes, callback, ctx, maxPosition, skipCondition);
        if (isClosed()) {
            later(() -> callback.readEntriesFailed(closedException(), ctx));
        } else {
            startRead(request);
        }
    }

    @Override
    public void asyncReadEntriesWithSkipOrWait(int maxEntries, long maxSizeBytes, ReadEntriesCallback callback,
                                               Object ctx, Position maxPosition, Predicate<Position> skipCondition) {
        waitingRead.readOrWait(request(maxEntries, maxSizeBytes, callback, ctx, maxPosition, skipCondition));
    }

    private ReadRequest request(int maxEntries, long maxSizeBytes, ReadEntriesCallback callback, Object ctx,
                                Position maxPosition, Predicate<Position> skipCondition) {
        long maxBytes = maxSizeBytes == NO_MAX_SIZE_LIMIT ? Long.MAX_VALUE : Math.max(1, maxSizeBytes);
        long limit = maxPosition == null ? CursorLedger.BEYOND : ledger.offset(maxPosition) + 1;
        return new ReadRequest(maxEntries, maxBytes, limit, skipCondition, callback, ctx);
    }

    private void startRead(ReadRequest request) {
        readsUnderWay.incrementAndGet();
        ReadOp.start(ledger, progress, request, readsUnderWay::decrementAndGet, damaged);
    }

    @Override
    public boolean cancelPendingReadRequest() {
        return waitingRead.cancel();
    }

    @Override
    public void asyncGetNthEntry(int n, IndividualDeletedEntries deletedEntries, ReadEntryCallback callback,
                                 Object ctx) {
        if (n < 1) {
            throw new IllegalArgumentException("entries of the backlog are counted from 1, not from " + n);
        }
        if (isClosed()) {
            later(() -> callback.readEntryFailed(closedException(), ctx));
            return;
        }
        long offset = nthOfBacklog(n, deletedEntries);
        if (offset >= ledger.committedEnd()) {
            later(() -> callback.readEntryComplete(null, ctx));
        } else {
            ledger.readEntryAt(offset, callback, ctx);
        }
    }

    /** Offset of the {@code n}th entry of the backlog; may lie past the committed end. */
    private long nthOfBacklog(long n, IndividualDeletedEntries deletedEntries) {
        return deletedEntries == IndividualDeletedEntries.Exclude ? progress.nthUnacked(n)
                : progress.backlogStart() + n - 1;
    }

    @Override
    public Set<? extends Position> asyncReplayEntries(Set<? extends Position> positions, ReadEntriesCallback callback,
                                                      Object ctx, boolean sortEntries) {
        Set<Position> acknowledged = new HashSet<>();
        long[] offsets = positions.stream().filter(position -> {
            long offset = ledger.offset(position);
            boolean gone = progress.isAcked(offset) || offset < ledger.trimOffset();
            if (gone) {
                acknowledged.add(position);
            }
            return !gone;
        }).mapToLong(ledger::offset).sorted().distinct().toArray();
        if (offsets.length > 0) {
            progress.passReplayed(offsets);
            ReplayOp.start(ledger, offsets, damaged.replaying(offsets, callback), ctx);
        } else if (positions.isEmpty()) {
            later(() -> callback.readEntriesComplete(new ArrayList<>(), ctx));
        }
        // Otherwise the broker, told that all are acknowledged, expects no call.
        return acknowledged;
    }

    // ---- acknowledgements

    @Override
    public void asyncMarkDelete(Position position, Map<String, Long> properties, MarkDeleteCallback callback,
                                Object ctx) {
        acks.markDelete(position, properties, callback, ctx);
    }

    @Override
    public void asyncDelete(Iterable<Position> positions, DeleteCallback callback, Object ctx) {
        acks.delete(positions, callback, ctx);
    }

    @Override
    public void asyncClearBacklog(ClearBacklogCallback callback, Object ctx) {
        acks.clearBacklog(callback, ctx);
    }

    @Override
    public void asyncSkipEntries(int numEntriesToSkip, IndividualDeletedEntries deletedEntries,
                                 SkipEntriesCallback callback, Object ctx) {
        acks.skip(numEntriesToSkip < 1 ? progress.markDeleteEnd() : nthOfBacklog(numEntriesToSkip, deletedEntries) + 1,
                callback, ctx);
    }

    // ---- positions

    /** What would survive a crash now; null for a cursor that is not durable. */
    @Override
    public Position getPersistentMarkDeletedPosition() {
        long end = keeper.keptMarkDeleteEnd();
        return end < 0 ? null : ledger.position(end - 1);
    }

    @Override
    public void rewind(boolean readCompacted) {
        progress.rewind();
        waitingRead.lookAgain();
    }

    @Override
    public void seek(Position newReadPosition, boolean force) {
        long offset = entryAt(newReadPosition);
        if (force) {
            progress.forceSeek(offset);
        } else {
            progress.seek(offset);
        }
        waitingRead.lookAgain();
    }

    @Override
    public void asyncResetCursor(Position position, boolean forceReset, ResetCursorCallback callback) {
        // On the executor, where trimming happens too, so that the place is still there when it is kept.
        later(() -> {
            if (isClosed()) {
                callback.resetFailed(closedException(), position);
                return;
            }
            long place = resetPlace(position, forceReset);
            long[] unacked = batchIndexes() ? AckSetStateUtil.getAckSetArrayOrNull(position) : null;
            ResetOp.Kept kept = COMPACTION_CURSOR.equals(name) ? ResetOp.Kept.MARK_DELETE_AND_PROPERTIES
                    : ResetOp.Kept.NOTHING;
            boolean samePlace = place == ledger.offset(position);
            ResetOp.start(ledger, progress, keeper, place, samePlace ? unacked : null, kept, () -> {
                updateLastActive();
                waitingRead.lookAgain();
            }, callback);
        });
    }

    private long resetPlace(Position position, boolean force) {
        long end = ledger.committedEnd();
        long first = force && !position.equals(PositionFactory.EARLIEST) ? 0 : Math.min(progress.firstReadable(), end);
        return Math.max(first, Math.min(entryAt(position), end));
    }

    @Override
    public void asyncFindNewestMatching(FindPositionConstraint constraint, Predicate<Entry> condition,
                                        Position startPosition, Position endPosition, FindEntryCallback callback,
                                        Object ctx, boolean isFindFromLedger) {
        CallerTask.after(search(constraint, condition, startPosition, endPosition, callback, ctx));
    }

    @Override
    Runnable search(FindPositionConstraint constraint, Predicate<Entry> condition, Position startPosition,
                    Position endPosition, FindEntryCallback callback, Object ctx) {
        boolean active = constraint == FindPositionConstraint.SearchActiveEntries;
        long first = active ? progress.backlogStart() : ledger.trimOffset();
        long start = startPosition == null ? first : Math.max(first, entryAt(startPosition));
        long committed = ledger.committedEnd();
        long end = endPosition == null ? committed : Math.min(committed, ledger.offset(endPosition) + 1);
        return () -> FindNewestOp.start(ledger, new AckState.Range(start, end),
                active ? FindNewestOp.FirstEntry.MUST_MATCH : FindNewestOp.FirstEntry.ORDINARY, condition, callback,
                ctx);
    }

    @Override
    public CompletableFuture<ScanOutcome> scan(Optional<Position> startingPosition, Predicate<Entry> condition,
                                               int batchSize, long maxEntries, long timeOutMs) {
        long start = startingPosition.map(this::entryAt).orElseGet(progress::backlogStart);
        return ScanOp.start(ledger, progress, Math.max(0, start), condition, batchSize, maxEntries, timeOutMs);
    }

    @Override
    public ManagedCursor duplicateNonDurableCursor(String nonDurableCursorName) throws ManagedLedgerException {
        return ledger.newDuplicate(nonDurableCursorName, progress.copyAcks());
    }

    // ---- activity, rates, statistics

    @Override
    public void setActive() {
        active = true;
    }

    @Override
    public void setInactive() {
        active = false;
    }

    @Override
    public void setAlwaysInactive() {
        alwaysInactive = true;
    }

    @Override
    public boolean isActive() {
        return active && !alwaysInactive;
    }

    /** The rate set last. It permits to persist less often, which is made use of only under load. */
    @Override
    public double getThrottleMarkDelete() {
        return throttleMarkDelete;
    }

    @Override
    public void setThrottleMarkDelete(double throttleMarkDelete) {
        this.throttleMarkDelete = throttleMarkDelete;
    }

    /** Entries that were read for this cursor from elsewhere than its ledger count with the ledger's own reads. */
    @Override
    public void updateReadStats(int readEntriesCount, long readEntriesSize) {
        ledger.stats().addReadEntriesSample(readEntriesCount, readEntriesSize);
    }

    @Override
    public ManagedCursorMXBean getStats() {
        return stats;
    }

    @Override
    public ManagedCursorAttributes getManagedCursorAttributes() {
        ManagedCursorAttributes known = attributes;
        if (known == null) {
            known = new ManagedCursorAttributes(this);
            attributes = known;
        }
        return known;
    }

    /** There is no cursor ledger: its id and last entry are -1, and the time of its last switch is that of opening. */
    @Override
    public ManagedLedgerInternalStats.CursorStats getCursorStats() {
        return CursorReport.of(this, progress, readsUnderWay.get(), waitingRead.isWaiting(), lifecycle.stateName(),
                openedMillis, RANGES_SHOWN);
    }

    // ---- end of life

    /** Succeeds when everything is durable. A close that failed may be tried again. */
    @Override
    public void asyncClose(CloseCallback callback, Object ctx) {
        setInactive();
        lifecycle.close(callback, ctx);
    }

    /**
     * Runs {@code callback} on the ledger's executor, not before {@code delay} has passed. What it throws is logged. Asked by
     * Pulsar's replicator from 4.0.14, 4.2.5 and 5.0 on.
     */
    public void scheduleReadCallback(Runnable callback, long delay, TimeUnit unit) {
        ledger.scheduler().schedule(Runnables.catchingAndLoggingThrowables(callback), delay, unit);
    }

    CursorAlreadyClosedException closedException() {
        return new CursorAlreadyClosedException("cursor " + name + " of " + ledger.getName() + " is closed");
    }

    private void later(Runnable callback) {
        ledger.execute(callback);
    }

    @Override
    public String toString() {
        return ledger.getName() + " " + name + " {ackPos=" + getMarkDeletedPosition() + ", readPos="
                + getReadPosition() + "}";
    }
}
