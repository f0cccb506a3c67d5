package io.nereus.pulsar;

import io.netty.util.internal.PlatformDependent;
import io.nereus.pulsar.binding.NereusStorageClass;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.pulsar.broker.ServiceConfiguration;

/**
 * The {@code nereus*} lines of broker.conf, read once at start.
 *
 * <p>Promises: a key that does not exist, a value that is not allowed and a feature that is not built yet all end in an
 * {@link IllegalArgumentException} that names key, value and what is allowed. Immutable.
 *
 * <p>The keys are not fields of {@link ServiceConfiguration}; they are taken from its raw properties. Pulsar's own tests
 * make configurations in code, which have no properties: for their sake a key that is missing there is looked up among
 * the JVM's system properties. An operator never needs that.
 *
 * @param dataDirectory    directory of journal and embedded metadata; a relative one counts from the broker's working
 *                         directory, {@code {clusterId}} in it is replaced by an id kept in the metadata store
 * @param memoryLimitBytes native caches and buffers together; 0 for the default
 * @param segmentBytes     size of one journal segment
 * @param acceptOlderCopy  whether a data directory that is older than the cluster's record of it may be used
 * @param nativeDirectory  where the library is unpacked; empty for the JVM's directory of temporary files
 * @param ackFlushMillis   longest time from one pass over the cursors with new acknowledgements to the next
 */
record NereusConfiguration(String dataDirectory, long memoryLimitBytes, long segmentBytes, boolean acceptOlderCopy,
                           String nativeDirectory, long ackFlushMillis) {

    static final String DATA_DIRECTORY = "nereusDataDirectory";
    static final String OBJECT_STORE = "nereusObjectStore";
    static final String DEFAULT_PROFILE = "nereusDefaultProfile";
    static final String DEFAULT_STORAGE_CLASS = "nereusDefaultStorageClass";
    static final String MEMORY_LIMIT = "nereusMemoryLimitMB";
    static final String SEGMENT = "nereusJournalSegmentMB";
    static final String ACCEPT_OLDER_COPY = "nereusAcceptOlderCopy";
    static final String NATIVE_DIRECTORY = "nereusNativeDirectory";
    static final String ACK_FLUSH = "nereusAckFlushMillis";

    private static final String PREFIX = "nereus";
    private static final List<String> KEYS = List.of(DATA_DIRECTORY, OBJECT_STORE, DEFAULT_PROFILE,
        DEFAULT_STORAGE_CLASS, MEMORY_LIMIT, SEGMENT, ACCEPT_OLDER_COPY, NATIVE_DIRECTORY, ACK_FLUSH);

    private static final String EMBEDDED_PROFILE = "LOCAL_WAL_ASYNC_OBJECT";
    private static final List<String> LATER_PROFILES = List.of("OBJECT_WAL_ASYNC_OBJECT", "OBJECT_WAL_SYNC_OBJECT",
        "BOOKKEEPER_WAL_ONLY", "BOOKKEEPER_WAL_ASYNC_OBJECT", "BOOKKEEPER_WAL_SYNC_OBJECT");
    private static final String BOOKKEEPER_CLASS = "bookkeeper";

    private static final long MEGABYTE = 1024 * 1024;
    private static final long MIN_MEMORY_MB = 64;
    private static final long MAX_MEMORY_MB = 1024 * 1024;
    /** So many entries may be on their way although the broker's publish limit is reached; the engine counts with as many. */
    private static final int ENTRIES_OVER_THE_LIMIT = 16;
    private static final long DEFAULT_SEGMENT_MB = 128;
    private static final long MIN_SEGMENT_MB = 16;
    private static final long MAX_SEGMENT_MB = 1024;
    private static final long DEFAULT_ACK_FLUSH_MILLIS = 50;
    private static final long MAX_ACK_FLUSH_MILLIS = 60_000;

    /** Reads and checks every key. */
    static NereusConfiguration of(ServiceConfiguration broker) {
        Properties properties = broker.getProperties() == null ? new Properties() : broker.getProperties();
        refuseUnknownKeys(properties);
        Source source = new Source(properties);
        refuseWhatIsNotBuilt(source);
        long memoryMb = source.number(MEMORY_LIMIT, 0, MIN_MEMORY_MB, MAX_MEMORY_MB);
        return new NereusConfiguration(source.text(DATA_DIRECTORY, "data/nereus"), memoryMb * MEGABYTE,
            source.number(SEGMENT, DEFAULT_SEGMENT_MB, MIN_SEGMENT_MB, MAX_SEGMENT_MB) * MEGABYTE,
            source.flag(ACCEPT_OLDER_COPY, false), source.text(NATIVE_DIRECTORY, ""),
            source.number(ACK_FLUSH, DEFAULT_ACK_FLUSH_MILLIS, 0, MAX_ACK_FLUSH_MILLIS));
    }

    /**
     * The memory limit, or its default: what the broker lets producers have in flight, the largest entries that may come on
     * top of that, and a quarter of the JVM's direct memory for caches. The engine refuses a limit that is too small and
     * names the least.
     *
     * @param publishBufferBytes what the broker lets producers have in flight
     * @param maxEntryBytes      the largest entry
     */
    long memoryLimitBytes(long publishBufferBytes, int maxEntryBytes) {
        if (memoryLimitBytes != 0) {
            return memoryLimitBytes;
        }
        long caches = Math.max(MIN_MEMORY_MB * MEGABYTE, PlatformDependent.maxDirectMemory() / 4);
        return publishBufferBytes + ENTRIES_OVER_THE_LIMIT * (long) maxEntryBytes + caches;
    }

    private static void refuseUnknownKeys(Properties properties) {
        for (String key : new TreeSet<>(properties.stringPropertyNames())) {
            if (key.startsWith(PREFIX) && !KEYS.contains(key)) {
                throw new IllegalArgumentException("unknown key " + key + "=" + properties.getProperty(key)
                    + ": allowed keys that begin with " + PREFIX + " are " + String.join(", ", KEYS));
            }
        }
    }

    private static void refuseWhatIsNotBuilt(Source source) {
        String objectStore = source.text(OBJECT_STORE, "");
        if (!objectStore.isEmpty()) {
            throw notBuilt(OBJECT_STORE, objectStore, "an object store", "empty");
        }
        String profile = source.text(DEFAULT_PROFILE, EMBEDDED_PROFILE);
        if (LATER_PROFILES.contains(profile)) {
            throw notBuilt(DEFAULT_PROFILE, profile, "this profile", EMBEDDED_PROFILE);
        }
        if (!profile.equals(EMBEDDED_PROFILE)) {
            throw badValue(DEFAULT_PROFILE, profile, EMBEDDED_PROFILE);
        }
        String storageClass = source.text(DEFAULT_STORAGE_CLASS, NereusStorageClass.NAME);
        if (storageClass.equals(BOOKKEEPER_CLASS)) {
            throw notBuilt(DEFAULT_STORAGE_CLASS, storageClass, "sharing a broker with BookKeeper",
                NereusStorageClass.NAME);
        }
        if (!storageClass.equals(NereusStorageClass.NAME)) {
            throw badValue(DEFAULT_STORAGE_CLASS, storageClass, NereusStorageClass.NAME);
        }
    }

    private static IllegalArgumentException badValue(String key, String value, String allowed) {
        return new IllegalArgumentException("bad value " + key + "=" + value + ": allowed is " + allowed);
    }

    private static IllegalArgumentException notBuilt(String key, String value, String feature, String allowed) {
        return new IllegalArgumentException(key + "=" + value + " asks for " + feature
            + ", which this version of Nereus does not support: allowed is " + allowed);
    }

    /** Where values come from, and how text becomes a value. */
    private record Source(Properties properties) {

        private String text(String key, String fallback) {
            String value = properties.getProperty(key, System.getProperty(key));
            return value == null || value.isBlank() ? fallback : value.trim();
        }

        private long number(String key, long fallback, long least, long most) {
            String value = text(key, "");
            if (value.isEmpty()) {
                return fallback;
            }
            try {
                long number = Long.parseLong(value);
                if (number >= least && number <= most) {
                    return number;
                }
            } catch (NumberFormatException e) {
                // reported below like a number out of range
            }
            throw badValue(key, value, "a whole number from " + least + " to " + most + ", or empty");
        }

        private boolean flag(String key, boolean fallback) {
            String value = text(key, Boolean.toString(fallback));
            return switch (value) {
                case "true" -> true;
                case "false" -> false;
                default -> throw badValue(key, value, "true or false");
            };
        }
    }
}
