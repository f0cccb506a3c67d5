package io.nereus.pulsar.bridge;

/**
 * One span of a stream: the part that Pulsar sees as one ledger.
 *
 * @param firstOffset first offset of the span, a multiple of the span size
 * @param entries live entries, counted from the trim offset if that lies inside the span
 * @param bytes bytes of the live entries
 * @param firstAppendMillis broker clock of the first append in the span
 * @param lastAppendMillis broker clock of the last append in the span
 */
public record SpanInfo(long firstOffset, long entries, long bytes, long firstAppendMillis, long lastAppendMillis) {
}
