package io.nereus.pulsar.contract;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/**
 * A broker's factory over one storage, its data, its metadata store and its clock. Used by one thread; what it hands out
 * may be used by any.
 */
public final class World implements AutoCloseable {

    /** Statistics of the worlds are refreshed this often. */
    public static final int STATS_PERIOD_SECONDS = 1;
    private static final int TIMEOUT_SECONDS = 10;

    private final Storage storage;
    private final Backend backend;
    private final MetadataStoreExtended metadata;
    private final boolean ownMetadata;
    private final FaultyStore store;
    private final ManualClock clock = new ManualClock();
    private final List<Backend.Broker> others = new ArrayList<>();
    private AtomicBoolean killed = new AtomicBoolean();
    private Backend.Broker broker;

    private World(Storage storage, MetadataStoreExtended metadata, boolean own) throws Exception {
        this.storage = storage;
        this.metadata = metadata;
        this.ownMetadata = own;
        this.store = new FaultyStore(metadata);
        this.backend = storage == Storage.STOCK ? new StockBackend() : new NereusBackend();
        start();
    }

    /** An empty world of {@code storage}; the caller closes it. */
    public static World of(Storage storage) throws Exception {
        return new World(storage,
            MetadataStoreExtended.create("memory:" + UUID.randomUUID(), MetadataStoreConfig.builder().build()), true);
    }

    /** A world with data of its own over the metadata store of {@code other}, as a broker of another storage class. */
    static World over(Storage storage, World other) throws Exception {
        return new World(storage, other.metadata, false);
    }

    private void start() throws Exception {
        broker = backend.start(store.view(killed));
    }

    /** Which storage this is. */
    public Storage storage() {
        return storage;
    }

    /** The factory; another one after {@link #restart()} and {@link #crash()}. */
    public ManagedLedgerFactory factory() {
        return broker.factory();
    }

    /** Opens (and creates) a ledger with {@link #config()}. */
    public ManagedLedger open(String name) throws Exception {
        return open(name, config());
    }

    /** Opens a ledger. */
    public ManagedLedger open(String name, ManagedLedgerConfig config) throws Exception {
        return factory().open(name, config);
    }

    /** A fresh configuration: one bookie, no throttling, time-outs of ten seconds, {@link #clock()}. */
    public ManagedLedgerConfig config() {
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        config.setEnsembleSize(1).setWriteQuorumSize(1).setAckQuorumSize(1);
        config.setMetadataEnsembleSize(1).setMetadataWriteQuorumSize(1).setMetadataAckQuorumSize(1);
        config.setMetadataOperationsTimeoutSeconds(TIMEOUT_SECONDS);
        config.setReadEntryTimeoutSeconds(TIMEOUT_SECONDS);
        config.setAddEntryTimeoutSeconds(TIMEOUT_SECONDS);
        config.setThrottleMarkDelete(0);
        config.setClock(clock);
        return config;
    }

    /** A name of its own, in Pulsar's form. */
    public String freshName() {
        return "public/default/persistent/t-" + UUID.randomUUID();
    }

    /** The node under which Pulsar lists the topic {@code name}. */
    public static String registryNode(String name) {
        return "/managed-ledgers/" + name;
    }

    /** The metadata store as the brokers of this world see it. */
    public FaultyStore store() {
        return store;
    }

    /** The clock of {@link #config()}. */
    public ManualClock clock() {
        return clock;
    }

    /** Another broker over the same data and metadata, as the next owner; it lives until the world ends or restarts. */
    public ManagedLedgerFactory secondBroker() throws Exception {
        Backend.Broker other = backend.start(store.view(killed));
        others.add(other);
        return other.factory();
    }

    /** Closes every broker cleanly and starts one over the same data and metadata. */
    public void restart() throws Exception {
        stop();
        start();
    }

    /** Kills every broker and starts one over what the killed processes leave. Armed faults are forgotten. */
    public void crash() throws Exception {
        killed.set(true);
        store.reset();
        backend.kill();
        killed = new AtomicBoolean();
        others.clear();
        start();
    }

    private void stop() throws Exception {
        for (Backend.Broker other : others) {
            other.stop();
        }
        others.clear();
        broker.stop();
    }

    /** Closes everything; a failure to close is a failure of the test. */
    @Override
    public void close() {
        store.reset();
        try {
            try {
                stop();
            } finally {
                backend.close();
                if (ownMetadata) {
                    metadata.close();
                }
            }
        } catch (Exception e) {
            throw new IllegalStateException("the world of " + storage + " did not close", e);
        }
    }
}
