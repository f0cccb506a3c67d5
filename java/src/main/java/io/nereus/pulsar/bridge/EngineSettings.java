package io.nereus.pulsar.bridge;

import java.util.Map;
import java.util.Objects;

/**
 * Settings of one engine, as text. The facade has checked names and types; the native side checks the rest.
 *
 * <p>Keys: {@code dataDirectory}, {@code clusterName}, {@code brokerId}, {@code memoryLimitBytes},
 * {@code publishBufferBytes}, {@code segmentBytes}, {@code acceptOlderCopy}, {@code maxEntryBytes}. The key
 * {@code nativeDirectory} (optional) is used by the library loader alone and does not travel to the native side.
 *
 * @param values key to value; copied, neither keys nor values may be null
 */
public record EngineSettings(Map<String, String> values) {

    /** Key of the data directory; the identity under which engines are shared in one JVM. */
    public static final String DATA_DIRECTORY = "dataDirectory";
    /** Key of the cluster name. */
    public static final String CLUSTER_NAME = "clusterName";
    /** Key of the text that names this broker in the lock file and in errors; may differ between sharers. */
    public static final String BROKER_ID = "brokerId";
    /** Key of the directory into which the library is unpacked (optional). */
    public static final String NATIVE_DIRECTORY = "nativeDirectory";

    /** Copies {@code values}. */
    public EngineSettings {
        values = Map.copyOf(values);
    }

    String required(String key) {
        return Objects.requireNonNull(values.get(key), () -> "engine setting " + key + " is missing");
    }
}
