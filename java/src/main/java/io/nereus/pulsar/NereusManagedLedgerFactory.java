package io.nereus.pulsar;

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
    private final OrderedScheduler scheduler;
    private final ScheduledFuture<?> statsTask;
    private final NoEntryCacheManager entryCacheManager;
    private final FlushPasses flushPasses;
    private final FactoryStats stats;
    private final LedgerCatalog catalog;
    private final Map<String, Opening> ledgers = new ConcurrentHashMap<>();
    /** Closes and deletions under way; the next open of the name waits for them. */
    private final Map<String, CompletableFuture<Void>> ending = new ConcurrentHashMap<>();
    /** Held, shortly, to decide what an open, close or deletion of a name follows; nothing is called under it. */
    private final Object names = new Object();
    private volatile long cacheEvictionTimeThresholdNanos;
    private volatile boolean closed;
    private long statsRefreshedNanos = System.nanoTime();

    /** An open under way or done; the first one to complete the result decides. */
    private record Opening(CompletableFuture<NereusManagedLedger> result, long startedNanos) {

        /** The ledger, or null while it is being opened and when that failed. */
        NereusManagedLedger opened() {
            return result.isDone() && !result.isCompletedExceptionally() ? result.join() : null;
        }
    }

    /**
     * @param engine         opened by the caller, who releases it after {@link #shutdown()}
     * @param maxEntryBytes  larger entries are refused
     * @param ackFlushMillis longest time from one pass over the dirty cursors to the next
     */
    NereusManagedLedgerFactory(NativeEngine engine, ManagedLedgerFactoryConfig config, int maxEntryBytes,
                               long ackFlushMillis) {
        this.engine = engine;
        this.config = config;
        this.maxEntryBytes = maxEntryBytes;
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
        this.catalog = new LedgerCatalog(engine, this::threadOf);
        this.statsTask = scheduler.scheduleWithFixedDelay(this::refreshStats, config.getStatsPeriodSeconds(),
            config.getStatsPeriodSeconds(), TimeUnit.SECONDS);
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
        return waitFor(name, "opening", openLedger(name, ledgerConfig, null));
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
        Opening mine = new Opening(new CompletableFuture<>(), System.nanoTime());
        Opening joined;
        CompletableFuture<Void> before;
        synchronized (names) {
            if (closed) {
                return closedFactory();
            }
            forgetUnusable(name);
            joined = ledgers.putIfAbsent(name, mine);
            before = ending.get(name);
        }
        if (joined == null) {
            start(name, ledgerConfig, ownershipChecker, mine, before);
            return mine.result();
        }
        boolean hung = System.nanoTime() - joined.startedNanos()
            > TimeUnit.SECONDS.toNanos(ledgerConfig.getMetadataOperationsTimeoutSeconds());
        return joined.result().exceptionallyCompose(failure -> {
            // what we joined may have been an open that must not create what we may create, or one that was hung
            boolean again = hung || ledgerConfig.isCreateIfMissing()
                && NativeErrors.toManagedLedgerException(failure) instanceof ManagedLedgerNotFoundException;
            return again ? openLedger(name, ledgerConfig, ownershipChecker) : CompletableFuture.failedFuture(failure);
        });
    }

    private static <T> CompletableFuture<T> closedFactory() {
        return CompletableFuture.failedFuture(new ManagedLedgerFactoryClosedException());
    }

    /** A fenced or closed instance never works again: the next open replaces it. */
    private void forgetUnusable(String name) {
        Opening known = ledgers.get(name);
        if (known != null && known.result().isDone() && (known.opened() == null || known.opened().isClosed())) {
            ledgers.remove(name, known);
        }
    }

    private void start(String name, ManagedLedgerConfig ledgerConfig,
                       Supplier<CompletableFuture<Boolean>> ownershipChecker, Opening opening,
                       CompletableFuture<Void> before) {
        ScheduledExecutorService thread = threadOf(name);
        settled(before)
            .thenCompose(ignored -> checkOwner(name, ownershipChecker))
            .thenCompose(ignored -> openStored(name, ledgerConfig, thread))
            .whenComplete((ledger, failure) -> {
                if (failure != null) {
                    ledgers.remove(name, opening);
                    opening.result().completeExceptionally(openFailure(name, failure));
                } else if (opening.result().complete(ledger)) {
                    log.info("[{}] opened, last {}", name, ledger.getLastConfirmedEntry());
                } else { // the factory was closed meanwhile
                    ledger.asyncClose(Callbacks.closed(new CompletableFuture<>()), null);
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

    /** Completes, never exceptionally, when a close or deletion that came before has ended; null if there was none. */
    private static CompletableFuture<Void> settled(CompletableFuture<Void> before) {
        return before == null ? CompletableFuture.completedFuture(null) : before.handle((ignored, failure) -> null);
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
        synchronized (names) {
            ending.put(name, end);
            Opening known = ledgers.get(name);
            if (known != null && known.opened() == ledger) {
                ledgers.remove(name, known);
            }
        }
        end.whenComplete((ignored, failure) -> ending.remove(name, end));
    }

    @Override
    public Map<String, ManagedLedger> getManagedLedgers() {
        Map<String, ManagedLedger> open = new HashMap<>();
        ledgers.forEach((name, opening) -> {
            NereusManagedLedger ledger = opening.opened();
            if (ledger != null) {
                open.put(name, ledger);
            }
        });
        return open;
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
        if (closed) {
            return closedFactory();
        }
        ScheduledExecutorService thread = threadOf(name);
        return engine.openReadOnly(name, thread)
            .thenCompose(opened -> throughShadow(opened, thread))
            .thenApply(opened -> new NereusReadOnlyManagedLedger(name, ledgerConfig, opened, thread))
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
        return closed ? closedFactory() : question.apply(name).exceptionallyCompose(failure ->
            CompletableFuture.failedFuture(NativeErrors.toManagedLedgerException(failure)));
    }

    /** Blocks, as the interface demands; {@code ctx} is BookKeeper's and ignored: the broker hands us null. */
    @Override
    public void estimateUnloadedTopicBacklog(PersistentOfflineTopicStats offlineTopicStats, TopicName topicName,
                                             boolean accurate, Object ctx)
            throws InterruptedException, ManagedLedgerException {
        if (closed) {
            throw new ManagedLedgerFactoryClosedException();
        }
        catalog.estimateBacklog(offlineTopicStats, topicName, accurate);
    }

    // ---- deleting

    @Override
    public void delete(String name) throws InterruptedException, ManagedLedgerException {
        waitFor(name, "deleting", deleteLedger(name));
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
        CompletableFuture<Void> mine = new CompletableFuture<>();
        Opening open;
        CompletableFuture<Void> before;
        synchronized (names) {
            if (closed) {
                return closedFactory();
            }
            forgetUnusable(name);
            open = ledgers.get(name);
            before = open == null ? ending.put(name, mine) : null;
        }
        if (open == null) {
            settled(before).thenCompose(ignored -> deleteStored(name, threadOf(name)))
                .whenComplete((ignored, failure) -> {
                    ending.remove(name, mine);
                    if (failure == null) {
                        mine.complete(null);
                    } else {
                        mine.completeExceptionally(failure);
                    }
                });
            return mine;
        }
        return open.result().handle((ledger, failure) -> {
            if (failure != null) { // it was forgotten by now, and what is stored is still to be deleted
                return deleteLedger(name);
            }
            ledger.asyncDelete(Callbacks.deleted(mine), null);
            return mine;
        }).thenCompose(Function.identity());
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
        List<CompletableFuture<?>> ends;
        List<Opening> openings;
        synchronized (names) {
            if (closed) {
                throw new ManagedLedgerFactoryClosedException();
            }
            closed = true;
            ends = new ArrayList<>(ending.values());
            openings = new ArrayList<>(ledgers.values());
        }
        statsTask.cancel(false);
        for (Opening opening : openings) {
            opening.result().completeExceptionally(new ManagedLedgerFactoryClosedException());
            NereusManagedLedger ledger = opening.opened();
            if (ledger != null) {
                CompletableFuture<Void> end = new CompletableFuture<>();
                ledger.asyncClose(Callbacks.closed(end), null);
                ends.add(end);
            }
        }
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
