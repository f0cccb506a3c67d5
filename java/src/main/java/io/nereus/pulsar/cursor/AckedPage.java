package io.nereus.pulsar.cursor;

import io.nereus.pulsar.bridge.AckPage;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import org.roaringbitmap.IntConsumer;
import org.roaringbitmap.RoaringBitmap;

/**
 * The acknowledgements of one page of {@link #ENTRIES} consecutive offsets, addressed by the low bits of the offset.
 *
 * <p>Owns the bitmap of wholly acknowledged entries and, for batches acknowledged in part, the words in which a set bit
 * is a message that is still unacknowledged. Keeps: an entry is never in both, stored words are never empty and never
 * changed in place, so they may be shared with pages under way to the engine. Does not: know offsets, lock or persist.
 */
final class AckedPage {

    /** Binary logarithm of {@link #ENTRIES}. */
    static final int BITS = 16;
    /** Offsets covered by one page. */
    static final int ENTRIES = 1 << BITS;
    private static final int LOW_MASK = ENTRIES - 1;

    private final RoaringBitmap acked;
    private final TreeMap<Integer, long[]> batches;

    AckedPage() {
        this(new RoaringBitmap(), new TreeMap<>());
    }

    private AckedPage(RoaringBitmap acked, TreeMap<Integer, long[]> batches) {
        this.acked = acked;
        this.batches = batches;
    }

    static long pageOf(long offset) {
        return offset >> BITS;
    }

    static int lowOf(long offset) {
        return (int) (offset & LOW_MASK);
    }

    static long startOf(long pageNo) {
        return pageNo << BITS;
    }

    /**
     * Reads a page back.
     *
     * @throws IllegalArgumentException if the page holds anything but acknowledgements of its own offsets
     */
    static AckedPage of(AckPage stored) {
        AckedPage page = new AckedPage();
        if (stored.acked().length > 0) {
            try {
                page.acked.deserialize(ByteBuffer.wrap(stored.acked()));
            } catch (Exception e) {
                throw new IllegalArgumentException("ack page " + stored.pageNo() + " is not a roaring bitmap", e);
            }
            if (!page.acked.isEmpty() && (page.acked.last() < 0 || page.acked.last() > LOW_MASK)) {
                throw new IllegalArgumentException("ack page " + stored.pageNo() + " holds an entry of another page");
            }
        }
        for (Map.Entry<Integer, long[]> batch : stored.batches().entrySet()) {
            int low = batch.getKey();
            if (low < 0 || low > LOW_MASK) {
                throw new IllegalArgumentException("ack page " + stored.pageNo() + " holds a batch of another page");
            }
            if (page.ackIndexes(low, batch.getValue()) == Partial.WHOLE) {
                page.ack(low);
            }
        }
        return page;
    }

    /** The page as the engine stores it; one without acknowledgements removes the stored page. */
    AckPage toStored(long pageNo) {
        byte[] bytes = new byte[0];
        if (!acked.isEmpty()) {
            acked.runOptimize();
            ByteBuffer buffer = ByteBuffer.allocate(acked.serializedSizeInBytes());
            acked.serialize(buffer);
            bytes = buffer.array();
        }
        return new AckPage(pageNo, bytes, Map.copyOf(batches));
    }

    AckedPage copy() {
        return new AckedPage(acked.clone(), new TreeMap<>(batches));
    }

    boolean isAcked(int low) {
        return acked.contains(low);
    }

    /** Acknowledges a whole entry; answers whether it was not acknowledged before. */
    boolean ack(int low) {
        batches.remove(low);
        return acked.checkedAdd(low);
    }

    /**
     * Acknowledges every message of a batch whose bit is clear in {@code unacked}, on top of those acknowledged before.
     * Never gives an acknowledgement back, in whatever order the calls come. Changes nothing when that leaves no
     * message unacknowledged: the caller then acknowledges the entry as a whole.
     */
    Partial ackIndexes(int low, long[] unacked) {
        if (acked.contains(low)) {
            return Partial.UNCHANGED;
        }
        long[] before = batches.get(low);
        long[] after = before == null ? withoutTrailingZeros(unacked, unacked.length) : and(before, unacked);
        if (after.length == 0) {
            return Partial.WHOLE;
        }
        if (before != null && Arrays.equals(before, after)) {
            return Partial.UNCHANGED;
        }
        batches.put(low, after);
        return Partial.CHANGED;
    }

    /** The words of a batch acknowledged in part, not to be changed; null for any other entry. */
    long[] unackedIndexes(int low) {
        return batches.get(low);
    }

    /** First entry at or after {@code low} that is not wholly acknowledged; {@link #ENTRIES} if there is none. */
    int nextUnacked(int low) {
        return (int) Math.min(acked.nextAbsentValue(low), ENTRIES);
    }

    /** First wholly acknowledged entry at or after {@code low}, or -1. */
    int nextAcked(int low) {
        return (int) acked.nextValue(low);
    }

    /** Last wholly acknowledged entry at or before {@code low}, or -1. */
    int previousAcked(int low) {
        return (int) acked.previousValue(low);
    }

    /** Last entry at or before {@code low} that is not wholly acknowledged, or -1. */
    int previousUnacked(int low) {
        return (int) acked.previousAbsentValue(low);
    }

    /** Wholly acknowledged entries in {@code [from, to)}. */
    int ackedIn(int from, int to) {
        return from >= to ? 0 : (int) acked.rangeCardinality(from, to);
    }

    /** Number of maximal runs of wholly acknowledged entries below {@code to}. */
    int runsBelow(int to) {
        RunCounter counter = new RunCounter();
        acked.forEachInRange(0, to, counter);
        return counter.runs;
    }

    /** Forgets everything about entries below {@code low}. */
    void dropBelow(int low) {
        acked.remove(0L, (long) low);
        batches.headMap(low).clear();
    }

    boolean isEmpty() {
        return acked.isEmpty() && batches.isEmpty();
    }

    boolean hasAcked() {
        return !acked.isEmpty();
    }

    /** Bytes this page takes when stored, without the record around it. */
    int storedBytes() {
        int bytes = acked.isEmpty() ? 0 : acked.serializedSizeInBytes();
        for (long[] words : batches.values()) {
            bytes += Integer.BYTES + words.length * Long.BYTES;
        }
        return bytes;
    }

    private static long[] and(long[] a, long[] b) {
        int length = Math.min(a.length, b.length);
        long[] result = new long[length];
        for (int i = 0; i < length; i++) {
            result[i] = a[i] & b[i];
        }
        return withoutTrailingZeros(result, length);
    }

    private static long[] withoutTrailingZeros(long[] words, int length) {
        int used = length;
        while (used > 0 && words[used - 1] == 0) {
            used--;
        }
        return Arrays.copyOf(words, used);
    }

    /** What an acknowledgement of single messages did to its entry. */
    enum Partial { UNCHANGED, CHANGED, WHOLE }

    private static final class RunCounter implements IntConsumer {
        private int runs;
        private int previous = -2;

        @Override
        public void accept(int value) {
            if (value != previous + 1) {
                runs++;
            }
            previous = value;
        }
    }
}
