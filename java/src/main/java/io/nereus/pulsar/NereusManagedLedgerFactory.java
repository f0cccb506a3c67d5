package io.nereus.pulsar;

import io.nereus.pulsar.bridge.NativeEngine;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.OpenedLedger;
import io.nereus.pulsar.compat.NoEntryCacheManager;
import io.nereus.pulsar.cursor.FlushPasses;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.bookkeeper.common.util.OrderedScheduler;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteLedgerCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ManagedLedgerInfoCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenLedgerCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenReadOnlyCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenReadOnlyManagedLedgerCallback;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFactoryClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerNotFoundException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.ManagedLedgerFactoryConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerInfo;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;
import org.apache.bookkeeper.mledger.impl.cache.EntryCacheManager;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.PersistentOfflineTopicStats;

/**
 * Opens, finds, describes and deletes the ledgers of one broker.
 *
 * <p>Owns the ordered threads on which all callbacks run; what is open and what follows what is {@link OpenLedgers},
 * what can be told without opening is {@link LedgerCatalog}. Does not: own the engine; binding, registry node and
 * tombstone are made by the engine itself (L13).
 */
final class NereusManagedLedgerFactory implements ManagedLedgerFactory {

    /** How long a shutdown waits for its ledgers; what is still open then is closed by the engine. */
    private static final long SHUTDOWN_SECONDS = 60;
    /** How long the threads may take to run what is queued once every ledger is closed. */
    private static final long THREADS_SECONDS = 5;

    private final NativeEngine engine;
    private final ManagedLedgerFactoryConfig config;
    private final int maxEntryBytes;
    private final Durations durations;
    private final ShownLedgers shownLedgers;
    private final OrderedScheduler scheduler;
    private final ScheduledFuture<?> statsTask;
    private final NoEntryCacheManager entryCacheManager;
    private final FlushPasses flushPasses;
    private final AnswerThreads answers = new AnswerThreads();
    private final FactoryStats stats;
    private final LedgerCatalog catalog;
    private final OpenLedgers ledgers;
    private volatile long cacheEvictionTimeThresholdNanos;
    private long statsRefreshedNanos = System.nanoTime();

    /**
     * @param engine         opened by the caller, who releases it after {@link #shutdown()}
     * @param maxEntryBytes  larger entries are refused
     * @param ackFlushMillis longest time from one pass over the dirty cursors to the next
     * @param durations      hears of every append and read of every ledger
     * @param shownLedgers   what cursors answer as their ledger
     */
    NereusManagedLedgerFactory(NativeEngine engine, ManagedLedgerFactoryConfig config, int maxEntryBytes,
                               long ackFlushMillis, Durations durations, ShownLedgers shownLedgers) {
        this.engine = engine;
        this.config = config;
        this.maxEntryBytes = maxEntryBytes;
        this.durations = durations;
        this.shownLedgers = shownLedgers;
        this.scheduler = OrderedScheduler.newSchedulerBuilder()
            .numThreads(config.getNumManagedLedgerSchedulerThreads())
            .traceTaskExecution(config.isTraceTaskExecution())
            .name("nereus-ml")
            .build();
        this.entryCacheManager =
            new NoEntryCacheManager(config.getMaxCacheSize(), config.getCacheEvictionWatermark());
        this.flushPasses = new FlushPasses(scheduler, ackFlushMillis, System::nanoTime);
        this.stats = new FactoryStats(() -> getManagedLedgers().size(), entryCacheManager::getMaxSize, flushPasses);
        this.cacheEvictionTimeThresholdNanos =
            TimeUnit.MILLISECONDS.toNanos(config.getCacheEvictionTimeThresholdMillis());
        this.ledgers = new OpenLedgers(this::openStored, name -> deleteStored(name, threadOf(name)));
        this.catalog = new LedgerCatalog(engine, this::threadOf);
        this.statsTask = scheduler.scheduleWithFixedDelay(this::refreshStats, config.getStatsPeriodSeconds(),
            config.getStatsPeriodSeconds(), TimeUnit.SECONDS);
    }

    Durations durations() {
        return durations;
    }

    int maxEntryBytes() {
        return maxEntryBytes;
    }

    ShownLedgers shownLedgers() {
        return shownLedgers;
    }

    OrderedScheduler scheduler() {
        return scheduler;
    }

    FlushPasses flushPasses() {
        return flushPasses;
    }

    /** For answers in which the broker blocks. */
    Executor answers() {
        return answers;
    }

    private ScheduledExecutorService threadOf(String name) {
        return scheduler.chooseThread(name);
    }

    /** Waits, unless the answer would come on the very thread that waits. */
    private <T> T waitFor(String name, String what, CompletableFuture<T> future)
            throws InterruptedException, ManagedLedgerException {
        boolean answersHere = scheduler.getThreadID(name.hashCode()) == Thread.currentThread().getId();
        Waiting.checkCanWait(future, what + " ledger " + name, answersHere);
        return Waiting.forOutcome(future);
    }

    private void refreshStats() {
        long now = System.nanoTime();
        long period = now - statsRefreshedNanos;
        statsRefreshedNanos = now;
        for (ManagedLedger ledger : getManagedLedgers().values()) {
            ((NereusManagedLedger) ledger).stats().refreshStats(period, TimeUnit.NANOSECONDS);
        }
    }

    // ---- opening

    @Override
    public ManagedLedger open(String name) throws InterruptedException, ManagedLedgerException {
        return open(name, new ManagedLedgerConfig());
    }

    @Override
    public ManagedLedger open(String name, ManagedLedgerConfig ledgerConfig)
            throws InterruptedException, ManagedLedgerException {
        return waitFor(name, "opening", ledgers.open(name, ledgerConfig, null));
    }

    @Override
    public void asyncOpen(String name, OpenLedgerCallback callback, Object ctx) {
        asyncOpen(name, new ManagedLedgerConfig(), callback, null, ctx);
    }

    @Override
    public void asyncOpen(String name, ManagedLedgerConfig ledgerConfig, OpenLedgerCallback callback,
                          Supplier<CompletableFuture<Boolean>> mlOwnershipChecker, Object ctx) {
        Callbacks.deliver(ledgers.open(name, ledgerConfig, mlOwnershipChecker),
            ledger -> callback.openLedgerComplete(ledger, ctx), e -> callback.openLedgerFailed(e, ctx));
    }

    private CompletableFuture<NereusManagedLedger> openStored(String name, ManagedLedgerConfig ledgerConfig) {
        ScheduledExecutorService thread = threadOf(name);
        boolean create = ledgerConfig.isCreateIfMissing();
        Map<String, String> properties =
            ledgerConfig.getProperties() == null ? Map.of() : ledgerConfig.getProperties();
        String source = ShadowSource.nameIn(ledgerConfig);
        CompletableFuture<NereusManagedLedger> opening = source == null
            ? engine.openLedger(name, create, properties, thread).thenCompose(opened ->
                new NereusManagedLedger(this, name, ledgerConfig, opened, null, thread).initialize())
            : new ShadowOpening(engine, name, thread).open(source, create, properties).thenCompose(shadow ->
                new NereusManagedLedger(this, name, ledgerConfig, shadow.ledger(), shadow.source(), thread)
                    .initialize().whenComplete((ledger, failure) -> {
                        if (failure != null) {
                            shadow.source().close();
                        }
                    }));
        return opening.exceptionallyCompose(failure -> CompletableFuture.failedFuture(openFailure(name, failure)));
    }

    private static ManagedLedgerException openFailure(String name, Throwable failure) {
        if (NativeErrors.codeOf(failure) == NativeErrors.NOT_FOUND) {
            return new ManagedLedgerNotFoundException("ledger " + name + " does not exist");
        }
        return NativeErrors.toManagedLedgerException(failure);
    }

    /** {@code ledger} will not serve any more; {@code end} completes when its stream is released. */
    void closing(NereusManagedLedger ledger, CompletableFuture<Void> end) {
        ledgers.closing(ledger, end);
    }

    @Override
    public Map<String, ManagedLedger> getManagedLedgers() {
        return ledgers.byName();
    }

    // ---- reading without owning

    @Override
    public ReadOnlyCursor openReadOnlyCursor(String managedLedgerName, Position startPosition,
                                             ManagedLedgerConfig ledgerConfig)
            throws InterruptedException, ManagedLedgerException {
        return waitFor(managedLedgerName, "opening a read-only cursor of",
            openReadOnly(managedLedgerName, ledgerConfig)
                .thenApply(ledger -> ledger.createOwningCursor(startPosition)));
    }

    @Override
    public void asyncOpenReadOnlyCursor(String managedLedgerName, Position startPosition,
                                        ManagedLedgerConfig ledgerConfig, OpenReadOnlyCursorCallback callback,
                                        Object ctx) {
        Callbacks.deliver(openReadOnly(managedLedgerName, ledgerConfig)
                .thenApply(ledger -> ledger.createOwningCursor(startPosition)),
            cursor -> callback.openReadOnlyCursorComplete(cursor, ctx),
            e -> callback.openReadOnlyCursorFailed(e, ctx));
    }

    @Override
    public void asyncOpenReadOnlyManagedLedger(String managedLedgerName, OpenReadOnlyManagedLedgerCallback callback,
                                               ManagedLedgerConfig ledgerConfig, Object ctx) {
        Callbacks.deliver(openReadOnly(managedLedgerName, ledgerConfig),
            ledger -> callback.openReadOnlyManagedLedgerComplete(ledger, ctx),
            e -> callback.openReadOnlyManagedLedgerFailed(e, ctx));
    }

    private CompletableFuture<NereusReadOnlyManagedLedger> openReadOnly(String name, ManagedLedgerConfig ledgerConfig) {
        if (ledgers.isClosed()) {
            return OpenLedgers.refusal();
        }
        ScheduledExecutorService thread = threadOf(name);
        return engine.openReadOnly(name, thread)
            .thenCompose(opened -> throughShadow(opened, thread))
            .thenApply(opened -> new NereusReadOnlyManagedLedger(name, ledgerConfig, opened, thread, durations))
            .exceptionallyCompose(failure -> CompletableFuture.failedFuture(openFailure(name, failure)));
    }

    /** The entries that a shadow shows are those of its source. */
    private CompletableFuture<OpenedLedger> throughShadow(OpenedLedger opened, ScheduledExecutorService thread) {
        String source = ShadowSource.nameIn(opened.description().properties());
        if (source == null) {
            return CompletableFuture.completedFuture(opened);
        }
        opened.stream().close();
        return engine.openReadOnly(source, thread).thenApply(found -> new OpenedLedger(found.stream(),
            ShadowSource.seenThrough(opened.description(), found.description())));
    }

    // ---- looking at what need not be open

    @Override
    public CompletableFuture<Boolean> asyncExists(String ledgerName) {
        return look(ledgerName, catalog::exists);
    }

    @Override
    public CompletableFuture<Map<String, String>> getManagedLedgerPropertiesAsync(String name) {
        return look(name, catalog::properties);
    }

    @Override
    public ManagedLedgerInfo getManagedLedgerInfo(String name) throws InterruptedException, ManagedLedgerException {
        return waitFor(name, "describing", look(name, catalog::info));
    }

    @Override
    public void asyncGetManagedLedgerInfo(String name, ManagedLedgerInfoCallback callback, Object ctx) {
        Callbacks.deliver(look(name, catalog::info), info -> callback.getInfoComplete(info, ctx),
            e -> callback.getInfoFailed(e, ctx));
    }

    private <T> CompletableFuture<T> look(String name, Function<String, CompletableFuture<T>> question) {
        return ledgers.isClosed() ? OpenLedgers.refusal() : question.apply(name).exceptionallyCompose(failure ->
            CompletableFuture.failedFuture(NativeErrors.toManagedLedgerException(failure)));
    }

    /** Blocks, as the interface demands; {@code ctx} is BookKeeper's and ignored: the broker hands us null. */
    @Override
    public void estimateUnloadedTopicBacklog(PersistentOfflineTopicStats offlineTopicStats, TopicName topicName,
                                             boolean accurate, Object ctx)
            throws InterruptedException, ManagedLedgerException {
        if (ledgers.isClosed()) {
            throw new ManagedLedgerFactoryClosedException();
        }
        catalog.estimateBacklog(offlineTopicStats, topicName, accurate);
    }

    // ---- deleting

    @Override
    public void delete(String name) throws InterruptedException, ManagedLedgerException {
        waitFor(name, "deleting", ledgers.delete(name));
    }

    @Override
    public void delete(String name, CompletableFuture<ManagedLedgerConfig> mlConfigFuture)
            throws InterruptedException, ManagedLedgerException {
        delete(name);
    }

    @Override
    public void asyncDelete(String name, DeleteLedgerCallback callback, Object ctx) {
        Callbacks.deliver(ledgers.delete(name), ignored -> callback.deleteLedgerComplete(ctx),
            e -> callback.deleteLedgerFailed(e, ctx));
    }

    /** The configuration only matters for offloaded data, which there is none of. */
    @Override
    public void asyncDelete(String name, CompletableFuture<ManagedLedgerConfig> mlConfigFuture,
                            DeleteLedgerCallback callback, Object ctx) {
        asyncDelete(name, callback, ctx);
    }

    /** Deletes what is stored under {@code name}; completes on {@code thread}. */
    CompletableFuture<Void> deleteStored(String name, Executor thread) {
        return engine.deleteLedger(name, thread);
    }

    // ---- shutdown

    @Override
    public void shutdown() throws InterruptedException, ManagedLedgerException {
        Waiting.forOutcome(shutdownAsync());
    }

    /** Opens under way fail at once; what they still open is closed as it arrives. */
    @Override
    public CompletableFuture<Void> shutdownAsync() throws ManagedLedgerException {
        CompletableFuture<Void> ended = ledgers.close();
        statsTask.cancel(false);
        return ended.completeOnTimeout(null, SHUTDOWN_SECONDS, TimeUnit.SECONDS).thenRunAsync(() -> {
            scheduler.shutdown(); // else every thread is waited for although it is idle
            scheduler.forceShutdown(THREADS_SECONDS, TimeUnit.SECONDS);
            answers.close();
        });
    }

    // ---- configuration and caches

    @Override
    public ManagedLedgerFactoryConfig getConfig() {
        return config;
    }

    @Override
    public EntryCacheManager getEntryCacheManager() {
        return entryCacheManager;
    }

    @Override
    public void updateCacheEvictionTimeThreshold(long cacheEvictionTimeThresholdNanos) {
        this.cacheEvictionTimeThresholdNanos = cacheEvictionTimeThresholdNanos;
    }

    @Override
    public long getCacheEvictionTimeThreshold() {
        return cacheEvictionTimeThresholdNanos;
    }

    @Override
    public FactoryStats getCacheStats() {
        return stats;
    }
}
