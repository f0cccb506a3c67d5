package io.nereus.pulsar.bridge;

import java.util.Map;

/**
 * Acknowledgements of the offsets {@code [pageNo << 16, (pageNo + 1) << 16)}. Arrays are shared, not copied: whoever
 * makes a page must not change them afterwards.
 *
 * @param pageNo number of the page
 * @param acked portable RoaringBitmap of the low 16 bits of wholly acknowledged offsets; zero length = none
 * @param batches low 16 bits of a partly acknowledged batch to its words, in which a set bit is still unacknowledged
 */
public record AckPage(long pageNo, byte[] acked, Map<Integer, long[]> batches) {
}
