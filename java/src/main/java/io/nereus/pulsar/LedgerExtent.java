package io.nereus.pulsar;

import io.nereus.pulsar.bridge.LedgerDescription;
import org.apache.bookkeeper.mledger.Position;

/**
 * How far one ledger reaches: its committed end, its first readable offset and its last confirmed entry, with the
 * arithmetic and the spans between them.
 *
 * <p>Owns the only mutable view of these bounds. Promises: none of them ever goes back; the last confirmed entry moves
 * before the committed end, so that who sees the end sees the entry; positions are in normal form (L7). Changed on the
 * ledger's executor only, read by any thread. Does not: hold storage truth, do I/O.
 */
final class LedgerExtent {

    private final Projection projection;
    private final SpanTable spans;
    private final PositionNavigator navigator;
    private volatile long committedEnd;
    private volatile long trimOffset;
    private volatile Position lastConfirmed;

    LedgerExtent(LedgerDescription opened) {
        committedEnd = opened.state().end();
        trimOffset = opened.state().trim();
        projection = new Projection(opened.firstLedgerId(), opened.spanBits());
        lastConfirmed = projection.position(committedEnd - 1);
        spans = new SpanTable(projection, opened.spans(), trimOffset, committedEnd);
        navigator = new PositionNavigator(projection, this::trimOffset, this::committedEnd);
    }

    Projection projection() {
        return projection;
    }

    SpanTable spans() {
        return spans;
    }

    PositionNavigator navigator() {
        return navigator;
    }

    /** Offset of the next entry. */
    long committedEnd() {
        return committedEnd;
    }

    /** First readable offset. */
    long trimOffset() {
        return trimOffset;
    }

    /**
     * First offset that a reader can still get: {@link #trimOffset()}, but the last entry, which stays readable when all
     * is trimmed, so that whoever is told the last message id finds that message.
     */
    long firstKept() {
        return Math.max(0, Math.min(trimOffset, committedEnd - 1));
    }

    /** Position of the last committed entry, also after it was trimmed. */
    Position lastConfirmed() {
        return lastConfirmed;
    }

    /** Entries that can be read. */
    long entries() {
        long end = committedEnd;
        return end - Math.min(trimOffset, end);
    }

    /** Live bytes from the entry after {@code position}, estimated where the range cuts through a span. */
    long bytesAfter(Position position) {
        return spans.bytesBetween(navigator.offsetAfter(position), committedEnd);
    }

    /** An entry was committed at {@code offset}, the end so far; returns its position. */
    Position committed(long offset, int storedBytes, long appendMillis) {
        spans.committed(offset, storedBytes, appendMillis);
        Position position = projection.position(offset);
        lastConfirmed = position;
        committedEnd = offset + 1;
        return position;
    }

    /**
     * The entry at {@code offset} is known of, and with it all before it; those that nobody told of are taken to be as
     * large. Returns its position; an entry that was known of changes nothing.
     */
    Position reached(long offset, int storedBytes, long appendMillis) {
        Position position = projection.position(offset);
        if (offset >= committedEnd) {
            spans.reached(offset + 1, storedBytes, appendMillis);
            lastConfirmed = position;
            committedEnd = offset + 1;
        }
        return position;
    }

    /** Everything below {@code offset} is gone; tells whether that is news. */
    boolean trimmed(long offset) {
        if (offset <= trimOffset) {
            return false;
        }
        trimOffset = offset;
        spans.trimmed(offset);
        return true;
    }
}
