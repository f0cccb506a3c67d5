package io.nereus.pulsar.plugin;

import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.service.schema.SchemaStorageFactory;
import org.apache.pulsar.common.protocol.schema.SchemaStorage;

/** Named by {@code schemaRegistryStorageClassName}: schemas in the cluster's metadata store, no bookies. */
public final class NereusSchemaStorageFactory implements SchemaStorageFactory {
    @Override
    public SchemaStorage create(PulsarService pulsar) {
        return new NereusSchemaStorage(pulsar.getLocalMetadataStore());
    }
}
