package io.nereus.suite;

import io.netty.channel.EventLoopGroup;
import io.opentelemetry.api.OpenTelemetry;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.broker.BookKeeperClientFactory;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.storage.ManagedLedgerStorage;
import org.apache.pulsar.broker.storage.ManagedLedgerStorageClass;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/**
 * Nereus as Pulsar's tests need it: one data directory per cluster.
 *
 * <p>Promises that brokers which share a metadata store (a restarted one, a second one) share a data directory and that
 * clusters with different stores in one JVM do not, by naming the directory with an id kept in the store. The rest is
 * delegated to the storage class an operator would name. System properties: {@code nereus.suite.data} is the parent of all
 * data directories; {@code nereus.suite.conf.KEY} becomes the configuration line {@code KEY}.
 *
 * <p>Not final and with all its state behind one final field, because Pulsar's test bases copy it into a Mockito spy.
 */
public class SuiteStorage implements ManagedLedgerStorage {
    private static final String STORAGE = "io.nereus.pulsar.NereusManagedLedgerStorage";
    private static final String DIRECTORY_NODE = "/nereus-suite-directory";
    private static final String CONF_PREFIX = "nereus.suite.conf.";

    private final AtomicReference<ManagedLedgerStorage> delegate = new AtomicReference<>();

    @Override
    public void initialize(ServiceConfiguration conf, MetadataStoreExtended store, BookKeeperClientFactory bookKeeper,
            EventLoopGroup eventLoopGroup, OpenTelemetry openTelemetry) throws Exception {
        Properties lines = conf.getProperties();
        lines.setProperty("nereusDataDirectory", dataDirectory(store).toString());
        for (Map.Entry<Object, Object> property : System.getProperties().entrySet()) {
            String key = property.getKey().toString();
            if (key.startsWith(CONF_PREFIX)) {
                lines.setProperty(key.substring(CONF_PREFIX.length()), property.getValue().toString());
            }
        }
        ManagedLedgerStorage storage = Class.forName(STORAGE, true, getClass().getClassLoader())
            .asSubclass(ManagedLedgerStorage.class).getDeclaredConstructor().newInstance();
        storage.initialize(conf, store, bookKeeper, eventLoopGroup, openTelemetry);
        delegate.set(storage);
    }

    /** The directory of the cluster that owns {@code store}; the first caller names it. */
    private static Path dataDirectory(MetadataStoreExtended store) throws Exception {
        Path parent = Path.of(System.getProperty("nereus.suite.data"));
        String fresh = UUID.randomUUID().toString();
        try {
            store.put(DIRECTORY_NODE, fresh.getBytes(StandardCharsets.UTF_8), Optional.of(-1L)).get();
            return parent.resolve(fresh);
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof MetadataStoreException.BadVersionException)) {
                throw e;
            }
        }
        byte[] named = store.get(DIRECTORY_NODE).get().orElseThrow().getValue();
        return parent.resolve(new String(named, StandardCharsets.UTF_8));
    }

    @Override
    public Collection<ManagedLedgerStorageClass> getStorageClasses() {
        return delegate.get().getStorageClasses();
    }

    @Override
    public ManagedLedgerStorageClass getDefaultStorageClass() {
        return delegate.get().getDefaultStorageClass();
    }

    @Override
    public Optional<ManagedLedgerStorageClass> getManagedLedgerStorageClass(String name) {
        return delegate.get().getManagedLedgerStorageClass(name);
    }

    @Override
    public void close() throws IOException {
        ManagedLedgerStorage storage = delegate.getAndSet(null);
        if (storage != null) {
            storage.close();
        }
    }
}
