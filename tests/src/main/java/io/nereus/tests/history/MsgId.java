package io.nereus.tests.history;

import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;

/**
 * The place of one message inside one topic partition, as the client was told: ledger, entry and, for a message of a
 * batch, its index in the batch ({@code -1} outside a batch). The order is the order of the topic. The partition is
 * part of the topic's name, not of this value.
 *
 * <p>A message that was sent in chunks is placed where its last chunk is.
 */
public record MsgId(long ledger, long entry, int batchIndex) implements Comparable<MsgId> {

    /** What a producer is told when deduplication dropped its resend: the message is stored, but the place is not said. */
    public static final MsgId UNKNOWN = new MsgId(-1, -1, -1);

    public static MsgId of(MessageId id) {
        if (!(id instanceof MessageIdAdv place)) {
            throw new IllegalArgumentException("no ledger and entry in a " + id.getClass().getName() + ": " + id);
        }
        return new MsgId(place.getLedgerId(), place.getEntryId(), place.getBatchIndex());
    }

    public boolean isKnown() {
        return ledger >= 0;
    }

    @Override
    public int compareTo(MsgId other) {
        int byLedger = Long.compare(ledger, other.ledger);
        if (byLedger != 0) {
            return byLedger;
        }
        int byEntry = Long.compare(entry, other.entry);
        return byEntry != 0 ? byEntry : Integer.compare(batchIndex, other.batchIndex);
    }

    /** {@code ledger:entry:batchIndex}, the form that {@link #parse} reads. */
    @Override
    public String toString() {
        return ledger + ":" + entry + ":" + batchIndex;
    }

    /** @throws IllegalArgumentException if the text is not {@code ledger:entry:batchIndex} */
    public static MsgId parse(String text) {
        String[] digits = text.split(":", -1);
        if (digits.length != 3) {
            throw new IllegalArgumentException("not a message id (ledger:entry:batchIndex): " + text);
        }
        return new MsgId(Long.parseLong(digits[0]), Long.parseLong(digits[1]), Integer.parseInt(digits[2]));
    }
}
