package io.nereus.pulsar;

import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;

/**
 * The mapping between the offsets of one topic incarnation and Pulsar's positions: a position is the offset written
 * in two digits of base {@code 2^spanBits}, the first digit added to the incarnation's first virtual ledger id.
 *
 * <p>Owns nothing but the two numbers recorded in the topic's binding. Promises: the mapping is a bijection between
 * offsets and positions in normal form (L7), order is kept, and a position whose entry id runs past the end of its
 * span means the same offset as its normal form. Does not: know what is committed, trimmed or valid.
 *
 * @param firstLedgerId virtual ledger id of the incarnation's first span, positive
 * @param spanBits      binary logarithm of the number of entries in one span, 1 to 31
 */
record Projection(long firstLedgerId, int spanBits) {

    /** Binary logarithm of the span size of every incarnation created today. */
    static final int DEFAULT_SPAN_BITS = 16;

    Projection {
        if (firstLedgerId <= 0) {
            throw new IllegalArgumentException("first virtual ledger id " + firstLedgerId + " is not positive");
        }
        if (spanBits < 1 || spanBits > 31) {
            throw new IllegalArgumentException("span bits " + spanBits + " are not within 1 to 31");
        }
    }

    /** Entries in one span. */
    long spanEntries() {
        return 1L << spanBits;
    }

    /** Virtual ledger id of the span that holds {@code offset}. */
    long ledgerId(long offset) {
        return Math.addExact(firstLedgerId, offset >> spanBits);
    }

    /** First offset of the span that {@code ledgerId} names; negative for an id below the incarnation's first. */
    long firstOffsetOf(long ledgerId) {
        return Math.multiplyExact(Math.subtractExact(ledgerId, firstLedgerId), spanEntries());
    }

    /**
     * The position of {@code offset} in normal form.
     *
     * @param offset from 0; -1 answers the position before the first entry, {@code (firstLedgerId, -1)}
     */
    Position position(long offset) {
        if (offset < 0) {
            if (offset == -1) {
                return PositionFactory.create(firstLedgerId, -1);
            }
            throw new IllegalArgumentException("offset " + offset + " has no position");
        }
        return PositionFactory.create(ledgerId(offset), offset & (spanEntries() - 1));
    }

    /**
     * The offset that {@code position} names, by arithmetic alone. An entry id of -1 ("before the first entry of this
     * ledger") answers the offset before the ledger's first: -1 for the first ledger, the last offset of the previous
     * span for a later one. An entry id past the span's end answers the offset it spills over to.
     *
     * @throws IllegalArgumentException if the position does not belong to this incarnation, see {@link #owns}
     */
    long offset(Position position) {
        if (!owns(position)) {
            throw new IllegalArgumentException("position " + position + " is not of ledger " + firstLedgerId);
        }
        return Math.addExact(firstOffsetOf(position.getLedgerId()), position.getEntryId());
    }

    /**
     * The place just before {@code offset}, written inside the span of {@code offset}: the entry id is -1 where the
     * span begins there. This is how Pulsar writes "nothing of this ledger was read yet".
     *
     * @param offset from 0
     */
    Position positionBefore(long offset) {
        if (offset < 0) {
            throw new IllegalArgumentException("offset " + offset + " has no position");
        }
        return PositionFactory.create(ledgerId(offset), (offset & (spanEntries() - 1)) - 1);
    }

    /** The mark-delete position of a cursor that has acknowledged everything below {@code end}. */
    Position markDeletePosition(long end) {
        return position(end - 1);
    }

    /**
     * Whether {@code position} can be translated by arithmetic: its ledger id is not below the incarnation's first,
     * its entry id not below -1, and the offset does not overflow. It says nothing about what is committed.
     */
    boolean owns(Position position) {
        long span = position.getLedgerId() - firstLedgerId;
        return position.getLedgerId() >= firstLedgerId && position.getEntryId() >= -1
            && span <= (Long.MAX_VALUE >> (spanBits + 1)) && position.getEntryId() <= Long.MAX_VALUE / 2;
    }
}
