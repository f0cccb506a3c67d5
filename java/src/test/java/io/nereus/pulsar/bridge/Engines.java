package io.nereus.pulsar.bridge;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.pulsar.metadata.api.MetadataStore;

/** Engines and waits for tests. */
final class Engines {

    /** Largest entry of test engines, bytes. */
    static final int MAX_ENTRY = 6 * 1024 * 1024;
    private static final long PATIENCE_SECONDS = 60;

    private Engines() {
    }

    static Path directory(String name) throws IOException {
        return Files.createTempDirectory("nereus-" + name + "-");
    }

    /** Removes a directory with all that is in it. */
    static void delete(Path directory) throws IOException {
        List<Path> deepestFirst;
        try (Stream<Path> all = Files.walk(directory)) {
            deepestFirst = all.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path path : deepestFirst) {
            Files.deleteIfExists(path);
        }
    }

    static Map<String, String> settings(Path directory) {
        Map<String, String> values = new HashMap<>();
        values.put(EngineSettings.DATA_DIRECTORY, directory.toString());
        values.put(EngineSettings.CLUSTER_NAME, "test");
        values.put(EngineSettings.BROKER_ID, "broker-of-" + ProcessHandle.current().pid());
        values.put("memoryLimitBytes", Long.toString(256L << 20));
        values.put("publishBufferBytes", Long.toString(32L << 20));
        values.put("segmentBytes", Long.toString(32L << 20));
        values.put("acceptOlderCopy", "false");
        values.put("maxEntryBytes", Integer.toString(MAX_ENTRY));
        return values;
    }

    static NativeEngine open(Path directory, MetadataStore store) throws Exception {
        return get(NativeEngine.acquire(new EngineSettings(settings(directory)), store));
    }

    /** Waits for a future; a failure is thrown as it is. */
    static <T> T get(CompletableFuture<T> future) throws Exception {
        try {
            return future.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            if (NativeErrors.unwrap(e) instanceof Exception cause) {
                throw cause;
            }
            throw e;
        }
    }

    /** Waits for a future that must fail natively. */
    static NativeException failure(CompletableFuture<?> future) throws Exception {
        try {
            Object result = get(future);
            throw new AssertionError("expected a failure, got " + result);
        } catch (NativeException e) {
            return e;
        }
    }
}
