package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.opentelemetry.api.OpenTelemetry;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.common.util.OrderedScheduler;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.pulsar.broker.BookKeeperClientFactory;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.storage.ManagedLedgerStorage;
import org.apache.pulsar.broker.storage.ManagedLedgerStorageClass;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** ManagedLedgerStorage: how a broker loads a storage, and how it chooses a class for a topic. */
public class StorageClassTest {

    private final List<ManagedLedgerStorage> open = new ArrayList<>();
    private MetadataStoreExtended metadata;
    private OrderedScheduler threads;
    private FencingBookKeeper bookKeeper;
    private Path directory;

    /** An empty cluster. */
    @BeforeMethod
    public void freshCluster() throws Exception {
        metadata = MetadataStoreExtended.create("memory:" + UUID.randomUUID(), MetadataStoreConfig.builder().build());
        threads = OrderedScheduler.newSchedulerBuilder().numThreads(1).name("stock").build();
        bookKeeper = new FencingBookKeeper(threads);
        directory = Files.createTempDirectory("nereus-contract");
    }

    /** Closes what a test opened. */
    @AfterMethod(alwaysRun = true)
    public void close() throws Exception {
        for (ManagedLedgerStorage storage : open) {
            storage.close();
        }
        open.clear();
        bookKeeper.shutdown();
        threads.shutdownNow();
        metadata.close();
    }

    private ServiceConfiguration conf(Storage storage) {
        ServiceConfiguration conf = new ServiceConfiguration();
        conf.setClusterName("contract");
        conf.setManagedLedgerNumSchedulerThreads(1);
        conf.setManagedLedgerCacheSizeMB(16);
        conf.setMaxMessagePublishBufferSizeInMB(64);
        Properties properties = new Properties();
        if (storage == Storage.NEREUS) {
            conf.setManagedLedgerStorageClassName("io.nereus.pulsar.NereusManagedLedgerStorage");
            properties.setProperty("nereusDataDirectory", directory.toString());
            properties.setProperty("nereusMemoryLimitMB", "256");
            properties.setProperty("nereusJournalSegmentMB", "32");
        }
        conf.setProperties(properties);
        return conf;
    }

    /** As the broker does it, with the storage class that is the default of broker.conf for stock. */
    private ManagedLedgerStorage load(ServiceConfiguration conf) throws Exception {
        BookKeeperClientFactory clients = (BookKeeperClientFactory) Proxy.newProxyInstance(getClass().getClassLoader(),
            new Class<?>[] {BookKeeperClientFactory.class}, (proxy, method, arguments) ->
                method.getName().equals("create") ? CompletableFuture.completedFuture(bookKeeper) : null);
        ManagedLedgerStorage storage = ManagedLedgerStorage.create(conf, metadata, clients, null, OpenTelemetry.noop());
        open.add(storage);
        return storage;
    }

    /** Closes a storage class; stock's answers before its ledgers are closed. */
    private static void close(ManagedLedgerStorage loaded, Storage storage, ManagedLedger ledger) throws Exception {
        if (storage == Storage.STOCK) {
            ledger.close();
        }
        loaded.close();
    }

    private static String className(Storage storage) {
        return storage == Storage.STOCK ? "bookkeeper" : "nereus";
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theDefaultIsTheFirstClassAndHasAConstantName(Storage storage) throws Exception {
        ManagedLedgerStorage loaded = load(conf(storage));
        ManagedLedgerStorageClass first = loaded.getStorageClasses().iterator().next();
        assertThat(loaded.getDefaultStorageClass()).isSameAs(first);
        assertThat(first.getName()).isEqualTo(className(storage));
        // policies compare names by identity
        assertThat(first.getName()).isSameAs(loaded.getDefaultStorageClass().getName());
        assertThat(first.getManagedLedgerFactory()).isNotNull()
            .isSameAs(loaded.getDefaultStorageClass().getManagedLedgerFactory());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void noNameMeansTheDefault(Storage storage) throws Exception {
        ManagedLedgerStorage loaded = load(conf(storage));
        assertThat(loaded.getManagedLedgerStorageClass(null)).containsSame(loaded.getDefaultStorageClass());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aKnownNameIsFoundAndAnUnknownOneIsAbsent(Storage storage) throws Exception {
        ManagedLedgerStorage loaded = load(conf(storage));
        assertThat(loaded.getManagedLedgerStorageClass(className(storage)))
            .containsSame(loaded.getDefaultStorageClass());
        for (String unknown : List.of("", "no such class", className(storage).toUpperCase())) {
            assertThat(loaded.getManagedLedgerStorageClass(unknown)).as("class %s", unknown).isEmpty();
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theFactoryAnswersWhatTheBrokerAsksOfTheDefaultOne(Storage storage) throws Exception {
        ManagedLedgerFactory factory = load(conf(storage)).getDefaultStorageClass().getManagedLedgerFactory();
        assertThat(factory.getCacheStats()).isNotNull();
        assertThat(factory.getManagedLedgers()).isEmpty();
        assertThat(factory.getConfig().getStatsPeriodSeconds()).isEqualTo(60);
        assertThat(factory.getEntryCacheManager().getMaxSize()).isEqualTo(16L << 20);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anotherClassInThePolicyOfALiveTopicMovesNothing(Storage storage) throws Exception {
        ManagedLedgerFactory factory = load(conf(storage)).getDefaultStorageClass().getManagedLedgerFactory();
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        config.setEnsembleSize(1).setWriteQuorumSize(1).setAckQuorumSize(1);
        ManagedLedger ledger = factory.open("public/default/persistent/t", config);
        add(ledger, "a");
        ManagedLedgerConfig changed = new ManagedLedgerConfig();
        changed.setEnsembleSize(1).setWriteQuorumSize(1).setAckQuorumSize(1);
        changed.setStorageClassName("another");
        ledger.setConfig(changed);
        add(ledger, "b");
        assertThat(ledger.getConfig().getStorageClassName()).isEqualTo("another");
        assertThat(factory.open("public/default/persistent/t", changed)).isSameAs(ledger);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(2);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void closingClosesTheLedgersOnceAndForAll(Storage storage) throws Exception {
        ManagedLedgerStorage loaded = load(conf(storage));
        ManagedLedgerFactory factory = loaded.getDefaultStorageClass().getManagedLedgerFactory();
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        config.setEnsembleSize(1).setWriteQuorumSize(1).setAckQuorumSize(1);
        ManagedLedger ledger = factory.open("public/default/persistent/t", config);
        add(ledger, "a");
        close(loaded, storage, ledger);
        open.clear();
        assertThat(factory.getManagedLedgers()).isEmpty();
        assertThatThrownBy(() -> add(ledger, "late")).hasStackTraceContaining("losed");
        if (storage == Storage.NEREUS) { // stock's second close says that the factory is closed
            loaded.close();
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aStorageThatCannotStartEndsTheStartOfTheBroker(Storage storage) throws Exception {
        ServiceConfiguration conf = conf(storage);
        if (storage == Storage.STOCK) {
            conf.setManagedLedgerStorageClassName("no.such.StorageClass");
            assertThatThrownBy(() -> load(conf)).hasStackTraceContaining("no.such.StorageClass");
            return;
        }
        conf.getProperties().setProperty("nereusMemoryLimitMB", "a lot");
        assertThatThrownBy(() -> load(conf)).hasStackTraceContaining("nereusMemoryLimitMB")
            .hasStackTraceContaining("a lot");
        assertThat(directory.toFile().list()).as("nothing was opened").isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aRestartedBrokerFindsItsTopics(Storage storage) throws Exception {
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        config.setEnsembleSize(1).setWriteQuorumSize(1).setAckQuorumSize(1);
        ManagedLedgerStorage first = load(conf(storage));
        ManagedLedger ledger =
            first.getDefaultStorageClass().getManagedLedgerFactory().open("public/default/persistent/t", config);
        var written = add(ledger, "a");
        close(first, storage, ledger);
        open.clear();
        ManagedLedgerFactory again = load(conf(storage)).getDefaultStorageClass().getManagedLedgerFactory();
        assertThat(again.open("public/default/persistent/t", config).getLastConfirmedEntry()).isEqualTo(written);
        assertThat(await(again.asyncExists("public/default/persistent/t"))).isTrue();
    }
}
