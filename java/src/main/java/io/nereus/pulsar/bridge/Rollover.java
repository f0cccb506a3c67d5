package io.nereus.pulsar.bridge;

/**
 * When a part of a stream is closed, so that retention may let it go. A bound of 0 or less is none.
 *
 * @param maxEntries closed by the entry that makes so many
 * @param maxBytes closed by the entry that makes so many bytes
 * @param minMillis never closed before it is older than this
 * @param maxMillis closed once it is so old
 * @param idleMillis closed once nothing was appended for longer than this
 */
public record Rollover(long maxEntries, long maxBytes, long minMillis, long maxMillis, long idleMillis) {
}
