package io.nereus.pulsar;

import io.nereus.pulsar.bridge.LedgerDescription;
import io.nereus.pulsar.bridge.NativeEngine;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.OpenedLedger;
import io.nereus.pulsar.compat.NoEntryCacheManager;
import io.nereus.pulsar.cursor.FlushPasses;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Opens, finds, describes and deletes the ledgers of one broker.
 *
 * <p>Owns the map from name to ledger and the ordered threads on which all callbacks run. Promises: one instance per
 * name; concurrent opens share one; a failed open is forgotten; an open waits until a close or deletion of the same
 * name has ended; a ledger is forgotten before its close or deletion is reported. Does not: own the engine; binding,
 * registry node and tombstone are made by the engine itself (L13).
 */
final class NereusManagedLedgerFactory implements ManagedLedgerFactory {

    private static final Logger log = LoggerFactory.getLogger(NereusManagedLedgerFactory.class);
    /** How long a shutdown waits for its ledgers; what is still open then is closed by the engine. */
    private static final long SHUTDOWN_SECONDS = 60;
    /** How long the threads may take to run what is queued once every ledger is closed. */
    private static final long THREADS_SECONDS = 5;

    private final NativeEngine engine;
    private final ManagedLedgerFactoryConfig config;
    private final int maxEntryBytes;
    private final Durations durations;
    private final OrderedScheduler scheduler;
    private final ScheduledFuture<?> statsTask;
    private final NoEntryCacheManager entryCacheManager;
    private final FlushPasses flushPasses;
    private final FactoryStats stats;
    private final Map<String, CompletableFuture<NereusManagedLedger>> ledgers = new ConcurrentHashMap<>();
    /** Closes and deletions under way; the next open of the name waits for them. */
    private final Map<String, CompletableFuture<Void>> ending = new ConcurrentHashMap<>();
    private volatile long cacheEvictionTimeThresholdNanos;
    private volatile boolean closed;
    private long statsRefreshedNanos = System.nanoTime();

    /**
     * @param engine         opened by the caller, who releases it after {@link #shutdown()}
     * @param maxEntryBytes  larger entries are refused
     * @param ackFlushMillis longest time from one pass over the dirty cursors to the next
     * @param durations      hears of every append and read of every ledger
     */
    NereusManagedLedgerFactory(NativeEngine engine, ManagedLedgerFactoryConfig config, int maxEntryBytes,
                               long ackFlushMillis, Durations durations) {
        this.engine = engine;
        this.config = config;
        this.maxEntryBytes = maxEntryBytes;
        this.durations = durations;
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
        this.statsTask = scheduler.scheduleWithFixedDelay(this::refreshStats, config.getStatsPeriodSeconds(),
            config.getStatsPeriodSeconds(), TimeUnit.SECONDS);
    }

    Durations durations() {
        return durations;
    }

    int maxEntryBytes() {
        return maxEntryBytes;
    }

    FlushPasses flushPasses() {
        return flushPasses;
    }

    private ScheduledExecutorService threadOf(String name) {
        return scheduler.chooseThread(name);
    }

    private void refreshStats() {
        long now = System.nanoTime();
        long period = now - statsRefreshedNanos;
        statsRefreshedNanos = now;
        for (ManagedLedger ledger : getManagedLedgers().values()) {
            ((NereusManagedLedger) ledger).mbean().refreshStats(period, TimeUnit.NANOSECONDS);
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
        return Waiting.forOutcome(openLedger(name, ledgerConfig, null));
    }

    @Override
    public void asyncOpen(String name, OpenLedgerCallback callback, Object ctx) {
        asyncOpen(name, new ManagedLedgerConfig(), callback, null, ctx);
    }

    @Override
    public void asyncOpen(String name, ManagedLedgerConfig ledgerConfig, OpenLedgerCallback callback,
                          Supplier<CompletableFuture<Boolean>> mlOwnershipChecker, Object ctx) {
        Callbacks.deliver(openLedger(name, ledgerConfig, mlOwnershipChecker),
            ledger -> callback.openLedgerComplete(ledger, ctx), e -> callback.openLedgerFailed(e, ctx));
    }

    private CompletableFuture<NereusManagedLedger> openLedger(String name, ManagedLedgerConfig ledgerConfig,
                                                              Supplier<CompletableFuture<Boolean>> ownershipChecker) {
        if (closed) {
            return CompletableFuture.failedFuture(new ManagedLedgerFactoryClosedException());
        }
        forgetUnusable(name);
        CompletableFuture<NereusManagedLedger> mine = new CompletableFuture<>();
        CompletableFuture<NereusManagedLedger> others = ledgers.putIfAbsent(name, mine);
        if (others == null) {
            start(name, ledgerConfig, ownershipChecker, mine);
            return mine;
        }
        return others.handle((ledger, failure) -> {
            // the open we joined may have been one that must not create what we may create
            boolean retry = failure != null && ledgerConfig.isCreateIfMissing()
                && NativeErrors.toManagedLedgerException(failure) instanceof ManagedLedgerNotFoundException;
            return retry ? openLedger(name, ledgerConfig, ownershipChecker) : others;
        }).thenCompose(outcome -> outcome);
    }

    /** A fenced or closed instance never works again: the next open replaces it. */
    private void forgetUnusable(String name) {
        CompletableFuture<NereusManagedLedger> known = ledgers.get(name);
        if (known != null && known.isDone() && (known.isCompletedExceptionally() || known.join().isClosed())) {
            ledgers.remove(name, known);
        }
    }

    private void start(String name, ManagedLedgerConfig ledgerConfig,
                       Supplier<CompletableFuture<Boolean>> ownershipChecker,
                       CompletableFuture<NereusManagedLedger> result) {
        ScheduledExecutorService thread = threadOf(name);
        ended(name)
            .thenCompose(ignored -> checkOwner(name, ownershipChecker))
            .thenCompose(ignored -> openStored(name, ledgerConfig, thread))
            .whenComplete((ledger, failure) -> {
                if (failure == null) {
                    log.info("[{}] opened, last {}", name, ledger.getLastConfirmedEntry());
                    result.complete(ledger);
                } else {
                    ledgers.remove(name, result);
                    result.completeExceptionally(openFailure(name, failure));
                }
            });
    }

    private CompletableFuture<NereusManagedLedger> openStored(String name, ManagedLedgerConfig ledgerConfig,
                                                              ScheduledExecutorService thread) {
        boolean create = ledgerConfig.isCreateIfMissing();
        Map<String, String> properties =
            ledgerConfig.getProperties() == null ? Map.of() : ledgerConfig.getProperties();
        String source = ShadowSource.nameIn(ledgerConfig);
        return source == null
            ? engine.openLedger(name, create, properties, thread).thenCompose(opened ->
                new NereusManagedLedger(this, name, ledgerConfig, opened, null, thread).initialize())
            : new ShadowOpening(engine, name, thread).open(source, create, properties).thenCompose(shadow ->
                new NereusManagedLedger(this, name, ledgerConfig, shadow.ledger(), shadow.source(), thread)
                    .initialize().whenComplete((ledger, failure) -> {
                        if (failure != null) {
                            shadow.source().close();
                        }
                    }));
    }

    /** Completes, never exceptionally, when no close or deletion of {@code name} is under way. */
    private CompletableFuture<Void> ended(String name) {
        CompletableFuture<Void> running = ending.get(name);
        return running == null ? CompletableFuture.completedFuture(null)
            : running.handle((ignored, failure) -> null);
    }

    private static CompletableFuture<Void> checkOwner(String name,
                                                      Supplier<CompletableFuture<Boolean>> ownershipChecker) {
        if (ownershipChecker == null) {
            return CompletableFuture.completedFuture(null);
        }
        return ownershipChecker.get().thenCompose(owned -> owned ? CompletableFuture.<Void>completedFuture(null)
            : CompletableFuture.failedFuture(new ManagedLedgerException("ledger " + name
                + " is not opened: this broker does not own its topic any more")));
    }

    private static ManagedLedgerException openFailure(String name, Throwable failure) {
        if (NativeErrors.codeOf(failure) == NativeErrors.NOT_FOUND) {
            return new ManagedLedgerNotFoundException("ledger " + name + " does not exist");
        }
        return NativeErrors.toManagedLedgerException(failure);
    }

    /** {@code ledger} will not serve any more; {@code end} completes when its stream is released. */
    void closing(NereusManagedLedger ledger, CompletableFuture<Void> end) {
        String name = ledger.getName();
        ending.put(name, end);
        CompletableFuture<NereusManagedLedger> known = ledgers.get(name);
        if (known != null && known.isDone() && !known.isCompletedExceptionally() && known.join() == ledger) {
            ledgers.remove(name, known);
        }
        end.whenComplete((ignored, failure) -> ending.remove(name, end));
    }

    @Override
    public Map<String, ManagedLedger> getManagedLedgers() {
        Map<String, ManagedLedger> open = new HashMap<>();
        ledgers.forEach((name, future) -> {
            if (future.isDone() && !future.isCompletedExceptionally()) {
                open.put(name, future.join());
            }
        });
        return open;
    }

    // ---- reading without owning

    @Override
    public ReadOnlyCursor openReadOnlyCursor(String managedLedgerName, Position startPosition,
                                             ManagedLedgerConfig ledgerConfig)
            throws InterruptedException, ManagedLedgerException {
        return Waiting.forOutcome(openReadOnly(managedLedgerName, ledgerConfig)
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
        if (closed) {
            return CompletableFuture.failedFuture(new ManagedLedgerFactoryClosedException());
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

    @Override
    public CompletableFuture<Boolean> asyncExists(String ledgerName) {
        return describe(ledgerName).handle((description, failure) -> {
            if (failure == null) {
                return CompletableFuture.completedFuture(true);
            }
            return NativeErrors.codeOf(failure) == NativeErrors.NOT_FOUND ? CompletableFuture.completedFuture(false)
                : CompletableFuture.<Boolean>failedFuture(NativeErrors.toManagedLedgerException(failure));
        }).thenCompose(outcome -> outcome);
    }

    @Override
    public CompletableFuture<Map<String, String>> getManagedLedgerPropertiesAsync(String name) {
        return describe(name).handle((description, failure) -> {
            if (failure == null) {
                return CompletableFuture.completedFuture(LedgerProperties.visible(description.properties()));
            }
            // the broker asks before it opens: a topic that does not exist yet has no properties
            return NativeErrors.codeOf(failure) == NativeErrors.NOT_FOUND
                ? CompletableFuture.<Map<String, String>>completedFuture(new HashMap<>())
                : CompletableFuture.<Map<String, String>>failedFuture(NativeErrors.toManagedLedgerException(failure));
        }).thenCompose(outcome -> outcome);
    }

    @Override
    public ManagedLedgerInfo getManagedLedgerInfo(String name) throws InterruptedException, ManagedLedgerException {
        return Waiting.forOutcome(describeSeen(name).thenApply(found -> new StoredLedgerReport(found).managedLedgerInfo()));
    }

    @Override
    public void asyncGetManagedLedgerInfo(String name, ManagedLedgerInfoCallback callback, Object ctx) {
        Callbacks.deliver(describeSeen(name).thenApply(found -> new StoredLedgerReport(found).managedLedgerInfo()),
            info -> callback.getInfoComplete(info, ctx), e -> callback.getInfoFailed(e, ctx));
    }

    /** Blocks, as the interface demands; {@code ctx} is BookKeeper's and ignored: the broker hands us null. */
    @Override
    public void estimateUnloadedTopicBacklog(PersistentOfflineTopicStats offlineTopicStats, TopicName topicName,
                                             boolean accurate, Object ctx)
            throws InterruptedException, ManagedLedgerException {
        LedgerDescription found = Waiting.forResult(describeSeen(topicName.getPersistenceNamingEncoding()),
            "estimating the backlog of " + topicName);
        new StoredLedgerReport(found).addTo(offlineTopicStats, accurate);
        offlineTopicStats.statGeneratedAt.setTime(System.currentTimeMillis());
    }

    /** As {@link #describe}; a shadow with the entries that it shows. */
    private CompletableFuture<LedgerDescription> describeSeen(String name) {
        return describe(name).thenCompose(own -> {
            String source = ShadowSource.nameIn(own.properties());
            return source == null ? CompletableFuture.completedFuture(own)
                : describe(source).thenApply(found -> ShadowSource.seenThrough(own, found));
        });
    }

    private CompletableFuture<LedgerDescription> describe(String name) {
        return closed ? CompletableFuture.failedFuture(new ManagedLedgerFactoryClosedException())
            : engine.describeLedger(name, threadOf(name));
    }

    // ---- deleting

    @Override
    public void delete(String name) throws InterruptedException, ManagedLedgerException {
        Waiting.forOutcome(deleteLedger(name));
    }

    @Override
    public void delete(String name, CompletableFuture<ManagedLedgerConfig> mlConfigFuture)
            throws InterruptedException, ManagedLedgerException {
        delete(name);
    }

    @Override
    public void asyncDelete(String name, DeleteLedgerCallback callback, Object ctx) {
        Callbacks.deliver(deleteLedger(name), ignored -> callback.deleteLedgerComplete(ctx),
            e -> callback.deleteLedgerFailed(e, ctx));
    }

    /** The configuration only matters for offloaded data, which there is none of. */
    @Override
    public void asyncDelete(String name, CompletableFuture<ManagedLedgerConfig> mlConfigFuture,
                            DeleteLedgerCallback callback, Object ctx) {
        asyncDelete(name, callback, ctx);
    }

    private CompletableFuture<Void> deleteLedger(String name) {
        if (closed) {
            return CompletableFuture.failedFuture(new ManagedLedgerFactoryClosedException());
        }
        forgetUnusable(name);
        CompletableFuture<NereusManagedLedger> open = ledgers.get(name);
        if (open == null) {
            CompletableFuture<Void> deleted =
                ended(name).thenCompose(ignored -> deleteStored(name, threadOf(name)));
            ending.put(name, deleted);
            return deleted.whenComplete((ignored, failure) -> ending.remove(name, deleted));
        }
        return open.thenCompose(ledger -> {
            CompletableFuture<Void> deleted = new CompletableFuture<>();
            ledger.asyncDelete(Callbacks.deleted(deleted), null);
            return deleted;
        });
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

    @Override
    public CompletableFuture<Void> shutdownAsync() throws ManagedLedgerException {
        synchronized (this) {
            if (closed) {
                throw new ManagedLedgerFactoryClosedException();
            }
            closed = true;
        }
        statsTask.cancel(false);
        List<CompletableFuture<?>> ends = new ArrayList<>(ending.values());
        ledgers.forEach((name, future) -> ends.add(future.thenCompose(ledger -> {
            CompletableFuture<Void> end = new CompletableFuture<>();
            ledger.asyncClose(Callbacks.closed(end), null);
            return end;
        })));
        log.info("closing {} ledgers", ends.size());
        List<CompletableFuture<?>> settled = new ArrayList<>();
        for (CompletableFuture<?> end : ends) {
            settled.add(end.handle((ignored, failure) -> {
                if (failure != null) {
                    log.warn("a ledger did not close cleanly: {}", failure.toString());
                }
                return null;
            }));
        }
        return CompletableFuture.allOf(settled.toArray(CompletableFuture[]::new))
            .completeOnTimeout(null, SHUTDOWN_SECONDS, TimeUnit.SECONDS)
            .thenRunAsync(() -> {
                scheduler.shutdown(); // else every thread is waited for although it is idle
                scheduler.forceShutdown(THREADS_SECONDS, TimeUnit.SECONDS);
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
