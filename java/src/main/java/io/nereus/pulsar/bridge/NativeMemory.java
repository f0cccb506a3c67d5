package io.nereus.pulsar.bridge;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.pulsar.common.allocator.PulsarByteBufAllocator;

/**
 * Memory whose address the native side may be given for the time of one call.
 *
 * <p>Owns: small scratch buffers, one set a thread. Does not: use {@code Unsafe}; where Netty knows no address (it was
 * started without it) the JVM is asked.
 */
final class NativeMemory {

    /** Numbers that {@link NativeCalls#state} writes. */
    static final int STATE_WORDS = 10;
    /** An entry in more pieces than this is put together in Java first. */
    static final int MAX_PARTS = 64;

    private static final ThreadLocal<Scratch> SCRATCH = ThreadLocal.withInitial(Scratch::new);

    private NativeMemory() {
    }

    /** A direct buffer in native byte order, with its address. */
    static final class Fixed {
        final ByteBuffer buffer;
        final long address;

        Fixed(int bytes) {
            // Slots are read as aligned longs by the native side.
            ByteBuffer whole = ByteBuffer.allocateDirect(bytes + Long.BYTES);
            buffer = whole.alignedSlice(Long.BYTES).order(ByteOrder.nativeOrder());
            address = NativeCalls.addressOf(buffer);
        }
    }

    private static final class Scratch {
        final Fixed state = new Fixed(STATE_WORDS * Long.BYTES);
        final Fixed parts = new Fixed(MAX_PARTS * 2 * Long.BYTES);
    }

    /** Scratch of this thread for one state. */
    static Fixed state() {
        return SCRATCH.get().state;
    }

    /** Scratch of this thread for a table of parts. */
    static Fixed parts() {
        return SCRATCH.get().parts;
    }

    /** Address of index {@code index} of a direct, contiguous buffer; 0 if there is none. */
    static long addressOf(ByteBuf buffer, int index, int length) {
        if (buffer.hasMemoryAddress()) {
            return buffer.memoryAddress() + index;
        }
        if (!buffer.isDirect() || buffer.nioBufferCount() != 1) {
            return 0;
        }
        ByteBuffer view = buffer.nioBuffer(index, length);
        long base = NativeCalls.addressOf(view);
        return base == 0 ? 0 : base + view.position();
    }

    /**
     * Copies a blob into a pooled buffer of its exact size and frees it; the caller owns the buffer. The blob is gone
     * also when this fails.
     *
     * @throws NativeException {@code UNAVAILABLE} if there is no memory for the buffer, {@code CLOSED} if the engine of
     *         the blob is gone
     */
    static ByteBuf copyOut(long blob, long length) throws NativeException {
        ByteBuf buffer = null;
        try {
            int size = Math.toIntExact(length);
            buffer = PulsarByteBufAllocator.DEFAULT.directBuffer(Math.max(size, 1));
            long address = addressOf(buffer, 0, buffer.capacity());
            if (address == 0) {
                throw new NativeException(NativeErrors.INTERNAL, "the broker's allocator gave a buffer without an"
                        + " address: " + buffer);
            }
            int copied = NativeCalls.copyOut(blob, address, size);
            if (copied < 0) {
                throw NativeErrors.toException(-copied, "fetching a result of " + size + " bytes");
            }
            ByteBuf filled = buffer.writerIndex(copied);
            buffer = null;
            return filled;
        } catch (OutOfMemoryError | ArithmeticException e) {
            throw new NativeException(NativeErrors.UNAVAILABLE, "no buffer for a result of " + length + " bytes: "
                    + e.getMessage(), e);
        } finally {
            if (buffer != null) {
                buffer.release();
                NativeCalls.freeBlob(blob);
            }
        }
    }

    /** Copies a message out as an array. The blob is gone also when this fails; handle 0 is an empty message. */
    static byte[] copyMessage(long blob, long length) throws NativeException {
        if (blob == 0) {
            return new byte[0];
        }
        ByteBuf buffer = copyOut(blob, length);
        try {
            byte[] message = new byte[buffer.readableBytes()];
            buffer.readBytes(message);
            return message;
        } finally {
            buffer.release();
        }
    }

    /** A direct copy of all readable bytes; the caller owns it. */
    static ByteBuf directCopy(ByteBuf data) {
        int length = data.readableBytes();
        if (length == 0) {
            return Unpooled.EMPTY_BUFFER;
        }
        ByteBuf copy = PulsarByteBufAllocator.DEFAULT.directBuffer(length);
        return copy.writeBytes(data, data.readerIndex(), length);
    }
}
