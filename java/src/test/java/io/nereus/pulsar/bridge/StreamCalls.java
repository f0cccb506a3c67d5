package io.nereus.pulsar.bridge;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Appends and reads of a stream as futures. */
final class StreamCalls {

    private StreamCalls() {
    }

    /** Appends; a refusal fails the future with what the native side said. */
    static CompletableFuture<Long> append(NativeStream stream, ByteBuf data) {
        CompletableFuture<Long> future = new CompletableFuture<>();
        int code = stream.append(data, 1, new NativeStream.AppendCallback() {
            @Override
            public void appended(long offset, long appendMillis) {
                if (!future.complete(offset)) {
                    throw new AssertionError("answered twice");
                }
            }

            @Override
            public void failed(NativeException e) {
                if (!future.completeExceptionally(e)) {
                    throw new AssertionError("answered twice");
                }
            }
        });
        if (code != NativeErrors.OK) {
            future.completeExceptionally(NativeErrors.toException(code, "append"));
        }
        return future;
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
                        future.completeExceptionally(new AssertionError("offset " + batch.offset(i)));
                    }
                    ByteBuf entry = batch.entry(i);
                    entries.add(ByteBufUtil.getBytes(entry));
                    entry.release();
                }
                batch.release();
                future.complete(entries);
            }

            @Override
            public void failed(NativeException e) {
                future.completeExceptionally(e);
            }
        });
        return future;
    }
}
