package io.nereus.pulsar.bridge;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import org.apache.pulsar.metadata.api.MetadataStore;

/** One lease of an engine. */
public final class NativeEngine {
    NativeEngine() {
    }

    /** Acquires. */
    public static CompletableFuture<NativeEngine> acquire(EngineSettings settings, MetadataStore store) {
        throw new IllegalStateException();
    }

    /** Opens. */
    public CompletableFuture<OpenedLedger> openLedger(String name, boolean createIfMissing,
            Map<String, String> properties, Executor executor) {
        throw new IllegalStateException();
    }

    /** Opens read-only. */
    public CompletableFuture<OpenedLedger> openReadOnly(String name, Executor executor) {
        throw new IllegalStateException();
    }

    /** Describes. */
    public CompletableFuture<LedgerDescription> describeLedger(String name, Executor executor) {
        throw new IllegalStateException();
    }

    /** Deletes. */
    public CompletableFuture<Void> deleteLedger(String name, Executor executor) {
        throw new IllegalStateException();
    }

    /** Releases. */
    public CompletableFuture<Void> release() {
        throw new IllegalStateException();
    }
}
