package io.nereus.pulsar;

import io.nereus.pulsar.bridge.NativeStream;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;

/**
 * The properties of one ledger.
 *
 * <p>Promises: changes take effect one after the other, in call order; what {@link #current()} answers is durable; the
 * interceptor sees, and may complete, the map before it is written. A failed change leaves the properties as they were.
 */
final class LedgerProperties {

    /** Names that begin with this are ours: they are stored with the others, and Pulsar never sees them. */
    static final String HIDDEN_PREFIX = "#nereus.";

    private final NativeStream stream;
    /** Null if the ledger has none. */
    private final ManagedLedgerInterceptor interceptor;
    private final Map<String, String> hidden;
    private volatile Map<String, String> current;
    private CompletableFuture<?> tail = CompletableFuture.completedFuture(null);

    LedgerProperties(NativeStream stream, ManagedLedgerInterceptor interceptor, Map<String, String> recovered) {
        this.stream = stream;
        this.interceptor = interceptor;
        this.current = frozen(visible(recovered));
        this.hidden = new HashMap<>(recovered);
        this.hidden.keySet().removeAll(current.keySet());
    }

    /** Those of {@code stored} that Pulsar sees; a map that the caller may change. */
    static Map<String, String> visible(Map<String, String> stored) {
        Map<String, String> visible = new HashMap<>(stored);
        visible.keySet().removeIf(name -> name.startsWith(HIDDEN_PREFIX));
        return visible;
    }

    private static Map<String, String> frozen(Map<String, String> map) {
        return Collections.unmodifiableMap(new HashMap<>(map));
    }

    /** The durable properties; not to be changed. */
    Map<String, String> current() {
        return current;
    }

    /**
     * Changes the properties.
     *
     * @param change edits a copy of the current map
     * @return the new map, once it is durable; completes on the ledger's executor
     */
    synchronized CompletableFuture<Map<String, String>> update(Consumer<Map<String, String>> change) {
        CompletableFuture<Map<String, String>> done =
            tail.handle((ignored, failure) -> null).thenCompose(ignored -> write(change));
        tail = done;
        return done;
    }

    private CompletableFuture<Map<String, String>> write(Consumer<Map<String, String>> change) {
        Map<String, String> changed = new HashMap<>(current);
        change.accept(changed);
        if (interceptor != null) {
            interceptor.onUpdateManagedLedgerInfo(changed);
        }
        Map<String, String> stored = new HashMap<>(changed);
        stored.putAll(hidden);
        return stream.setProperties(stored).thenApply(ignored -> {
            current = frozen(changed);
            return current;
        });
    }
}
