package io.nereus.pulsar;

import io.netty.channel.EventLoopGroup;
import io.nereus.pulsar.binding.NereusStorageClass;
import io.nereus.pulsar.bridge.EngineSettings;
import io.nereus.pulsar.bridge.NativeEngine;
import io.opentelemetry.api.OpenTelemetry;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactoryConfig;
import org.apache.pulsar.broker.BookKeeperClientFactory;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.ServiceConfigurationUtils;
import org.apache.pulsar.broker.storage.ManagedLedgerStorage;
import org.apache.pulsar.broker.storage.ManagedLedgerStorageClass;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The class that one line of broker.conf names: {@code managedLedgerStorageClassName}.
 *
 * <p>Wires: reads the configuration, sets what a broker without bookies needs, opens or shares the engine of the data
 * directory, offers the storage class {@code nereus}, and closes all of it. Promises: nothing is changed and nothing is
 * opened when the configuration is refused; after {@link #close()} no thread of ours is left. Pulsar's tests copy this
 * object: all mutable state sits behind one final field, and {@code this} never escapes.
 */
public final class NereusManagedLedgerStorage implements ManagedLedgerStorage {

    private static final Logger log = LoggerFactory.getLogger(NereusManagedLedgerStorage.class);

    /** Room for what the broker adds to a message of the largest size: its metadata, the broker's own metadata. */
    private static final int ENTRY_HEADROOM_BYTES = 64 * 1024;
    /** Opening replays the journal, which may take a while after a crash. */
    private static final long OPEN_SECONDS = 300;
    private static final long CLOSE_SECONDS = 60;
    private static final long MEGABYTE = 1024 * 1024;

    /** What {@link #initialize} made and {@link #close()} gives back. */
    private record Running(NativeEngine engine, NereusManagedLedgerFactory factory, NereusStorageClass storageClass,
                           Telemetry telemetry, LedgerTelemetry ledgerTelemetry) {
    }

    private final AtomicReference<Running> running = new AtomicReference<>();

    @Override
    public void initialize(ServiceConfiguration conf, MetadataStoreExtended metadataStore,
                           BookKeeperClientFactory bookkeeperProvider, EventLoopGroup eventLoopGroup,
                           OpenTelemetry openTelemetry) throws Exception {
        NereusConfiguration configuration = NereusConfiguration.of(conf);
        BrokerSettings.refuseWhatIsNotBuilt(conf);
        int maxEntryBytes = Math.addExact(conf.getMaxMessageSize(), ENTRY_HEADROOM_BYTES);
        EngineSettings settings = engineSettings(conf, configuration, maxEntryBytes,
            DataDirectory.resolve(configuration.dataDirectory(), metadataStore));
        NativeEngine engine = open(settings, metadataStore);
        Telemetry telemetry = new Telemetry(openTelemetry, engine, settings.values().get(EngineSettings.DATA_DIRECTORY));
        NereusManagedLedgerFactory factory = new NereusManagedLedgerFactory(engine, factoryConfig(conf), maxEntryBytes,
            configuration.ackFlushMillis(), telemetry, ShownLedgers.ofBroker());
        running.set(new Running(engine, factory, new NereusStorageClass(factory), telemetry,
            new LedgerTelemetry(openTelemetry, factory::getManagedLedgers)));
        BrokerSettings.replaceStockDefaults(conf);
        showMetrics(engine, settings.values().get(EngineSettings.DATA_DIRECTORY));
        log.info("Nereus stores topics in {}", settings.values().get(EngineSettings.DATA_DIRECTORY));
    }

    private static NativeEngine open(EngineSettings settings, MetadataStoreExtended metadataStore) throws Exception {
        CompletableFuture<NativeEngine> acquired = NativeEngine.acquire(settings, metadataStore);
        try {
            return acquired.get(OPEN_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        } catch (InterruptedException | TimeoutException e) {
            acquired.thenAccept(NativeEngine::release); // should it open after all, nobody would close it
            throw e;
        }
    }

    /** A broker whose metrics are made otherwise still stores messages. */
    private static void showMetrics(NativeEngine engine, String directory) {
        try {
            EngineMetrics.show(engine, directory);
        } catch (LinkageError e) {
            log.warn("This broker has no Prometheus simple client: the metrics nereus_* are missing on its page", e);
        }
    }

    private static void hideMetrics(NativeEngine engine) {
        try {
            EngineMetrics.hide(engine);
        } catch (LinkageError e) {
            log.debug("There were no metrics to take back", e);
        }
    }

    private static EngineSettings engineSettings(ServiceConfiguration conf, NereusConfiguration configuration,
                                                 int maxEntryBytes, Path directory) {
        if (conf.getClusterName() == null || conf.getClusterName().isBlank()) {
            throw new IllegalArgumentException("clusterName is not set: allowed is the name of this Pulsar cluster");
        }
        long publishBufferBytes = Math.max(0, conf.getMaxMessagePublishBufferSizeInMB()) * MEGABYTE;
        Map<String, String> values = new HashMap<>();
        values.put(EngineSettings.DATA_DIRECTORY, directory.toString());
        values.put(EngineSettings.CLUSTER_NAME, conf.getClusterName());
        values.put(EngineSettings.BROKER_ID, brokerText(conf));
        values.put("memoryLimitBytes",
            Long.toString(configuration.memoryLimitBytes(publishBufferBytes, maxEntryBytes)));
        values.put("publishBufferBytes", Long.toString(publishBufferBytes));
        values.put("segmentBytes", Long.toString(configuration.segmentBytes()));
        values.put("maxEntryBytes", Integer.toString(maxEntryBytes));
        values.put("acceptOlderCopy", Boolean.toString(configuration.acceptOlderCopy()));
        if (!configuration.nativeDirectory().isEmpty()) {
            values.put(EngineSettings.NATIVE_DIRECTORY, configuration.nativeDirectory());
        }
        return new EngineSettings(values);
    }

    /** The broker's own id does not exist yet when the storage is made; host and process tell an operator enough. */
    private static String brokerText(ServiceConfiguration conf) {
        return ServiceConfigurationUtils.getDefaultOrConfiguredAddress(conf.getAdvertisedAddress()) + " (process "
            + ProcessHandle.current().pid() + ")";
    }

    private static ManagedLedgerFactoryConfig factoryConfig(ServiceConfiguration conf) {
        ManagedLedgerFactoryConfig config = new ManagedLedgerFactoryConfig();
        config.setMaxCacheSize(conf.getManagedLedgerCacheSizeMB() * MEGABYTE);
        config.setCacheEvictionWatermark(conf.getManagedLedgerCacheEvictionWatermark());
        config.setNumManagedLedgerSchedulerThreads(conf.getManagedLedgerNumSchedulerThreads());
        config.setCacheEvictionIntervalMs(conf.getManagedLedgerCacheEvictionIntervalMs());
        config.setCacheEvictionTimeThresholdMillis(conf.getManagedLedgerCacheEvictionTimeThresholdMillis());
        config.setTraceTaskExecution(conf.isManagedLedgerTraceTaskExecution());
        config.setCursorPositionFlushSeconds(conf.getManagedLedgerCursorPositionFlushSeconds());
        config.setStatsPeriodSeconds(conf.getManagedLedgerStatsPeriodSeconds());
        config.setClusterName(conf.getClusterName());
        return config;
    }

    @Override
    public Collection<ManagedLedgerStorageClass> getStorageClasses() {
        Running now = running.get();
        return now == null ? List.of() : List.of(now.storageClass());
    }

    /** A null name is what the broker asks for where no policy names a class: it means the default. */
    @Override
    public Optional<ManagedLedgerStorageClass> getManagedLedgerStorageClass(String name) {
        Running now = running.get();
        return now != null && (name == null || name.equals(NereusStorageClass.NAME))
            ? Optional.of(now.storageClass()) : Optional.empty();
    }

    @Override
    public void close() throws IOException {
        Running ended = running.getAndSet(null);
        if (ended == null) {
            return;
        }
        hideMetrics(ended.engine());
        ended.telemetry().close();
        ended.ledgerTelemetry().close();
        try {
            ended.factory().shutdown();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while the ledgers closed", e);
        } catch (ManagedLedgerException e) {
            throw new IOException("could not close the ledgers", e);
        } finally {
            release(ended.engine());
        }
    }

    private static void release(NativeEngine engine) throws IOException {
        try {
            engine.release().get(CLOSE_SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while the engine closed", e);
        } catch (Exception e) {
            throw new IOException("could not close the engine", e);
        }
    }
}
