package io.nereus.pulsar.bridge;

import io.netty.buffer.ByteBuf;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.LongToIntFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One open stream. Every callback and future completes exactly once, on the executor that was given at open, never on
 * the caller's or the reactor's thread. Safe for use by several threads; only the order of appends is the caller's.
 *
 * <p>Does not: hold storage truth. After {@link #close()} every call answers {@link NativeErrors#CLOSED}.
 */
public final class NativeStream {

    private static final Logger log = LoggerFactory.getLogger(NativeStream.class);

    private final long handle;
    private final String name;
    private final CompletionReactor reactor;
    private final Executor executor;
    private final Runnable onClose;
    private final Object closeLock = new Object();
    private CompletableFuture<Void> closing;
    private volatile StreamState lastState;

    /**
     * Makes the view of an open stream.
     *
     * @param onClose called once, when the close begins
     */
    NativeStream(long handle, String name, CompletionReactor reactor, Executor executor, StreamState state,
            Runnable onClose) {
        this.handle = handle;
        this.name = name;
        this.reactor = reactor;
        this.executor = executor;
        this.lastState = state;
        this.onClose = onClose;
    }

    /** Receives the outcome of one append. */
    public interface AppendCallback {
        /**
         * The entry is durable.
         *
         * @param offset its offset
         * @param appendMillis broker clock of its commit, milliseconds since the epoch
         */
        void appended(long offset, long appendMillis);

        /** The entry is certainly not part of the stream, or the code is {@link NativeErrors#UNKNOWN}. */
        void failed(NativeException e);
    }

    /** Receives the outcome of one read. */
    public interface ReadCallback {
        /** The entries, possibly none; the receiver owns the batch and releases it. */
        void entries(ReadBatch batch);

        /** The read failed. */
        void failed(NativeException e);
    }

    /**
     * Appends one entry. Offsets are given in call order, so the caller holds the ledger's append lock. The readable
     * bytes are copied before this returns; reference count and indexes of {@code data} are not touched.
     *
     * @param messages messages in the entry, at least 1
     * @return {@link NativeErrors#OK} if the callback will be called, any other code if it will not
     */
    public int append(ByteBuf data, int messages, AppendCallback callback) {
        AppendOperation operation = new AppendOperation(callback);
        long op = reactor.register(operation);
        if (op == CompletionReactor.SWEPT) {
            return NativeErrors.OK;
        }
        if (op == CompletionReactor.REFUSED) {
            return NativeErrors.CLOSED;
        }
        int code;
        try {
            code = submit(op, data, messages);
        } catch (RuntimeException | Error e) {
            log.error("An entry of {} bytes could not be handed to stream {}", data.readableBytes(), name, e);
            code = NativeErrors.INTERNAL;
        }
        // An operation that is no longer in the table was swept: its callback is on the way.
        return code == NativeErrors.OK || !reactor.withdraw(op) ? NativeErrors.OK : code;
    }

    /**
     * Reads from exactly {@code start}: at least one entry if there is one, however large.
     *
     * @param maxEntries most entries, at least 1
     * @param maxBytes bytes after which no further entry is added
     * @param upTo exclusive end; {@link Long#MAX_VALUE} for none
     */
    public void read(long start, int maxEntries, long maxBytes, long upTo, ReadCallback callback) {
        reactor.submit(new ReadOperation(callback),
                op -> NativeCalls.read(handle, op, start, maxEntries, maxBytes, upTo));
    }

    /** Returns a consistent snapshot; the last one known once the stream is closed. Does not block. */
    public StreamState state() {
        NativeMemory.Fixed memory = NativeMemory.state();
        int code = NativeCalls.state(handle, memory.address);
        if (code == NativeErrors.OK) {
            ByteBuffer words = memory.buffer;
            StreamState state = new StreamState(word(words, 0), word(words, 1), word(words, 2), word(words, 3),
                    word(words, 4) != 0, word(words, 5), word(words, 6), word(words, 7) != 0);
            lastState = state;
            return state;
        }
        if (code != NativeErrors.CLOSED) {
            log.warn("Stream {} does not tell its state: {}", name, NativeErrors.name(code));
        }
        return lastState;
    }

    /** Ends the stream for ever; the future holds its final end. Idempotent. */
    public CompletableFuture<Long> terminate() {
        return number("terminate", op -> NativeCalls.terminate(handle, op));
    }

    /** Moves the trim offset forward, never back and never past the end; the future holds where it is now. */
    public CompletableFuture<Long> trim(long before) {
        return number("trim", op -> NativeCalls.trim(handle, op, before));
    }

    /** Trims to the committed end; the future holds where that is. */
    public CompletableFuture<Long> truncate() {
        return number("truncate", op -> NativeCalls.truncate(handle, op));
    }

    /**
     * Closes the parts of the stream that are due, then trims from the front, whole parts only, what need not be kept.
     *
     * @param consumed every offset below it is consumed by every cursor: nothing from here on goes
     * @param maxAgeMillis a part goes when its last append is older; below 0 never for its age
     * @param maxBytes a part goes when the stream has so many bytes without it; below 0 never for the size
     * @param nowMillis broker clock
     * @return the future holds the trim offset then
     */
    public CompletableFuture<Long> retain(long consumed, long maxAgeMillis, long maxBytes, long nowMillis) {
        return number("retention", op -> NativeCalls.retain(handle, op, consumed, maxAgeMillis, maxBytes, nowMillis));
    }

    /** Says when a part is closed: from the next append or retention on. A new stream closes none. Does not block. */
    public void setRollover(Rollover rollover) {
        int code = NativeCalls.setRollover(handle, rollover.maxEntries(), rollover.maxBytes(), rollover.minMillis(),
                rollover.maxMillis(), rollover.idleMillis());
        // A closed stream closes no parts any more.
        if (code != NativeErrors.OK && code != NativeErrors.CLOSED) {
            log.warn("Stream {} does not take rollover settings: {}", name, NativeErrors.name(code));
        }
    }

    /** Allows appends again after a failed one; returns a code. Does not block. */
    public int resume() {
        return NativeCalls.resume(handle);
    }

    /**
     * From now on the cursors of this stream mean offsets of {@code source}, as those of a shadow topic do. For this
     * handle; nothing is stored. Returns a code. Does not block.
     */
    public int follow(NativeStream source) {
        return NativeCalls.follow(handle, source.handle);
    }

    /** Replaces all properties; durable when the future completes. */
    public CompletableFuture<Void> setProperties(Map<String, String> all) {
        byte[] message = new WireWriter().stringMap(all).finish();
        return nothing("set properties", op -> NativeCalls.setProperties(handle, op, message));
    }

    /** Changes a cursor; durable when the future completes. Updates of one cursor take effect in call order. */
    public CompletableFuture<Void> persistCursor(CursorUpdate update) {
        byte[] message = Messages.cursorUpdate(update);
        return nothing("persist cursor " + update.name(), op -> NativeCalls.persistCursor(handle, op, message));
    }

    /** Deletes a cursor; {@link NativeErrors#NOT_FOUND} if there is none. */
    public CompletableFuture<Void> deleteCursor(String cursor) {
        byte[] message = Messages.text(cursor);
        return nothing("delete cursor " + cursor, op -> NativeCalls.deleteCursor(handle, op, message));
    }

    /** Closes the stream; idempotent. Appends that are not settled yet are settled first. */
    public CompletableFuture<Void> close() {
        return close(executor);
    }

    /** As {@link #close()}, for an owner that must not depend on the stream's executor being alive. */
    CompletableFuture<Void> close(Executor answeredOn) {
        synchronized (closeLock) {
            if (closing != null) {
                return closing;
            }
            closing = new CompletableFuture<>();
        }
        state();
        FutureOperation<Void> operation = new FutureOperation<>(answeredOn, "close of " + name, (a, b, c) -> null);
        reactor.submit(operation, op -> NativeCalls.closeStream(handle, op));
        operation.future().whenComplete((done, e) -> {
            onClose.run();
            // A stream that its engine has closed already is closed.
            if (e == null || NativeErrors.codeOf(e) == NativeErrors.CLOSED) {
                closing.complete(null);
            } else {
                closing.completeExceptionally(e);
            }
        });
        return closing;
    }

    @Override
    public String toString() {
        return "NativeStream[" + name + "]";
    }

    private int submit(long op, ByteBuf data, int messages) {
        int length = data.readableBytes();
        int index = data.readerIndex();
        long address = NativeMemory.addressOf(data, index, length);
        if (address != 0) {
            return NativeCalls.append(handle, op, address, length, messages);
        }
        int parts = data.nioBufferCount();
        if (data.isDirect() && parts > 1 && parts <= NativeMemory.MAX_PARTS) {
            return submitParts(op, data.nioBuffers(index, length), messages);
        }
        return submitCopy(op, data, messages);
    }

    private int submitParts(long op, ByteBuffer[] parts, int messages) {
        NativeMemory.Fixed table = NativeMemory.parts();
        int slot = 0;
        for (ByteBuffer part : parts) {
            long base = NativeCalls.addressOf(part);
            table.buffer.putLong(slot, base + part.position());
            table.buffer.putLong(slot + Long.BYTES, part.remaining());
            slot += 2 * Long.BYTES;
        }
        return NativeCalls.appendParts(handle, op, table.address, parts.length, messages);
    }

    private int submitCopy(long op, ByteBuf data, int messages) {
        ByteBuf copy = NativeMemory.directCopy(data);
        try {
            int length = copy.readableBytes();
            long address = length == 0 ? 0 : NativeMemory.addressOf(copy, copy.readerIndex(), length);
            return NativeCalls.append(handle, op, address, length, messages);
        } finally {
            copy.release();
        }
    }

    private CompletableFuture<Long> number(String what, LongToIntFunction call) {
        return start(what, call, (a, b, c) -> a);
    }

    private CompletableFuture<Void> nothing(String what, LongToIntFunction call) {
        return start(what, call, (a, b, c) -> null);
    }

    private <T> CompletableFuture<T> start(String what, LongToIntFunction call, FutureOperation.Outcome<T> outcome) {
        FutureOperation<T> operation = new FutureOperation<>(executor, what + " of " + name, outcome);
        reactor.submit(operation, call);
        return operation.future();
    }

    private static long word(ByteBuffer words, int index) {
        return words.getLong(index * Long.BYTES);
    }

    private final class AppendOperation extends PendingOperation {
        private final AppendCallback callback;

        AppendOperation(AppendCallback callback) {
            super(executor);
            this.callback = callback;
        }

        @Override
        void succeeded(long offset, long appendMillis, long unused) {
            callback.appended(offset, appendMillis);
        }

        @Override
        void failed(NativeException cause) {
            callback.failed(cause);
        }

        @Override
        String what() {
            return "append to " + name;
        }

        @Override
        int lostCode() {
            return NativeErrors.UNKNOWN;
        }
    }

    private final class ReadOperation extends PendingOperation {
        private final ReadCallback callback;

        ReadOperation(ReadCallback callback) {
            super(executor);
            this.callback = callback;
        }

        @Override
        void succeeded(long blob, long length, long count) throws NativeException {
            ReadBatch batch = blob == 0 ? ReadBatch.empty()
                    : ReadBatch.of(NativeMemory.copyOut(blob, length), Math.toIntExact(count));
            callback.entries(batch);
        }

        @Override
        void failed(NativeException cause) {
            callback.failed(cause);
        }

        @Override
        String what() {
            return "read of " + name;
        }
    }
}
