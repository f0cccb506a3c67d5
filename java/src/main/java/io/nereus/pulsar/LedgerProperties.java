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

    private final NativeStream stream;
    /** Null if the ledger has none. */
    private final ManagedLedgerInterceptor interceptor;
    private volatile Map<String, String> current;
    private CompletableFuture<?> tail = CompletableFuture.completedFuture(null);

    LedgerProperties(NativeStream stream, ManagedLedgerInterceptor interceptor, Map<String, String> recovered) {
        this.stream = stream;
        this.interceptor = interceptor;
        this.current = frozen(recovered);
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
        return stream.setProperties(changed).thenApply(ignored -> {
            current = frozen(changed);
            return current;
        });
    }
}
