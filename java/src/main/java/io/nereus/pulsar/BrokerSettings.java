package io.nereus.pulsar;

import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What a broker without bookies needs of Pulsar's own settings.
 *
 * <p>Promises: a setting that asks for a feature which is not built stops the start by name, before anything is changed
 * (L14); a setting is replaced only where it still holds stock's default, so an operator's own value wins; every
 * replacement is logged with old and new value. Works because the broker reads these settings after its storage was
 * initialized.
 */
final class BrokerSettings {

    private static final Logger log = LoggerFactory.getLogger(BrokerSettings.class);

    private static final String STOCK_COMPACTION = "org.apache.pulsar.compaction.PulsarCompactionServiceFactory";
    private static final String STOCK_SCHEMAS = "org.apache.pulsar.broker.service.schema.BookkeeperSchemaStorageFactory";
    private static final String STOCK_TABLE_VIEW =
        "org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateTableViewImpl";
    private static final String BUCKET_TRACKER = "org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory";

    private static final String COMPACTION = "io.nereus.pulsar.plugin.NereusCompactionServiceFactory";
    private static final String SCHEMAS = "io.nereus.pulsar.plugin.NereusSchemaStorageFactory";
    private static final String TABLE_VIEW =
        "org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateMetadataStoreTableViewImpl";

    private BrokerSettings() {
    }

    /** @throws IllegalArgumentException if the broker is configured for something that is not built */
    static void refuseWhatIsNotBuilt(ServiceConfiguration broker) {
        if (broker.isTransactionCoordinatorEnabled()) {
            throw notBuilt("transactionCoordinatorEnabled", "true", "transactions", "false");
        }
        if (BUCKET_TRACKER.equals(broker.getDelayedDeliveryTrackerFactoryClassName())) {
            throw notBuilt("delayedDeliveryTrackerFactoryClassName", BUCKET_TRACKER, "bucket delayed delivery",
                "org.apache.pulsar.broker.delayed.InMemoryDelayedDeliveryTrackerFactory");
        }
        String offloader = broker.getManagedLedgerOffloadDriver();
        if (offloader != null && !offloader.isBlank()) {
            throw notBuilt("managedLedgerOffloadDriver", offloader, "Pulsar's tiered-storage offloaders", "empty");
        }
    }

    private static IllegalArgumentException notBuilt(String key, String value, String feature, String allowed) {
        return new IllegalArgumentException(key + "=" + value + " asks for " + feature
            + ", which this version of Nereus does not support: allowed is " + allowed);
    }

    /** Replaces what would need a bookie, where it still is as stock ships it. */
    static void replaceStockDefaults(ServiceConfiguration broker) {
        replace("compactionServiceFactoryClassName", STOCK_COMPACTION, COMPACTION,
            broker::getCompactionServiceFactoryClassName, broker::setCompactionServiceFactoryClassName);
        replace("schemaRegistryStorageClassName", STOCK_SCHEMAS, SCHEMAS,
            broker::getSchemaRegistryStorageClassName, broker::setSchemaRegistryStorageClassName);
        replace("loadManagerServiceUnitStateTableViewClassName", STOCK_TABLE_VIEW, TABLE_VIEW,
            broker::getLoadManagerServiceUnitStateTableViewClassName,
            broker::setLoadManagerServiceUnitStateTableViewClassName);
        // the imprecise check goes by the age of closed ledgers, and a quiet topic's only span never closes
        replace("preciseTimeBasedBacklogQuotaCheck", false, true,
            broker::isPreciseTimeBasedBacklogQuotaCheck, broker::setPreciseTimeBasedBacklogQuotaCheck);
    }

    private static <T> void replace(String key, T stock, T ours, Supplier<T> get, Consumer<T> set) {
        T value = get.get();
        if (Objects.equals(value, stock)) {
            set.accept(ours);
            log.info("{}: {} -> {} (this broker has no bookies)", key, value, ours);
        } else if (!Objects.equals(value, ours)) {
            log.info("{}: {} is kept, it is not stock's default", key, value);
        }
    }
}
