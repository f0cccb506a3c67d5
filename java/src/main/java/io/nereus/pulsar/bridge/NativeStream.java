package io.nereus.pulsar.bridge;

import io.netty.buffer.ByteBuf;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** One open stream. */
public final class NativeStream {
    NativeStream() {
    }

    /** Outcome of an append. */
    public interface AppendCallback {
        /** Committed. */
        void appended(long offset, long appendMillis);

        /** Failed. */
        void failed(NativeException e);
    }

    /** Outcome of a read. */
    public interface ReadCallback {
        /** Entries, possibly none; the receiver releases the batch. */
        void entries(ReadBatch batch);

        /** Failed. */
        void failed(NativeException e);
    }

    /** Appends. */
    public int append(ByteBuf data, int messages, AppendCallback callback) {
        throw new IllegalStateException();
    }

    /** Reads. */
    public void read(long start, int maxEntries, long maxBytes, long upTo, ReadCallback callback) {
        throw new IllegalStateException();
    }

    /** State. */
    public StreamState state() {
        throw new IllegalStateException();
    }

    /** Terminates. */
    public CompletableFuture<Long> terminate() {
        throw new IllegalStateException();
    }

    /** Trims. */
    public CompletableFuture<Long> trim(long before) {
        throw new IllegalStateException();
    }

    /** Truncates. */
    public CompletableFuture<Long> truncate() {
        throw new IllegalStateException();
    }

    /** Resumes. */
    public int resume() {
        throw new IllegalStateException();
    }

    /** Replaces properties. */
    public CompletableFuture<Void> setProperties(Map<String, String> all) {
        throw new IllegalStateException();
    }

    /** Persists. */
    public CompletableFuture<Void> persistCursor(CursorUpdate update) {
        throw new IllegalStateException();
    }

    /** Deletes. */
    public CompletableFuture<Void> deleteCursor(String name) {
        throw new IllegalStateException();
    }

    /** Closes. */
    public CompletableFuture<Void> close() {
        throw new IllegalStateException();
    }
}
