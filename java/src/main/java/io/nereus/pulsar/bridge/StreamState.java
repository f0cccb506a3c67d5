package io.nereus.pulsar.bridge;

/**
 * One consistent snapshot of a stream.
 *
 * @param trim first readable offset
 * @param end committed end: the number of entries ever committed, which is the next offset
 * @param entries live entries, {@code end - trim}
 * @param bytes bytes of the live entries
 * @param terminated no further append will be accepted
 * @param lastAppendMillis broker clock of the last committed append, 0 if there was none
 * @param ownerEpoch epoch under which this handle owns the stream, 0 for a read-only one
 * @param suspended appends are refused until {@link NativeStream#resume()}
 */
public record StreamState(long trim, long end, long entries, long bytes, boolean terminated, long lastAppendMillis,
                          long ownerEpoch, boolean suspended) {
}
