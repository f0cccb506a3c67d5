package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.mockito.Mockito.spy;

import io.opentelemetry.api.OpenTelemetry;
import io.prometheus.client.CollectorRegistry;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.storage.ManagedLedgerStorage;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

@SuppressWarnings("try") // close() of a storage may be interrupted, which is the test's failure
public class NereusManagedLedgerStorageIT {

    private Path directory;
    private MetadataStoreExtended store;

    @BeforeMethod
    public void fresh() throws Exception {
        directory = Files.createTempDirectory("nereus-storage-test");
        store = MetadataStoreExtended.create("memory:" + UUID.randomUUID(), MetadataStoreConfig.builder().build());
    }

    @AfterMethod(alwaysRun = true)
    public void closeStore() throws Exception {
        store.close();
    }

    private ServiceConfiguration broker() {
        Properties properties = new Properties();
        properties.setProperty(NereusConfiguration.DATA_DIRECTORY, directory.toString());
        properties.setProperty(NereusConfiguration.SEGMENT, "16");
        ServiceConfiguration broker = new ServiceConfiguration();
        broker.setProperties(properties);
        broker.setClusterName("test");
        broker.setMaxMessagePublishBufferSizeInMB(64);
        broker.setManagedLedgerStorageClassName(NereusManagedLedgerStorage.class.getName());
        return broker;
    }

    private ManagedLedgerStorage open(ServiceConfiguration broker) throws Exception {
        return ManagedLedgerStorage.create(broker, store, null, null, OpenTelemetry.noop());
    }

    private static ManagedLedgerFactory factory(ManagedLedgerStorage storage) {
        return storage.getDefaultStorageClass().getManagedLedgerFactory();
    }

    @Test
    public void theDefaultClassIsNereusAndUnknownNamesAreAbsent() throws Exception {
        try (ManagedLedgerStorage storage = open(broker())) {
            assertThat(storage.getStorageClasses()).hasSize(1);
            assertThat(storage.getDefaultStorageClass().getName()).isEqualTo("nereus");
            assertThat(storage.getManagedLedgerStorageClass(null)).containsSame(storage.getDefaultStorageClass());
            assertThat(storage.getManagedLedgerStorageClass("nereus")).isPresent();
            assertThat(storage.getManagedLedgerStorageClass("bookkeeper")).isEmpty();
        }
    }

    @Test
    public void whatTheBrokerAsksOfTheFactoryIsThere() throws Exception {
        try (ManagedLedgerStorage storage = open(broker())) {
            ManagedLedgerFactory factory = factory(storage);
            assertThat(factory.getCacheStats()).isNotNull();
            assertThat(factory.getManagedLedgers()).isEmpty();
            assertThat(factory.getConfig().getStatsPeriodSeconds()).isEqualTo(60);
            factory.getEntryCacheManager().updateCacheSizeAndThreshold(7);
            assertThat(factory.getEntryCacheManager().getMaxSize()).isEqualTo(7);
            factory.updateCacheEvictionTimeThreshold(9);
            assertThat(factory.getCacheEvictionTimeThreshold()).isEqualTo(9);
        }
    }

    @Test
    public void aCopiedStorageIsClosedWithItsOriginal() throws Exception {
        ManagedLedgerStorage storage = open(broker());
        ManagedLedgerStorage copy = spy(storage);
        ManagedLedger ledger = factory(copy).open(LedgerFixture.freshName());
        copy.close();
        assertThat(((NereusManagedLedger) ledger).isClosed()).isTrue();
        assertThat(storage.getStorageClasses()).isEmpty();
        storage.close();
    }

    @Test
    public void aNewStorageOverTheSameDirectoryFindsEverything() throws Exception {
        String name = LedgerFixture.freshName();
        Position written;
        try (ManagedLedgerStorage storage = open(broker())) {
            written = factory(storage).open(name).addEntry("a".getBytes());
        }
        try (ManagedLedgerStorage storage = open(broker())) {
            assertThat(factory(storage).open(name).getLastConfirmedEntry()).isEqualTo(written);
        }
    }

    @Test
    public void l14_aRefusedConfigurationChangesNothing() throws Exception {
        ServiceConfiguration broker = broker();
        broker.setTransactionCoordinatorEnabled(true);
        String compaction = broker.getCompactionServiceFactoryClassName();
        assertThatThrownBy(() -> open(broker)).hasStackTraceContaining("transactionCoordinatorEnabled=true");
        assertThat(broker.getCompactionServiceFactoryClassName()).isEqualTo(compaction);
        assertThat(directory).isEmptyDirectory();
    }

    @Test
    public void l17_aDirectoryThatCannotBeWrittenIsNamed() throws Exception {
        Path file = Files.createFile(directory.resolve("file"));
        ServiceConfiguration broker = broker();
        broker.getProperties().setProperty(NereusConfiguration.DATA_DIRECTORY, file.resolve("below").toString());
        assertThatThrownBy(() -> open(broker)).hasStackTraceContaining(file.toString());
    }

    @Test
    public void theEngineIsOnTheMetricsPageWhileItIsOpenAndNamesWhatKeepsItsOldestSegment() throws Exception {
        assertThat(metrics()).noneMatch(line -> line.startsWith("nereus_"));
        for (int run = 0; run < 3; run++) { // the checkpoint of one run is past the segment of the run before
            try (ManagedLedgerStorage storage = open(broker())) {
                if (run == 0) {
                    ManagedLedger ledger = factory(storage).open("public/default/persistent/quiet+topic");
                    ledger.addEntry(new byte[100]);
                    ledger.close();
                }
                assertThat(metrics()).contains("nereus_journal_poisoned [] [] 0.0")
                    .anyMatch(line -> line.matches("nereus_memory_bytes \\[account\\] \\[.+\\] .+"));
                if (run == 2) {
                    assertThat(metrics()).contains("nereus_journal_oldest_segment_pinned [by, topic] "
                        + "[ledger, persistent://public/default/quiet topic] 1.0");
                }
            }
        }
        assertThat(metrics()).noneMatch(line -> line.startsWith("nereus_"));
    }

    @Test
    public void enginesOfOneJvmAreToldApart() throws Exception {
        ServiceConfiguration other = broker();
        Path second = Files.createTempDirectory("nereus-storage-test");
        other.getProperties().setProperty(NereusConfiguration.DATA_DIRECTORY, second.toString());
        other.setClusterName("other");
        try (MetadataStoreExtended store2 = MetadataStoreExtended.create("memory:" + UUID.randomUUID(),
                 MetadataStoreConfig.builder().build());
             ManagedLedgerStorage one = open(broker());
             ManagedLedgerStorage two = ManagedLedgerStorage.create(other, store2, null, null, OpenTelemetry.noop())) {
            assertThat(one).isNotSameAs(two);
            for (Path path : List.of(directory, second)) {
                assertThat(metrics()).contains("nereus_journal_poisoned [directory] [" + path + "] 0.0");
            }
        }
    }

    private static List<String> metrics() {
        return Collections.list(CollectorRegistry.defaultRegistry.metricFamilySamples()).stream()
            .flatMap(family -> family.samples.stream())
            .map(sample -> sample.name + " " + sample.labelNames + " " + sample.labelValues + " " + sample.value)
            .toList();
    }
}
