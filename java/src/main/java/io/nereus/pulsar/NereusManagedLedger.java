package io.nereus.pulsar;

import com.google.common.collect.Range;
import io.netty.buffer.ByteBuf;
import io.nereus.pulsar.bridge.LedgerDescription;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.NativeStream;
import io.nereus.pulsar.bridge.OpenedLedger;
import io.nereus.pulsar.cursor.AckState;
import io.nereus.pulsar.cursor.CursorLedger;
import io.nereus.pulsar.cursor.FindNewestOp;
import io.nereus.pulsar.cursor.FlushPasses;
import java.time.Clock;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteLedgerCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.FindEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.TerminateCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.UpdatePropertiesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerInterceptException;
import org.apache.bookkeeper.mledger.ManagedLedgerMXBean;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionBound;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;
import org.apache.bookkeeper.mledger.proto.MLDataFormats.ManagedLedgerInfo.LedgerInfo;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One topic's log as Pulsar sees it: translates Pulsar's calls into calls on one native stream and their completions
 * back.
 *
 * <p>Owns the pending appends ({@link PendingAdds}), the cursor set ({@link LedgerCursors}) and the ledger's state
 * ({@link LedgerLifecycle}); everything else is a handle or a view of the last completion. Promises: callbacks run
 * exactly once, on the ledger's ordered executor, with no lock held; the last confirmed entry moves before the callback
 * of its append and never goes back; positions handed out are in normal form (L7). Keeps: L5 (a fenced ledger refuses
 * everything for good), L14 (what is not supported is refused by name). Does not: hold storage truth, read ahead, cache
 * entries.
 */
final class NereusManagedLedger extends BlockingLedger implements CursorLedger, PendingAdds.Listener {

    private static final Logger log = LoggerFactory.getLogger(NereusManagedLedger.class);
    private static final String MIGRATED = "migrated";

    private final NereusManagedLedgerFactory factory;
    private final String name;
    private final NativeStream stream;
    private final ScheduledExecutorService executor;
    private final Projection projection;
    private final SpanTable spans;
    private final PositionNavigator navigator;
    private final LedgerLifecycle lifecycle;
    private final LedgerStats stats;
    private final PendingAdds pendingAdds;
    private final EntryReader reader;
    private final LedgerProperties properties;
    private final LedgerCursors cursors;
    private final WaitingCursors waitingCursors = new WaitingCursors();
    private final LedgerTrimmer trimmer;
    private final ManagedLedgerInterceptor interceptor;
    private final Clock clock;
    private final LedgerDescription opened;
    private final CompletableFuture<Void> closed = new CompletableFuture<>();

    private volatile ManagedLedgerConfig config;
    /** Offset of the next entry; moves on the executor, read everywhere. */
    private volatile long committedEnd;
    private volatile long trimOffset;
    private volatile Position lastConfirmed;

    /**
     * Wraps an opened stream; {@link #initialize()} has to run before anybody else sees the ledger.
     *
     * @param executor the ledger's own thread of the factory's ordered scheduler
     */
    NereusManagedLedger(NereusManagedLedgerFactory factory, String name, ManagedLedgerConfig config,
                        OpenedLedger openedLedger, ScheduledExecutorService executor) {
        this.factory = factory;
        this.name = name;
        this.config = config;
        this.stream = openedLedger.stream();
        this.executor = executor;
        this.opened = openedLedger.description();
        this.clock = config.getClock();
        this.interceptor = config.getManagedLedgerInterceptor();
        this.committedEnd = opened.state().end();
        this.trimOffset = opened.state().trim();
        this.projection = new Projection(opened.firstLedgerId(), opened.spanBits());
        this.lastConfirmed = projection.position(committedEnd - 1);
        this.spans = new SpanTable(projection, opened.spans(), trimOffset, committedEnd);
        this.navigator = new PositionNavigator(projection, this::trimOffset, this::committedEnd);
        this.lifecycle = new LedgerLifecycle(name, opened.state().terminated());
        this.cursors = new LedgerCursors(this);
        this.stats = new LedgerStats(name, spans::totalBytes, cursors::backlogEntries);
        this.pendingAdds = new PendingAdds(name, stream, lifecycle, stats, executor, interceptor,
            factory.maxEntryBytes(), this);
        this.reader = new EntryReader(name, stream, projection, stats, interceptor);
        this.properties = new LedgerProperties(stream, interceptor, opened.properties());
        this.trimmer = new LedgerTrimmer(this);
        stream.setRollover(LedgerTrimmer.rollover(config));
    }

    /**
     * Recovers the durable cursors and lets the interceptor see properties and last entry.
     *
     * @return this ledger, ready for use; completes on the executor
     */
    CompletableFuture<NereusManagedLedger> initialize() {
        CompletableFuture<Void> ready;
        try {
            cursors.recover(opened.cursors());
            ready = interceptor == null ? CompletableFuture.completedFuture(null) : interceptOpen();
        } catch (RuntimeException e) {
            ready = CompletableFuture.failedFuture(
                new ManagedLedgerException("ledger " + name + " cannot be opened: " + e.getMessage(), e));
        }
        return ready.handle((ignored, failure) -> failure == null ? CompletableFuture.completedFuture(this)
            : stream.close().handle((done, closeFailure) -> failure)
                .thenCompose(CompletableFuture::<NereusManagedLedger>failedFuture)).thenCompose(outcome -> outcome);
    }

    private CompletableFuture<Void> interceptOpen() {
        CompletableFuture<Void> intercepted;
        try {
            interceptor.onManagedLedgerPropertiesInitialize(new HashMap<>(opened.properties()));
            intercepted = interceptor.onManagedLedgerLastLedgerInitialize(name, this::readLastEntry);
        } catch (RuntimeException e) {
            intercepted = CompletableFuture.failedFuture(e);
        }
        return intercepted.exceptionallyCompose(failure -> CompletableFuture.failedFuture(
            new ManagedLedgerInterceptException(
                new Exception("the interceptor refused to initialize ledger " + name, failure))));
    }

    private CompletableFuture<Optional<Entry>> readLastEntry() {
        long end = committedEnd;
        if (end == 0) {
            return CompletableFuture.completedFuture(Optional.empty());
        }
        CompletableFuture<Optional<Entry>> entry = new CompletableFuture<>();
        reader.readOne(end - 1, end, Callbacks.<Optional<Entry>>entry(entry, Optional::of), null);
        return entry;
    }

    // ---- for cursors and collaborators

    Projection projection() {
        return projection;
    }

    NativeStream stream() {
        return stream;
    }

    FlushPasses flushPasses() {
        return factory.flushPasses();
    }

    @Override
    public Executor executor() {
        return this::execute;
    }

    @Override
    public ScheduledExecutorService scheduler() {
        return executor;
    }

    @Override
    public long committedEnd() {
        return committedEnd;
    }

    @Override
    public long trimOffset() {
        return trimOffset;
    }

    Clock clock() {
        return clock;
    }

    LedgerStats mbean() {
        return stats;
    }

    LedgerState state() {
        return lifecycle.state();
    }

    LedgerDescription opened() {
        return opened;
    }

    SpanTable spans() {
        return spans;
    }

    int waitingCursors() {
        return waitingCursors.size();
    }

    @Override
    public boolean isTerminated() {
        return lifecycle.state() == LedgerState.TERMINATED;
    }

    @Override
    public boolean isClosed() {
        return lifecycle.state().isUnusable();
    }

    @Override
    public boolean skipsDamaged() {
        return config.isAutoSkipNonRecoverableData();
    }

    /** What an operation on a fenced or closed ledger has to fail with; null while the ledger works. */
    ManagedLedgerException useRefusal() {
        return lifecycle.useRefusal();
    }

    void checkOpen() throws ManagedLedgerException {
        ManagedLedgerException refusal = useRefusal();
        if (refusal != null) {
            throw refusal;
        }
    }

    @Override
    public Position position(long offset) {
        return projection.position(offset);
    }

    @Override
    public long offset(Position position) {
        return navigator.offset(position);
    }

    /** First readable offset at or after {@code position}, within trim offset and committed end. */
    long offsetAtOrAfter(Position position) {
        return navigator.offsetAtOrAfter(position);
    }

    @Override
    public void read(long start, int maxEntries, long maxBytes, long upTo, EntriesResult result) {
        ManagedLedgerException refusal = useRefusal();
        if (refusal != null) {
            execute(() -> result.failed(refusal));
            return;
        }
        reader.read(start, maxEntries, maxBytes, Math.min(upTo, committedEnd), result);
    }

    /** Registers a cursor for one wake-up; it looks at the committed end again after this call. */
    void addWaitingCursor(NereusManagedCursor cursor) {
        waitingCursors.add(cursor);
    }

    @Override
    public void removeWaitingCursor(ManagedCursor cursor) {
        waitingCursors.remove(cursor);
    }

    /** A cursor's mark-delete moved; for a durable one after it is durable. Backwards after a reset. */
    void cursorMoved(NereusManagedCursor cursor, long oldMarkDeleteEnd, long newMarkDeleteEnd) {
        if (cursor.isDurable()) {
            cursors.all().moved(cursor, projection.markDeletePosition(newMarkDeleteEnd));
        }
        if (newMarkDeleteEnd >> projection.spanBits() > oldMarkDeleteEnd >> projection.spanBits()) {
            trimmer.checkSoon();
        }
    }

    void activateCursor(NereusManagedCursor cursor) {
        cursors.activate(cursor);
    }

    void deactivateCursor(NereusManagedCursor cursor) {
        cursors.deactivate(cursor);
    }

    boolean isCursorActive(NereusManagedCursor cursor) {
        return cursors.isActive(cursor);
    }

    /** Live bytes in {@code [from, to)}, estimated from the spans. */
    long bytesBetween(long from, long to) {
        return spans.bytesBetween(from, to);
    }

    /** Every offset below it is acknowledged by {@code cursor}, and durably so if the cursor is durable. */
    long consumedEnd(ManagedCursor cursor) {
        Position acknowledged =
            cursor.isDurable() ? cursor.getPersistentMarkDeletedPosition() : cursor.getMarkDeletedPosition();
        return acknowledged == null ? 0 : navigator.offsetAfter(acknowledged);
    }

    /** Runs on the ledger's executor; in place if the factory has already shut its threads down. */
    void execute(Runnable task) {
        try {
            executor.execute(task);
        } catch (RejectedExecutionException e) {
            task.run();
        }
    }

    /** Maps a failure of the native side; a fenced one stops the ledger. */
    ManagedLedgerException failed(Throwable failure) {
        if (NativeErrors.codeOf(failure) == NativeErrors.FENCED) {
            fenced();
        }
        return NativeErrors.toManagedLedgerException(failure);
    }

    /** Drops everything below {@code offset}; completes, on the executor, when it is durable. */
    CompletableFuture<Long> trimTo(long offset) {
        return trimmed(stream.trim(offset));
    }

    /** Drops the closed parts below {@code consumed} that need not be kept; a bound below 0 keeps everything. */
    CompletableFuture<Long> retain(long consumed, long maxAgeMillis, long maxBytes) {
        return trimmed(stream.retain(consumed, maxAgeMillis, maxBytes, clock.millis()));
    }

    private CompletableFuture<Long> trimmed(CompletableFuture<Long> trimming) {
        return trimming.whenComplete((trim, failure) -> {
            if (failure != null) {
                failed(failure);
                return;
            }
            if (trim <= trimOffset) {
                return;
            }
            trimOffset = trim;
            spans.trimmed(trim);
            for (ManagedCursor cursor : cursors.all().asPulsar()) {
                ((NereusManagedCursor) cursor).ledgerTrimmed(trim);
            }
        });
    }

    // ---- PendingAdds.Listener

    @Override
    public Position committed(long offset, int storedBytes, long appendMillis) {
        spans.committed(offset, storedBytes, appendMillis);
        Position position = projection.position(offset);
        lastConfirmed = position;
        committedEnd = offset + 1;
        return position;
    }

    @Override
    public void completed() {
        waitingCursors.wakeAll();
    }

    @Override
    public void fenced() {
        if (lifecycle.fence()) {
            log.warn("[{}] was taken by another broker; this instance refuses everything from now on", name);
            execute(waitingCursors::wakeAll);
        }
    }

    // ---- appends

    @Override
    public String getName() {
        return name;
    }

    @Override
    public void asyncAddEntry(ByteBuf buffer, int numberOfMessages, AddEntryCallback callback, Object ctx) {
        pendingAdds.add(buffer, numberOfMessages, callback, ctx);
    }

    @Override
    public void readyToCreateNewLedger() {
        pendingAdds.resume();
    }

    @Override
    public void unfenceForInterceptorException() {
        pendingAdds.forgetPayloadProcessorFailure();
    }

    @Override
    public int getPendingAddEntriesCount() {
        return pendingAdds.size();
    }

    @Override
    public ManagedLedgerInterceptor getManagedLedgerInterceptor() {
        return interceptor;
    }

    // ---- cursors

    @Override
    public void asyncOpenCursor(String cursorName, InitialPosition initialPosition, Map<String, Long> positionProps,
                                Map<String, String> cursorProps, OpenCursorCallback callback, Object ctx) {
        Callbacks.deliver(openDurable(cursorName, initialPosition, positionProps, cursorProps),
            cursor -> callback.openCursorComplete(cursor, ctx), e -> callback.openCursorFailed(e, ctx));
    }

    private CompletableFuture<ManagedCursor> openDurable(String cursorName, InitialPosition initialPosition,
                                                         Map<String, Long> positionProps,
                                                         Map<String, String> cursorProps) {
        ManagedLedgerException refusal = useRefusal();
        if (refusal != null) {
            return CompletableFuture.failedFuture(refusal);
        }
        return cursors.open(cursorName, startOf(initialPosition),
            positionProps == null ? Map.of() : positionProps, cursorProps == null ? Map.of() : cursorProps);
    }

    private long startOf(InitialPosition initialPosition) {
        return initialPosition == InitialPosition.Earliest ? trimOffset : committedEnd;
    }

    @Override
    public ManagedCursor newNonDurableCursor(Position startPosition, String subscriptionName,
                                             InitialPosition initialPosition, boolean isReadCompacted)
            throws ManagedLedgerException {
        Objects.requireNonNull(subscriptionName, "cursor name can't be null");
        checkOpen();
        long markDeleteEnd;
        if (startPosition == null || startPosition.compareTo(lastConfirmed) > 0) {
            markDeleteEnd = startOf(initialPosition); // also a LATEST whose entry id a C++ client has truncated
        } else if (startPosition.getLedgerId() == PositionFactory.EARLIEST.getLedgerId()) {
            markDeleteEnd = trimOffset;
        } else {
            markDeleteEnd = navigator.offsetAfter(startPosition); // the position is the last one already consumed
        }
        return cursors.openNonDurable(subscriptionName, markDeleteEnd, isReadCompacted);
    }

    @Override
    public void asyncDeleteCursor(String cursorName, DeleteCursorCallback callback, Object ctx) {
        Callbacks.deliver(deleteCursorNamed(cursorName), ignored -> callback.deleteCursorComplete(ctx),
            e -> callback.deleteCursorFailed(e, ctx));
    }

    private CompletableFuture<Void> deleteCursorNamed(String cursorName) {
        return cursors.delete(cursorName).thenRun(trimmer::checkSoon);
    }

    @Override
    public Iterable<ManagedCursor> getCursors() {
        return cursors.all().asPulsar();
    }

    @Override
    public Iterable<ManagedCursor> getActiveCursors() {
        return cursors.active().asPulsar();
    }

    @Override
    public ManagedCursor getSlowestConsumer() {
        return cursors.all().slowest();
    }

    // ---- counts and sizes

    @Override
    public long getNumberOfEntries() {
        long end = committedEnd;
        return end - Math.min(trimOffset, end);
    }

    @Override
    public long getNumberOfEntries(Range<Position> range) {
        return navigator.entriesWithin(range);
    }

    @Override
    public long getNumberOfActiveEntries() {
        ManagedCursor slowest = getSlowestConsumer();
        return slowest == null ? 0 : committedEnd - navigator.offsetAfter(slowest.getMarkDeletedPosition());
    }

    @Override
    public long getTotalSize() {
        return spans.totalBytes();
    }

    @Override
    public long getEstimatedBacklogSize() {
        ManagedCursor slowest = getSlowestConsumer();
        return slowest == null ? 0 : getEstimatedBacklogSize(slowest.getMarkDeletedPosition());
    }

    @Override
    public long getEstimatedBacklogSize(Position position) {
        return position == null ? 0 : spans.bytesBetween(navigator.offsetAfter(position), committedEnd);
    }

    @Override
    public CompletableFuture<Long> getEarliestMessagePublishTimeInBacklog() {
        ManagedCursor slowest = getSlowestConsumer();
        if (slowest == null) {
            return CompletableFuture.completedFuture(0L);
        }
        long end = committedEnd;
        long offset = navigator.offsetAfter(slowest.getMarkDeletedPosition());
        if (offset >= end) {
            return CompletableFuture.completedFuture(-1L);
        }
        CompletableFuture<Long> publishTime = new CompletableFuture<>();
        reader.readOne(offset, end, Callbacks.publishTime(publishTime), null);
        return publishTime;
    }

    @Override
    public ManagedLedgerMXBean getStats() {
        return stats;
    }

    @Override
    public CompletableFuture<ManagedLedgerInternalStats> getManagedLedgerInternalStats(boolean includeLedgerMetadata) {
        return CompletableFuture.completedFuture(InternalStats.of(this));
    }

    // ---- end of life

    @Override
    public void asyncTerminate(TerminateCallback callback, Object ctx) {
        Callbacks.deliver(terminateStream(), last -> callback.terminateComplete(last, ctx),
            e -> callback.terminateFailed(e, ctx));
    }

    private CompletableFuture<Position> terminateStream() {
        ManagedLedgerException refusal = useRefusal();
        if (refusal != null) {
            return CompletableFuture.failedFuture(refusal);
        }
        if (isTerminated()) {
            return CompletableFuture.completedFuture(lastConfirmed);
        }
        if (!lifecycle.beginTerminate()) {
            return CompletableFuture.failedFuture(new ManagedLedgerException(
                "ledger " + name + " is being terminated by another call"));
        }
        return stream.terminate().handle((end, failure) -> {
            lifecycle.endTerminate(failure == null);
            if (failure != null) {
                return CompletableFuture.<Position>failedFuture(failed(failure));
            }
            log.info("[{}] terminated at {}", name, lastConfirmed);
            waitingCursors.wakeAll();
            return CompletableFuture.completedFuture(lastConfirmed);
        }).thenCompose(outcome -> outcome);
    }

    /** Marks the ledger as moved to another cluster and terminates it; the mark is durable first. */
    @Override
    public CompletableFuture<Position> asyncMigrate() {
        return properties.update(map -> map.put(MIGRATED, Boolean.TRUE.toString()))
            .thenCompose(ignored -> terminateStream());
    }

    @Override
    public boolean isMigrated() {
        return isTerminated() && properties.current().containsKey(MIGRATED);
    }

    @Override
    public CompletableFuture<Void> asyncTruncate() {
        ManagedLedgerException refusal = useRefusal();
        if (refusal != null) {
            return CompletableFuture.failedFuture(refusal);
        }
        List<CompletableFuture<Void>> cleared = new ArrayList<>();
        for (ManagedCursor cursor : getCursors()) {
            CompletableFuture<Void> one = new CompletableFuture<>();
            cursor.asyncClearBacklog(Callbacks.cleared(one), null);
            cleared.add(one);
        }
        return CompletableFuture.allOf(cleared.toArray(CompletableFuture[]::new))
            .thenComposeAsync(ignored -> trimmer.trimConsumed(), this::execute);
    }

    @Override
    void closeWhatIsDue() {
        trimmer.checkSoon();
    }

    @Override
    boolean idleFor(long millis) {
        return clock.millis() > stream.state().lastAppendMillis() + millis;
    }

    @Override
    public void trimConsumedLedgersInBackground(CompletableFuture<?> promise) {
        execute(() -> trimmer.trim(promise));
    }

    @Override
    public void asyncClose(CloseCallback callback, Object ctx) {
        LedgerState before = lifecycle.close();
        if (before != LedgerState.CLOSED) {
            factory.closing(this, closed);
            closeAll().whenComplete((ignored, failure) -> {
                if (failure == null) {
                    closed.complete(null);
                } else {
                    closed.completeExceptionally(failure);
                }
            });
        }
        CompletableFuture<Void> outcome = !before.isUnusable() || before == LedgerState.CLOSED ? closed
            : closed.handle((ignored, failure) -> CompletableFuture.<Void>failedFuture(
                new ManagedLedgerFencedException("ledger " + name + " was closed as "
                    + before.stockName()))).thenCompose(failed -> failed);
        Callbacks.deliver(outcome, ignored -> callback.closeComplete(ctx), e -> callback.closeFailed(e, ctx));
    }

    /** Cursors first, while they can still persist; then the stream, which settles the appends under way. */
    private CompletableFuture<Void> closeAll() {
        return cursors.closeAll().handle((ignored, cursorFailure) -> stream.close().handleAsync((done, failure) -> {
            pendingAdds.failAll(new ManagedLedgerAlreadyClosedException("ledger " + name + " was already closed"));
            waitingCursors.wakeAll();
            Throwable first = cursorFailure != null ? cursorFailure : failure;
            return first == null ? CompletableFuture.<Void>completedFuture(null)
                : CompletableFuture.<Void>failedFuture(first);
        }, this::execute).thenCompose(outcome -> outcome)).thenCompose(outcome -> outcome);
    }

    @Override
    public void asyncDelete(DeleteLedgerCallback callback, Object ctx) {
        lifecycle.delete();
        CompletableFuture<Void> deleted = factory.deleteStored(name, executor).handle((ignored, failure) -> {
            stream.close(); // gives the handle back; it has nothing to say about the deletion
            ManagedLedgerException reason = new ManagedLedgerFencedException("ledger " + name + " was deleted");
            pendingAdds.failAll(reason);
            cursors.forgetAll();
            waitingCursors.wakeAll();
            return failure == null ? CompletableFuture.<Void>completedFuture(null)
                : CompletableFuture.<Void>failedFuture(failure);
        }).thenCompose(outcome -> outcome);
        factory.closing(this, deleted);
        Callbacks.deliver(deleted, ignored -> callback.deleteLedgerComplete(ctx),
            e -> callback.deleteLedgerFailed(e, ctx));
    }

    // ---- configuration and properties

    @Override
    public ManagedLedgerConfig getConfig() {
        return config;
    }

    @Override
    public void setConfig(ManagedLedgerConfig newConfig) {
        config = newConfig;
        stream.setRollover(LedgerTrimmer.rollover(newConfig));
        for (ManagedCursor cursor : getCursors()) {
            cursor.setThrottleMarkDelete(newConfig.getThrottleMarkDelete());
        }
    }

    @Override
    public Map<String, String> getProperties() {
        return properties.current();
    }

    @Override
    public void asyncDeleteProperty(String key, UpdatePropertiesCallback callback, Object ctx) {
        update(map -> map.remove(key), callback, ctx);
    }

    @Override
    public void asyncSetProperties(Map<String, String> added, UpdatePropertiesCallback callback, Object ctx) {
        Map<String, String> copy = new HashMap<>(added); // applied later, maybe after the caller has changed its map
        update(map -> map.putAll(copy), callback, ctx);
    }

    private void update(Consumer<Map<String, String>> change, UpdatePropertiesCallback callback, Object ctx) {
        ManagedLedgerException refusal = useRefusal();
        CompletableFuture<Map<String, String>> updated =
            refusal == null ? properties.update(change) : CompletableFuture.failedFuture(refusal);
        Callbacks.deliver(updated, map -> callback.updatePropertiesComplete(map, ctx),
            e -> callback.updatePropertiesFailed(failed(e), ctx));
    }

    // ---- positions

    @Override
    public Position getLastConfirmedEntry() {
        return lastConfirmed;
    }

    @Override
    public Position getFirstPosition() {
        return navigator.first();
    }

    @Override
    public Position getNextValidPosition(Position position) {
        return navigator.next(position);
    }

    @Override
    public Position getPreviousPosition(Position position) {
        return navigator.previous(position);
    }

    @Override
    public Position getPositionAfterN(Position startPosition, long n, PositionBound startRange) {
        return navigator.afterN(startPosition, n, startRange);
    }

    /** Whether {@code position} names a readable entry or the place of the next one. */
    boolean isValidPosition(Position position) {
        return navigator.isValid(position);
    }

    @Override
    public void asyncReadEntry(Position position, ReadEntryCallback callback, Object ctx) {
        if (position.getEntryId() < 0 || !projection.owns(position)) {
            ManagedLedgerException refusal = new ManagedLedgerException("ledger " + name + " has no entry at "
                + position + "; its first virtual ledger is " + projection.firstLedgerId());
            execute(() -> callback.readEntryFailed(refusal, ctx));
            return;
        }
        reader.readOne(projection.offset(position), committedEnd, callback, ctx);
    }

    @Override
    public CompletableFuture<Position> asyncFindPosition(Predicate<Entry> predicate) {
        CompletableFuture<Position> found = new CompletableFuture<>();
        Position first = projection.position(Math.min(trimOffset, committedEnd));
        FindNewestOp.start(this, new AckState.Range(trimOffset, committedEnd), FindNewestOp.FirstEntry.MUST_MATCH,
            predicate, new FindEntryCallback() {
                @Override
                public void findEntryComplete(Position position, Object ctx) {
                    found.complete(position == null ? first : navigator.next(position));
                }

                @Override
                public void findEntryFailed(ManagedLedgerException exception, Optional<Position> failedReadPosition,
                                            Object ctx) {
                    found.completeExceptionally(exception);
                }
            }, null);
        return found;
    }

    @Override
    public CompletableFuture<Position> getLastDispatchablePosition(Predicate<Entry> predicate, Position startPosition) {
        CompletableFuture<Position> found = new CompletableFuture<>();
        new BackwardSearch(this, predicate, found).from(startPosition);
        return found;
    }

    @Override
    public CompletableFuture<LedgerInfo> getLedgerInfo(long ledgerId) {
        return CompletableFuture.completedFuture(spans.ledgerInfo(ledgerId));
    }

    @Override
    public Optional<LedgerInfo> getOptionalLedgerInfo(long ledgerId) {
        return Optional.ofNullable(spans.ledgerInfo(ledgerId));
    }

    @Override
    public NavigableMap<Long, LedgerInfo> getLedgersInfo() {
        return spans.ledgerInfos();
    }

    @Override
    public String toString() {
        return "NereusManagedLedger[" + name + ", " + state().stockName() + ", last " + lastConfirmed + "]";
    }
}
