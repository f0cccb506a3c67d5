package io.nereus.pulsar;

import io.nereus.pulsar.bridge.LedgerDescription;
import io.nereus.pulsar.bridge.NativeStream;
import io.nereus.pulsar.bridge.StreamState;
import java.util.Map;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.pulsar.common.naming.TopicName;

/**
 * The topic whose entries a shadow topic shows.
 *
 * <p>Owns a handle for reading only: it takes nothing from the source's owner and keeps none of its data. Promises: the
 * bounds are those of the moment, without I/O. Does not: know what the shadow has been told of.
 */
final class ShadowSource {

    private final String name;
    private final NativeStream stream;
    private final LedgerDescription opened;

    /**
     * @param stream opened for reading only; closed by {@link #close()}
     * @param opened the source as it was then
     */
    ShadowSource(String name, NativeStream stream, LedgerDescription opened) {
        this.name = name;
        this.stream = stream;
        this.opened = opened;
    }

    /** The ledger name of the source that {@code config} names, or null if it names none. */
    static String nameIn(ManagedLedgerConfig config) {
        String topic = config.getShadowSource();
        if (topic == null) {
            return null;
        }
        return config.getShadowSourceName() != null ? config.getShadowSourceName() : ledgerName(topic);
    }

    /** The ledger name of the source of the ledger with these properties, or null if it is no shadow. */
    static String nameIn(Map<String, String> properties) {
        String topic = properties.get(ManagedLedgerConfig.PROPERTY_SOURCE_TOPIC_KEY);
        return topic == null ? null : ledgerName(topic);
    }

    private static String ledgerName(String topic) {
        return TopicName.get(topic).getPersistenceNamingEncoding();
    }

    /** The shadow as Pulsar sees it: the entries of {@code source}, with cursors and properties of its own. */
    static LedgerDescription seenThrough(LedgerDescription own, LedgerDescription source) {
        return new LedgerDescription(source.firstLedgerId(), source.spanBits(), own.incarnation(), own.ownerEpoch(),
            own.creationMillis(), source.state(), own.properties(), source.spans(), own.cursors());
    }

    String name() {
        return name;
    }

    NativeStream stream() {
        return stream;
    }

    LedgerDescription opened() {
        return opened;
    }

    /** Tells this life of the source from later ones of the same name. */
    String life() {
        return name + "@" + opened.firstLedgerId();
    }

    /** The source now; null when it was deleted. */
    StreamState state() {
        StreamState now = stream.state();
        return now.ownerEpoch() == 0 ? null : now; // every ledger that exists was claimed by its creator
    }

    void close() {
        stream.close();
    }
}
