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
    /** The change asked for last; null before the first. */
    private CompletableFuture<?> tail;

    LedgerProperties(NativeStream stream, ManagedLedgerInterceptor interceptor, Map<String, String> recovered) {
        this.stream = stream;
        this.interceptor = interceptor;
        this.current = frozen(visible(recovered));
        Map<String, String> rest = new HashMap<>(recovered);
        rest.keySet().removeAll(current.keySet());
        this.hidden = frozen(rest);
    }

    /** Those of {@code stored} that Pulsar sees; a map that the caller may change. */
    static Map<String, String> visible(Map<String, String> stored) {
        Map<String, String> visible = new HashMap<>(stored);
        visible.keySet().removeIf(name -> name.startsWith(HIDDEN_PREFIX));
        return visible;
    }

    /** A copy of its own; most ledgers have no properties, and share one that is empty. */
    private static Map<String, String> frozen(Map<String, String> map) {
        return map.isEmpty() ? Collections.emptyMap() : Collections.unmodifiableMap(new HashMap<>(map));
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
        CompletableFuture<?> before = tail == null ? CompletableFuture.completedFuture(null) : tail;
        CompletableFuture<Map<String, String>> done =
            before.handle((ignored, failure) -> null).thenCompose(ignored -> write(change));
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
