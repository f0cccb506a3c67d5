package io.nereus.pulsar.bridge;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

/** Appends and reads of a stream as futures. */
final class StreamCalls {

    private static final AtomicInteger TWICE = new AtomicInteger();

    private StreamCalls() {
    }

    /** Appends; a refusal fails the future with what the native side said. */
    static CompletableFuture<Long> append(NativeStream stream, ByteBuf data) {
        CompletableFuture<Long> future = new CompletableFuture<>();
        int code = stream.append(data, 1, new NativeStream.AppendCallback() {
            @Override
            public void appended(long offset, long appendMillis) {
                once(future.complete(offset));
            }

            @Override
            public void failed(NativeException e) {
                once(future.completeExceptionally(e));
            }
        });
        if (code != NativeErrors.OK) {
            once(future.completeExceptionally(NativeErrors.toException(code, "append")));
        }
        return future;
    }

    /** How many outcomes came for operations that had one already; tests end with a look at it. */
    static int answeredTwice() {
        return TWICE.get();
    }

    private static void once(boolean first) {
        if (!first) {
            TWICE.incrementAndGet();
        }
    }

    /** Reads and returns copies of the entries. */
    static CompletableFuture<List<byte[]>> read(NativeStream stream, long start, int maxEntries, long maxBytes) {
        CompletableFuture<List<byte[]>> future = new CompletableFuture<>();
        stream.read(start, maxEntries, maxBytes, Long.MAX_VALUE, new NativeStream.ReadCallback() {
            @Override
            public void entries(ReadBatch batch) {
                List<byte[]> entries = new ArrayList<>();
                for (int i = 0; i < batch.size(); i++) {
                    if (batch.offset(i) != start + i) {
                        throw new AssertionError("offset " + batch.offset(i) + " at place " + i + " of " + start);
                    }
                    ByteBuf entry = batch.entry(i);
                    entries.add(ByteBufUtil.getBytes(entry));
                    entry.release();
                }
                batch.release();
                once(future.complete(entries));
            }

            @Override
            public void failed(NativeException e) {
                once(future.completeExceptionally(e));
            }
        });
        return future;
    }
}
