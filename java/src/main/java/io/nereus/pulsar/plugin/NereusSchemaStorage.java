package io.nereus.pulsar.plugin;

import java.net.URLEncoder;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.commons.lang3.tuple.Pair;
import org.apache.pulsar.broker.service.schema.exceptions.IncompatibleSchemaException;
import org.apache.pulsar.broker.service.schema.exceptions.SchemaException;
import org.apache.pulsar.common.protocol.schema.SchemaStorage;
import org.apache.pulsar.common.protocol.schema.SchemaVersion;
import org.apache.pulsar.common.protocol.schema.StoredSchema;
import org.apache.pulsar.common.schema.LongSchemaVersion;
import org.apache.pulsar.common.util.FutureUtil;
import org.apache.pulsar.metadata.api.GetResult;
import org.apache.pulsar.metadata.api.MetadataStore;
import org.apache.pulsar.metadata.api.MetadataStoreException.AlreadyExistsException;
import org.apache.pulsar.metadata.api.MetadataStoreException.BadVersionException;
import org.apache.pulsar.metadata.api.MetadataStoreException.NotFoundException;

/**
 * Pulsar's schemas in the cluster's metadata store: one node per schema id, changed only by conditional update.
 *
 * <p>Owns the nodes {@code /nereus/schemas/<URL-encoded schema id>}. Promises: versions are 0, 1, 2 … without gaps; an update
 * that lost against another broker (the partitions of one topic share a schema and live on different brokers) is decided
 * again on the fresh list; a node that cannot be read is an error, never an absent schema. Does not cache.
 *
 * <p>Errors: {@link IncompatibleSchemaException}, which clients do not retry, when a version does not fit; a
 * <em>recoverable</em> {@link SchemaException} for a damaged node or lost updates. Recoverable matters: on any other schema
 * exception the broker deletes the schema.
 *
 * <p>Thread-safe; futures complete on the metadata store's threads.
 */
public final class NereusSchemaStorage implements SchemaStorage {
    private static final String ROOT = "/nereus/schemas/";
    private static final int MAX_ATTEMPTS = 50;
    private static final long FIRST_DELAY_MILLIS = 2;
    private static final long MAX_DELAY_MILLIS = 200;
    private static final long ABSENT = -1;
    /** What {@link #delete} answers for something deleted; the interface wants a version and there is none. */
    private static final long DELETED_VERSION = -1;

    private final MetadataStore store;
    private final int maxAttempts;

    /** A node as read. {@code nodeVersion} is the metadata store's, {@link #ABSENT} when there is no node. */
    private record Read(long nodeVersion, SchemaNode node) {
    }

    NereusSchemaStorage(MetadataStore store) {
        this(store, MAX_ATTEMPTS);
    }

    /** @param maxAttempts how often an update may be tried before it fails, at least 1 */
    NereusSchemaStorage(MetadataStore store, int maxAttempts) {
        this.store = store;
        this.maxAttempts = maxAttempts;
    }

    @Override
    public void start() {
        // The metadata store is there before any schema storage is made.
    }

    @Override
    public void close() {
        // Holds nothing: the metadata store belongs to the broker.
    }

    @Override
    public CompletableFuture<SchemaVersion> put(String key, byte[] value, byte[] hash) {
        return put(key, present -> CompletableFuture.completedFuture(Pair.of(value, hash)));
    }

    /**
     * Appends the version that {@code fn} decides on, given the present ones.
     *
     * @param fn may be called several times; answers null when there is nothing to store
     * @return the new version, null when {@code fn} answered null
     */
    @Override
    public CompletableFuture<SchemaVersion> put(String key,
            Function<CompletableFuture<List<CompletableFuture<StoredSchema>>>,
                CompletableFuture<Pair<byte[], byte[]>>> fn) {
        return attempt(key, fn, 1);
    }

    private CompletableFuture<SchemaVersion> attempt(String key,
            Function<CompletableFuture<List<CompletableFuture<StoredSchema>>>,
                CompletableFuture<Pair<byte[], byte[]>>> fn, int number) {
        return read(key).thenCompose(read -> fn.apply(CompletableFuture.completedFuture(stored(read.node())))
            .thenCompose(wanted -> {
                if (wanted == null) {
                    return CompletableFuture.completedFuture(null);
                }
                return write(key, read, wanted.getLeft()).handle((version, failure) -> {
                    if (failure == null) {
                        return CompletableFuture.<SchemaVersion>completedFuture(version);
                    }
                    if (!isLostUpdate(failure)) {
                        return CompletableFuture.<SchemaVersion>failedFuture(failure);
                    }
                    if (number >= maxAttempts) {
                        return CompletableFuture.<SchemaVersion>failedFuture(new SchemaException(true, "schema of " + key
                            + " was changed by others in each of " + number + " attempts to add a version; try again"));
                    }
                    return CompletableFuture.supplyAsync(() -> null,
                            CompletableFuture.delayedExecutor(delayMillis(number), TimeUnit.MILLISECONDS))
                        .thenCompose(ignored -> attempt(key, fn, number + 1));
                }).thenCompose(Function.identity());
            }));
    }

    private CompletableFuture<SchemaVersion> write(String key, Read read, byte[] value) {
        byte[] bytes;
        try {
            bytes = read.node().with(value).encode();
        } catch (SchemaNode.TooLargeException e) {
            return CompletableFuture.failedFuture(new IncompatibleSchemaException("schema of " + key
                + " cannot take another version: " + e.getMessage()
                + "; make the schema smaller, or delete the topic's schema and register it anew"));
        }
        return store.put(path(key), bytes, Optional.of(read.nodeVersion()))
            .thenApply(stat -> new LongSchemaVersion(read.node().versions().size()));
    }

    /** A missing node counts too: it was deleted since it was read, so the decision has to be taken again. */
    private static boolean isLostUpdate(Throwable failure) {
        Throwable cause = FutureUtil.unwrapCompletionException(failure);
        return cause instanceof BadVersionException || cause instanceof AlreadyExistsException
            || cause instanceof NotFoundException;
    }

    /** Doubles up to a limit, with the upper half random, so that the losers of one round do not meet again in the next. */
    private static long delayMillis(int attempt) {
        long delay = Math.min(MAX_DELAY_MILLIS, FIRST_DELAY_MILLIS << Math.min(attempt, 16));
        return delay / 2 + ThreadLocalRandom.current().nextLong(delay / 2 + 1);
    }

    @Override
    public CompletableFuture<StoredSchema> get(String key, SchemaVersion version) {
        if (version == SchemaVersion.Latest) {
            return read(key).thenApply(read -> stored(read.node(), read.node().versions().size() - 1L));
        }
        if (!(version instanceof LongSchemaVersion wanted)) {
            return CompletableFuture.failedFuture(
                new IllegalArgumentException("schema of " + key + " was asked for by an unknown kind of version: " + version));
        }
        return read(key).thenCompose(read -> {
            StoredSchema found = stored(read.node(), wanted.getVersion());
            if (found != null || wanted.getVersion() < 0) {
                return CompletableFuture.completedFuture(found);
            }
            // The client may have this version from another broker whose write has not reached our view of the store.
            return store.sync(path(key)).thenCompose(ignored -> read(key))
                .thenApply(fresh -> stored(fresh.node(), wanted.getVersion()));
        });
    }

    @Override
    public CompletableFuture<List<CompletableFuture<StoredSchema>>> getAll(String key) {
        return read(key).thenApply(read -> stored(read.node()));
    }

    @Override
    public CompletableFuture<SchemaVersion> delete(String key) {
        return delete(key, false);
    }

    /**
     * Removes every version. Does not read the node, so that a damaged one can be removed too.
     *
     * @return null when there was nothing, also when someone else deleted it meanwhile
     */
    @Override
    public CompletableFuture<SchemaVersion> delete(String key, boolean forcefully) {
        return store.delete(path(key), Optional.empty()).handle((ignored, failure) -> {
            if (failure == null) {
                return CompletableFuture.<SchemaVersion>completedFuture(new LongSchemaVersion(DELETED_VERSION));
            }
            if (FutureUtil.unwrapCompletionException(failure) instanceof NotFoundException) {
                return CompletableFuture.<SchemaVersion>completedFuture(null);
            }
            return CompletableFuture.<SchemaVersion>failedFuture(failure);
        }).thenCompose(Function.identity());
    }

    /** Reads the first 8 bytes, big-endian; very old clients send 64. */
    @Override
    public SchemaVersion versionFromBytes(byte[] version) {
        return new LongSchemaVersion(ByteBuffer.wrap(version).getLong());
    }

    private CompletableFuture<Read> read(String key) {
        return store.get(path(key)).thenCompose(result -> {
            if (result.isEmpty()) {
                return CompletableFuture.completedFuture(new Read(ABSENT, SchemaNode.empty(key)));
            }
            GetResult found = result.get();
            try {
                return CompletableFuture.completedFuture(
                    new Read(found.getStat().getVersion(), SchemaNode.decode(key, found.getValue())));
            } catch (SchemaNode.CorruptException e) {
                return CompletableFuture.failedFuture(new SchemaException(true, "schema of " + key + " is damaged, metadata node "
                    + path(key) + ": " + e.getMessage() + "; restore the node, or delete the topic's schema with force"));
            }
        });
    }

    private static List<CompletableFuture<StoredSchema>> stored(SchemaNode node) {
        List<CompletableFuture<StoredSchema>> all = new ArrayList<>(node.versions().size());
        for (long version = 0; version < node.versions().size(); version++) {
            all.add(CompletableFuture.completedFuture(stored(node, version)));
        }
        return all;
    }

    private static StoredSchema stored(SchemaNode node, long version) {
        return version < 0 || version >= node.versions().size() ? null
            : new StoredSchema(node.versions().get((int) version), new LongSchemaVersion(version));
    }

    private static String path(String key) {
        return ROOT + URLEncoder.encode(key, StandardCharsets.UTF_8);
    }
}
