package io.nereus.pulsar;

import io.netty.buffer.ByteBuf;
import io.nereus.pulsar.bridge.LedgerDescription;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.NativeStream;
import io.nereus.pulsar.bridge.OpenedLedger;
import io.nereus.pulsar.cursor.AckState;
import io.nereus.pulsar.cursor.FlushPasses;
import java.time.Clock;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.apache.bookkeeper.common.util.OrderedScheduler;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteLedgerCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.TerminateCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.UpdatePropertiesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerAttributes;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerMXBean;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One topic's log as Pulsar sees it: translates Pulsar's calls into calls on one native stream and their completions
 * back.
 *
 * <p>Wires what does the work: {@link PendingAdds}, {@link LedgerCursors}, {@link LedgerLifecycle}, {@link LedgerTrimmer},
 * {@link LedgerSearch}, {@link LedgerEnd}, over one {@link LedgerExtent}; itself it only delegates. Promises: callbacks run
 * exactly once, on the ledger's ordered executor, with no lock held; the last confirmed entry moves before the callback
 * of its append and never goes back; positions handed out are in normal form (L7). Keeps: L5 (a fenced ledger refuses
 * everything for good), L14 (what is not supported is refused by name). Does not: hold storage truth, read ahead, cache
 * entries.
 */
@SuppressWarnings("unchecked")   // only for the raw types that are inherited; see LedgerQueries
final class NereusManagedLedger extends LedgerQueries implements PendingAdds.Listener {

    private static final Logger log = LoggerFactory.getLogger(NereusManagedLedger.class);

    private final NereusManagedLedgerFactory factory;
    private final String name;
    private final NativeStream stream;
    private final ScheduledExecutorService executor;
    private final LedgerLifecycle lifecycle;
    private final LedgerStats stats;
    /** Null if the ledger's entries are its own. */
    private final ShadowSource source;
    private final Adds pendingAdds;
    private final EntryReader reader;
    private final LedgerProperties properties;
    private final LedgerCursors cursors;
    private final WaitingCursors waitingCursors = new WaitingCursors();
    private final LedgerTrimmer trimmer;
    private final LedgerSearch search;
    private final LedgerEnd end;
    private final ManagedLedgerInterceptor interceptor;
    private final Clock clock;
    private final long creationMillis;

    /** What opens this ledger, with everything that was read for it; null from then on. */
    private LedgerOpening opening;
    private volatile ManagedLedgerConfig config;
    private volatile ManagedLedgerAttributes attributes;
    /** What stands for this ledger where it is cast; null until somebody asks. */
    private ManagedLedger castable;
    /** The one thread of the executor, known before anybody else sees the ledger. */
    private volatile Thread executorThread;

    /**
     * Wraps an opened stream; {@link #initialize()} has to run before anybody else sees the ledger.
     *
     * @param openedLedger stream and description; of a shadow, the description shows the source's entries
     * @param source       whose entries a shadow shows; null for a ledger with entries of its own
     * @param executor     the ledger's own thread of the factory's ordered scheduler
     */
    NereusManagedLedger(NereusManagedLedgerFactory factory, String name, ManagedLedgerConfig config,
                        OpenedLedger openedLedger, ShadowSource source, ScheduledExecutorService executor) {
        super(new LedgerExtent(openedLedger.description()));
        this.factory = factory;
        this.name = name;
        this.config = config;
        this.stream = openedLedger.stream();
        this.source = source;
        this.executor = executor;
        LedgerDescription opened = openedLedger.description();
        this.creationMillis = opened.creationMillis();
        this.clock = config.getClock();
        this.interceptor = config.getManagedLedgerInterceptor();
        this.lifecycle = new LedgerLifecycle(name, source == null && opened.state().terminated());
        this.cursors = new LedgerCursors(this);
        this.stats = new LedgerStats(factory.durations());
        this.pendingAdds = source == null ? new PendingAdds(name, stream, lifecycle, stats, executor, interceptor,
            factory.maxEntryBytes(), this) : new ShadowAdds(this, source, extent, lifecycle, stats, interceptor);
        this.reader = new EntryReader(name, entries(), extent.projection(), stats, interceptor);
        this.properties = new LedgerProperties(stream, interceptor, opened.properties());
        this.trimmer = source == null ? new LedgerTrimmer(this, extent) : new ShadowTrimmer(this, extent, source);
        this.search = new LedgerSearch(this, extent, reader, factory.answers());
        this.end = new LedgerEnd(this, factory, lifecycle, pendingAdds, cursors, waitingCursors, properties);
        this.opening = new LedgerOpening(name, opened, stream, extent, cursors, reader, interceptor);
        stream.setRollover(LedgerTrimmer.rollover(config));
    }

    /**
     * Recovers the durable cursors and lets the interceptor see properties and last entry.
     *
     * <p>Called once.
     *
     * @return this ledger, ready for use; completes on the executor
     */
    CompletableFuture<NereusManagedLedger> initialize() {
        LedgerOpening only = opening;
        opening = null; // the pages of all cursors as they were stored: nobody needs them again
        return only.initialize().thenApplyAsync(ignored -> {
            executorThread = Thread.currentThread();
            return this;
        }, this::execute);
    }

    // ---- for cursors and collaborators

    NativeStream stream() {
        return stream;
    }

    /** The stream that holds the entries. */
    private NativeStream entries() {
        return source == null ? stream : source.stream();
    }

    /** Whose entries this ledger shows; null if they are its own. */
    ShadowSource source() {
        return source;
    }

    FlushPasses flushPasses() {
        return factory.flushPasses();
    }

    @Override
    boolean isOnExecutor() {
        return Thread.currentThread() == executorThread;
    }

    @Override
    public Executor executor() {
        return this::execute;
    }

    @Override
    public ScheduledExecutorService scheduler() {
        return executor;
    }

    /** The threads of all ledgers of the broker. */
    OrderedScheduler schedulers() {
        return factory.scheduler();
    }

    /** What {@code caller} gets as this ledger; see {@link ShownLedgers}. Any thread. */
    ManagedLedger shownTo(Class<?> caller) {
        return factory.shownLedgers().castBy(caller) ? castable() : this;
    }

    /** Made once, so that it is the same for all who compare it. */
    private synchronized ManagedLedger castable() {
        if (castable == null) {
            castable = factory.shownLedgers().castable(this);
        }
        return castable;
    }

    Clock clock() {
        return clock;
    }

    LedgerStats stats() {
        return stats;
    }

    LedgerState state() {
        return lifecycle.state();
    }

    /** Broker clock of the ledger's creation in milliseconds. */
    long creationMillis() {
        return creationMillis;
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
    public void read(long start, int maxEntries, long maxBytes, long upTo, EntriesResult result) {
        ManagedLedgerException refusal = useRefusal();
        if (refusal != null) {
            execute(() -> result.failed(refusal));
            return;
        }
        reader.read(start, maxEntries, maxBytes, Math.min(upTo, extent.committedEnd()),
            source == null ? result : followedFirst(result));
    }

    /** A read that fails may have met what the source has let go of meanwhile: then that is known before it is told. */
    private EntriesResult followedFirst(EntriesResult result) {
        return new EntriesResult() {
            @Override
            public void entries(List<Entry> entries) {
                result.entries(entries);
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                trimmer.trim(new CompletableFuture<>());
                ManagedLedgerException refusal = useRefusal();
                result.failed(refusal == null ? exception : refusal);
            }
        };
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
            cursors.all().moved(cursor, extent.projection().markDeletePosition(newMarkDeleteEnd));
        }
        int spanBits = extent.projection().spanBits();
        if (newMarkDeleteEnd >> spanBits > oldMarkDeleteEnd >> spanBits) {
            trimmer.checkSoon();
        }
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
        return trimmer.trimTo(offset);
    }

    // ---- PendingAdds.Listener

    @Override
    public Position committed(long offset, int storedBytes, long appendMillis) {
        return extent.committed(offset, storedBytes, appendMillis);
    }

    @Override
    public void completed() {
        waitingCursors.wakeAll();
    }

    /** The source was deleted, or is another one by now: the broker has to load the topic anew. Any thread. */
    void sourceLost() {
        if (lifecycle.fence()) {
            log.warn("[{}] its source {} was deleted or created anew; this instance refuses everything from now on", name,
                source.name());
            execute(waitingCursors::wakeAll);
        }
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

    /** Broker clock of the last committed append in milliseconds, also over restarts; 0 if there was none. */
    public long getLastAddEntryTime() { // without @Override: Pulsar has it from 4.0.9 on
        return entries().state().lastAppendMillis();
    }

    /** Broker clock of the topic's creation in milliseconds. */
    public long getMetadataCreationTimestamp() { // without @Override: Pulsar has it from 4.0.9 on
        return creationMillis;
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
        return initialPosition == InitialPosition.Earliest ? extent.trimOffset() : extent.committedEnd();
    }

    @Override
    public ManagedCursor newNonDurableCursor(Position startPosition, String subscriptionName,
                                             InitialPosition initialPosition, boolean isReadCompacted)
            throws ManagedLedgerException {
        Objects.requireNonNull(subscriptionName, "cursor name can't be null");
        checkOpen();
        long markDeleteEnd;
        if (startPosition == null || startPosition.compareTo(extent.lastConfirmed()) > 0) {
            // also a LATEST whose entry id a C++ client has truncated
            markDeleteEnd = initialPosition == InitialPosition.Earliest ? extent.firstKept() : extent.committedEnd();
        } else if (startPosition.getLedgerId() == PositionFactory.EARLIEST.getLedgerId()) {
            markDeleteEnd = extent.firstKept();
        } else {
            // The position is the last one already consumed; behind it lies at least the last entry.
            long last = Math.max(0, extent.committedEnd() - 1);
            long after = extent.navigator().offsetAfter(startPosition);
            markDeleteEnd = startPosition.compareTo(extent.lastConfirmed()) < 0 ? Math.min(after, last) : after;
        }
        return cursors.openNonDurable(subscriptionName, markDeleteEnd, isReadCompacted);
    }

    /** Makes a non-durable cursor that has acknowledged {@code acks}, which it takes over; its name must be free. */
    ManagedCursor newDuplicate(String cursorName, AckState acks) throws ManagedLedgerException {
        Objects.requireNonNull(cursorName, "cursor name can't be null");
        checkOpen();
        return cursors.addDuplicate(cursorName, acks);
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

    /** Those that are active now; a container of the caller's own. */
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
    public long getNumberOfActiveEntries() {
        ManagedCursor slowest = getSlowestConsumer();
        return slowest == null ? 0
            : extent.committedEnd() - extent.navigator().offsetAfter(slowest.getMarkDeletedPosition());
    }

    @Override
    public long getEstimatedBacklogSize() {
        ManagedCursor slowest = getSlowestConsumer();
        return slowest == null ? 0 : getEstimatedBacklogSize(slowest.getMarkDeletedPosition());
    }

    @Override
    public CompletableFuture<Long> getEarliestMessagePublishTimeInBacklog() {
        ManagedCursor slowest = getSlowestConsumer();
        return slowest == null ? CompletableFuture.completedFuture(0L)
            : search.publishTimeAfter(slowest.getMarkDeletedPosition());
    }

    /** A view, made for the caller: see {@link LedgerBean}. */
    @Override
    public ManagedLedgerMXBean getStats() {
        return new LedgerBean(name, stats, extent.spans()::totalBytes, cursors::backlogEntries);
    }

    /** Made once: every collection of metrics asks for it. */
    @Override
    public ManagedLedgerAttributes getManagedLedgerAttributes() {
        ManagedLedgerAttributes known = attributes;
        if (known == null) {
            known = new ManagedLedgerAttributes(this);
            attributes = known;
        }
        return known;
    }

    @Override
    public CompletableFuture<ManagedLedgerInternalStats> getManagedLedgerInternalStats(boolean includeLedgerMetadata) {
        return CompletableFuture.completedFuture(InternalStats.of(this));
    }

    // ---- end of life

    @Override
    public void asyncTerminate(TerminateCallback callback, Object ctx) {
        Callbacks.deliver(end.terminate(), last -> callback.terminateComplete(last, ctx),
            e -> callback.terminateFailed(e, ctx));
    }

    /** Marks the ledger as moved to another cluster and terminates it; the mark is durable first. */
    @Override
    public CompletableFuture<Position> asyncMigrate() {
        return end.migrate();
    }

    @Override
    public boolean isMigrated() {
        return end.isMigrated();
    }

    @Override
    public CompletableFuture<Void> asyncTruncate() {
        return trimmer.truncate();
    }

    @Override
    void closeWhatIsDue() {
        trimmer.checkSoon();
    }

    @Override
    boolean idleFor(long millis) {
        return !isClosed() && clock.millis() > entries().state().lastAppendMillis() + millis;
    }

    @Override
    public void trimConsumedLedgersInBackground(CompletableFuture<?> promise) {
        execute(() -> trimmer.trim(promise));
    }

    @Override
    public void asyncClose(CloseCallback callback, Object ctx) {
        Callbacks.deliver(end.close(), ignored -> callback.closeComplete(ctx), e -> callback.closeFailed(e, ctx));
    }

    @Override
    public void asyncDelete(DeleteLedgerCallback callback, Object ctx) {
        Callbacks.deliver(end.delete(), ignored -> callback.deleteLedgerComplete(ctx),
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

    // ---- reads and searches without a cursor

    @Override
    public void asyncReadEntry(Position position, ReadEntryCallback callback, Object ctx) {
        search.read(position, callback, ctx);
    }

    /**
     * Reads the entry at an offset below the committed end, for a cursor. Never fails as a ledger that does not exist,
     * also if the offset is trimmed meanwhile: a broker that skips lost ledgers would take the backlog for expired.
     */
    void readEntryAt(long offset, ReadEntryCallback callback, Object ctx) {
        search.readAt(offset, callback, ctx);
    }

    @Override
    public CompletableFuture<Position> asyncFindPosition(Predicate<Entry> predicate) {
        return search.firstAfterMatching(predicate);
    }

    @Override
    public CompletableFuture<Position> getLastDispatchablePosition(Predicate<Entry> predicate, Position startPosition) {
        return search.lastMatchingUpTo(startPosition, predicate);
    }

    @Override
    public String toString() {
        return "NereusManagedLedger[" + name + ", " + state().stockName() + ", last " + getLastConfirmedEntry() + "]";
    }
}
