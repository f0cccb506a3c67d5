package io.nereus.pulsar;

import io.nereus.pulsar.cursor.CursorKeeper;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.UnaryOperator;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerException;

/**
 * Pulsar's edits of the two maps stored with a cursor.
 *
 * <p>Owns no state. Promises: an edit works on what is stored when its turn comes, so that concurrent edits all stand;
 * one without a name or a value is refused before any effect. Any thread.
 */
final class PropertyEdits {

    private static final String INTERNAL = ManagedCursor.CURSOR_INTERNAL_PROPERTY_PREFIX;

    private final CursorKeeper keeper;

    PropertyEdits(CursorKeeper keeper) {
        this.keeper = keeper;
    }

    /** Whether a key or a value is missing: nothing that can be stored. */
    static boolean hasNull(Map<String, ?> properties) {
        return properties.entrySet().stream().anyMatch(e -> e.getKey() == null || e.getValue() == null);
    }

    /**
     * Sets one property of the mark-delete position.
     *
     * @throws NullPointerException if name or value is missing
     */
    void putOfPosition(String key, Long value) {
        keeper.editPositionProperties(map -> with(map, key, value));
    }

    void removeOfPosition(String key) {
        keeper.editPositionProperties(map -> without(map, key));
    }

    /** Sets one property of the cursor; fails with {@link IllegalArgumentException} if name or value is missing. */
    CompletableFuture<Void> put(String key, String value) {
        return key == null || value == null ? refused(key) : edit(map -> with(map, key, value));
    }

    CompletableFuture<Void> remove(String key) {
        return edit(map -> without(map, key));
    }

    /** Replaces the properties of the cursor except the internal ones, which only {@link #put} sets; null = by none. */
    CompletableFuture<Void> replace(Map<String, String> wanted) {
        if (wanted != null && hasNull(wanted)) {
            return refused(wanted.toString());
        }
        Map<String, String> added = wanted == null ? Map.of() : Map.copyOf(wanted);
        for (String key : added.keySet()) {
            if (key.startsWith(INTERNAL)) {
                return CompletableFuture.failedFuture(new IllegalArgumentException(
                        "the property " + key + " is internal: its name must not begin with " + INTERNAL));
            }
        }
        return edit(map -> {
            map.keySet().removeIf(key -> !key.startsWith(INTERNAL));
            map.putAll(added);
            return map;
        });
    }

    private static CompletableFuture<Void> refused(String what) {
        return CompletableFuture.failedFuture(
                new IllegalArgumentException("the property " + what + " has no name or no value"));
    }

    private CompletableFuture<Void> edit(UnaryOperator<Map<String, String>> edit) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        keeper.editCursorProperties(edit, new CursorKeeper.Completion() {
            @Override
            public void done() {
                done.complete(null);
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                done.completeExceptionally(exception);
            }
        });
        return done;
    }

    private static <V> Map<String, V> with(Map<String, V> map, String key, V value) {
        Map<String, V> changed = new HashMap<>(map);
        changed.put(key, value);
        return changed;
    }

    private static <V> Map<String, V> without(Map<String, V> map, String key) {
        Map<String, V> changed = new HashMap<>(map);
        changed.remove(key);
        return changed;
    }
}
