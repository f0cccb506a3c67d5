package io.nereus.pulsar;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.metadata.api.GetResult;
import org.apache.pulsar.metadata.api.MetadataStore;

/**
 * Finds the data directory that a configured text means.
 *
 * <p>A text with {@code {clusterId}} in it means one directory per metadata store: the placeholder is replaced by a
 * random id that the first broker puts into the store and every later one finds there. So several clusters in one
 * process, or several brokers that come and go over one store, as in Pulsar's tests, agree on their directories.
 */
final class DataDirectory {

    static final String PLACEHOLDER = "{clusterId}";
    static final String ID_PATH = "/nereus/data-directory-id";
    private static final long TIMEOUT_SECONDS = 30;

    private DataDirectory() {
    }

    /** The absolute directory; blocks for the metadata store if the text has the placeholder. */
    static Path resolve(String text, MetadataStore store)
            throws InterruptedException, ExecutionException, TimeoutException {
        String resolved = text.contains(PLACEHOLDER)
            ? text.replace(PLACEHOLDER, id(store).get(TIMEOUT_SECONDS, TimeUnit.SECONDS)) : text;
        return Path.of(resolved).toAbsolutePath().normalize();
    }

    private static CompletableFuture<String> id(MetadataStore store) {
        return store.get(ID_PATH).thenCompose(found -> {
            if (found.isPresent()) {
                return CompletableFuture.completedFuture(text(found.get()));
            }
            String fresh = UUID.randomUUID().toString();
            // whoever loses the race reads what the winner wrote; a real failure shows in that read
            return store.put(ID_PATH, fresh.getBytes(StandardCharsets.US_ASCII), Optional.of(-1L))
                .handle((stat, failure) -> store.get(ID_PATH))
                .thenCompose(reread -> reread)
                .thenApply(written -> text(written.orElseThrow(() -> new IllegalStateException(
                    "the metadata store did not keep " + ID_PATH))));
        });
    }

    private static String text(GetResult node) {
        return new String(node.getValue(), StandardCharsets.US_ASCII);
    }
}
