package io.nereus.pulsar.bridge;

import io.netty.buffer.ByteBuf;
import org.apache.pulsar.common.allocator.PulsarByteBufAllocator;

/**
 * The entries answered by one read, in offset order, in one pooled buffer.
 *
 * <p>Owns one reference of the buffer until {@link #release()}; entries handed out are independent of it. Not safe for
 * use by several threads at once.
 */
public final class ReadBatch {

    /** An entry that is this many times smaller than its batch is copied out, so that it cannot pin the batch. */
    static final int PIN_RATIO = 64;
    /** Batches up to this many bytes may be pinned by any entry. */
    static final int PIN_FREE_BYTES = 64 * 1024;
    /** Bytes of one header slot: offset and length. */
    static final int HEADER_BYTES = Long.BYTES + Integer.BYTES;

    private static final ReadBatch EMPTY = new ReadBatch(null, new long[0], new int[0], new int[0]);

    private final long[] offsets;
    private final int[] starts;
    private final int[] lengths;
    private ByteBuf bytes;

    private ReadBatch(ByteBuf bytes, long[] offsets, int[] starts, int[] lengths) {
        this.bytes = bytes;
        this.offsets = offsets;
        this.starts = starts;
        this.lengths = lengths;
    }

    /** The answer of a read that found nothing. */
    static ReadBatch empty() {
        return EMPTY;
    }

    /**
     * Takes over one reference of {@code bytes}: {@code count} headers, then the entries back to back. The reference is
     * released if the buffer does not hold what its headers say.
     *
     * @throws NativeException {@code INTERNAL} if headers and bytes do not agree
     */
    static ReadBatch of(ByteBuf bytes, int count) throws NativeException {
        long position = (long) count * HEADER_BYTES;
        int total = bytes.readableBytes();
        boolean sound = count > 0 && position <= total;
        long[] offsets = new long[sound ? count : 0];
        int[] starts = new int[offsets.length];
        int[] lengths = new int[offsets.length];
        for (int i = 0; i < offsets.length && sound; i++) {
            offsets[i] = bytes.getLong(i * HEADER_BYTES);
            lengths[i] = bytes.getInt(i * HEADER_BYTES + Long.BYTES);
            sound = lengths[i] >= 0 && position + lengths[i] <= total;
            starts[i] = (int) position;
            position += lengths[i];
        }
        if (!sound || position != total) {
            bytes.release();
            throw new NativeException(NativeErrors.INTERNAL, "a read answered " + total + " bytes for " + count
                    + " entries and its header does not agree");
        }
        return new ReadBatch(bytes, offsets, starts, lengths);
    }

    /** Returns the number of entries. */
    public int size() {
        return offsets.length;
    }

    /** Returns the offset of entry {@code i}. */
    public long offset(int i) {
        return offsets[i];
    }

    /**
     * Returns the bytes of entry {@code i}; the caller owns one reference. A slice of the batch's buffer, or a copy
     * where a small entry would keep a large batch alive.
     *
     * @throws IllegalStateException after {@link #release()}
     */
    public ByteBuf entry(int i) {
        int length = lengths[i];
        if (bytes == null) {
            throw new IllegalStateException("the batch of offset " + offsets[i] + " was released");
        }
        int total = bytes.readableBytes();
        if (total > PIN_FREE_BYTES && (long) length * PIN_RATIO < total) {
            ByteBuf copy = PulsarByteBufAllocator.DEFAULT.directBuffer(Math.max(length, 1));
            return copy.writeBytes(bytes, starts[i], length);
        }
        return bytes.retainedSlice(starts[i], length);
    }

    /** Gives back the batch's own reference; idempotent. Entries that were handed out stay valid. */
    public void release() {
        ByteBuf held = bytes;
        bytes = null;
        if (held != null) {
            held.release();
        }
    }
}
