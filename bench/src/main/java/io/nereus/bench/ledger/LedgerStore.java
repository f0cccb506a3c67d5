package io.nereus.bench.ledger;

import io.nereus.bench.Side;
import io.netty.channel.EventLoopGroup;
import io.netty.util.concurrent.DefaultThreadFactory;
import io.opentelemetry.api.OpenTelemetry;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.pulsar.broker.BookKeeperClientFactory;
import org.apache.pulsar.broker.BookKeeperClientFactoryImpl;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.storage.ManagedLedgerStorage;
import org.apache.pulsar.common.util.netty.EventLoopUtil;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/** One side's factory, loaded and configured as a broker loads it: the same settings for both, only the class differs. */
final class LedgerStore implements AutoCloseable {

    private static final int SESSION_MILLIS = 600_000;
    private static final int QUORUM = 1;

    private final ServiceConfiguration conf;
    private final MetadataStoreExtended metadata;
    private final EventLoopGroup eventLoops;
    private final BookKeeperClientFactory bookKeeper;
    private final ManagedLedgerStorage storage;

    /**
     * Opens it.
     *
     * @param metadataUrl the side's own root in the metadata store
     * @param directory   Nereus's data directory; stock's data are the bookie's
     */
    LedgerStore(Side side, String metadataUrl, String directory) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("nereusDataDirectory", directory);
        conf = new ServiceConfiguration();
        conf.setProperties(properties);
        conf.setClusterName(side.id());
        conf.setMetadataStoreUrl(metadataUrl);
        conf.setManagedLedgerStorageClassName(side.storageClass());
        conf.setManagedLedgerDefaultEnsembleSize(QUORUM);
        conf.setManagedLedgerDefaultWriteQuorum(QUORUM);
        conf.setManagedLedgerDefaultAckQuorum(QUORUM);
        conf.setMetadataStoreSessionTimeoutMillis(SESSION_MILLIS);
        metadata = MetadataStoreExtended.create(metadataUrl,
            MetadataStoreConfig.builder().sessionTimeoutMillis(SESSION_MILLIS).build());
        eventLoops = EventLoopUtil.newEventLoopGroup(conf.getNumIOThreads(), false,
            new DefaultThreadFactory("bench-io-" + side.id()));
        bookKeeper = new BookKeeperClientFactoryImpl();
        storage = ManagedLedgerStorage.create(conf, metadata, bookKeeper, eventLoops, OpenTelemetry.noop());
    }

    ManagedLedgerFactory factory() {
        return storage.getDefaultStorageClass().getManagedLedgerFactory();
    }

    /** As a broker makes it for a topic without policies, but stock may persist as many ack holes as Nereus does. */
    ManagedLedgerConfig ledgerConfig() {
        ManagedLedgerConfig config = new ManagedLedgerConfig()
            .setEnsembleSize(QUORUM).setWriteQuorumSize(QUORUM).setAckQuorumSize(QUORUM)
            .setMetadataEnsembleSize(QUORUM).setMetadataWriteQuorumSize(QUORUM).setMetadataAckQuorumSize(QUORUM)
            .setDigestType(DigestType.CRC32C)
            .setThrottleMarkDelete(conf.getManagedLedgerDefaultMarkDeleteRateLimit())
            .setMaxUnackedRangesToPersist(1_000_000)
            .setMaxUnackedRangesToPersistInMetadataStore(conf.getManagedLedgerMaxUnackedRangesToPersistInMetadataStore())
            .setMaxEntriesPerLedger(conf.getManagedLedgerMaxEntriesPerLedger())
            .setMaxSizePerLedgerMb(conf.getManagedLedgerMaxSizePerLedgerMbytes())
            .setMetadataMaxEntriesPerLedger(conf.getManagedLedgerCursorMaxEntriesPerLedger())
            .setLedgerRolloverTimeout(conf.getManagedLedgerCursorRolloverTimeInSeconds())
            .setUnackedRangesOpenCacheSetEnabled(conf.isManagedLedgerUnackedRangesOpenCacheSetEnabled());
        config.setMinimumRolloverTime(conf.getManagedLedgerMinLedgerRolloverTimeMinutes(), TimeUnit.MINUTES);
        config.setMaximumRolloverTime(conf.getManagedLedgerMaxLedgerRolloverTimeMinutes(), TimeUnit.MINUTES);
        config.setDeletionAtBatchIndexLevelEnabled(true);
        return config;
    }

    @Override
    public void close() {
        try {
            storage.close();
            bookKeeper.close();
            metadata.close();
        } catch (Exception e) {
            throw new IllegalStateException("the store did not close", e);
        }
        eventLoops.shutdownGracefully(0, 1, TimeUnit.SECONDS).awaitUninterruptibly();
    }
}
