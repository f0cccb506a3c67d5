package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.pulsar.broker.ServiceConfiguration;
import org.testng.annotations.Test;

public class BrokerSettingsTest {

    private final ServiceConfiguration broker = new ServiceConfiguration();

    @Test
    public void stocksDefaultsAreReplaced() {
        ServiceConfiguration stock = new ServiceConfiguration();
        BrokerSettings.replaceStockDefaults(stock);
        assertThat(stock.getCompactionServiceFactoryClassName())
            .isEqualTo("io.nereus.pulsar.plugin.NereusCompactionServiceFactory");
        assertThat(stock.getSchemaRegistryStorageClassName())
            .isEqualTo("io.nereus.pulsar.plugin.NereusSchemaStorageFactory");
        assertThat(stock.getLoadManagerServiceUnitStateTableViewClassName())
            .endsWith("ServiceUnitStateMetadataStoreTableViewImpl");
        assertThat(stock.isPreciseTimeBasedBacklogQuotaCheck()).isTrue();
    }

    @Test
    public void theReplacementsExist() throws Exception {
        ServiceConfiguration stock = new ServiceConfiguration();
        BrokerSettings.replaceStockDefaults(stock);
        for (String name : new String[] {stock.getCompactionServiceFactoryClassName(),
            stock.getSchemaRegistryStorageClassName(), stock.getLoadManagerServiceUnitStateTableViewClassName()}) {
            assertThat(Class.forName(name).getConstructor()).as(name).isNotNull();
        }
    }

    @Test
    public void anOperatorsOwnValueWins() {
        broker.setCompactionServiceFactoryClassName("my.Compaction");
        broker.setSchemaRegistryStorageClassName("my.Schemas");
        broker.setLoadManagerServiceUnitStateTableViewClassName("my.View");
        BrokerSettings.replaceStockDefaults(broker);
        assertThat(broker.getCompactionServiceFactoryClassName()).isEqualTo("my.Compaction");
        assertThat(broker.getSchemaRegistryStorageClassName()).isEqualTo("my.Schemas");
        assertThat(broker.getLoadManagerServiceUnitStateTableViewClassName()).isEqualTo("my.View");
    }

    @Test
    public void l14_transactionsAreRefusedByName() {
        ServiceConfiguration asked = new ServiceConfiguration();
        asked.setTransactionCoordinatorEnabled(true);
        assertRefused(asked, "transactionCoordinatorEnabled=true");
    }

    @Test
    public void l14_bucketDelayedDeliveryIsRefusedByName() {
        ServiceConfiguration asked = new ServiceConfiguration();
        asked.setDelayedDeliveryTrackerFactoryClassName(
            "org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory");
        assertRefused(asked, "delayedDeliveryTrackerFactoryClassName=");
    }

    @Test
    public void l14_offloadersAreRefusedByName() {
        ServiceConfiguration asked = new ServiceConfiguration();
        asked.setManagedLedgerOffloadDriver("aws-s3");
        assertRefused(asked, "managedLedgerOffloadDriver=aws-s3");
    }

    @Test
    public void aStockConfigurationIsAccepted() {
        BrokerSettings.refuseWhatIsNotBuilt(new ServiceConfiguration());
    }

    private static void assertRefused(ServiceConfiguration asked, String what) {
        assertThatThrownBy(() -> BrokerSettings.refuseWhatIsNotBuilt(asked))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining(what).hasMessageContaining("does not support");
    }
}
