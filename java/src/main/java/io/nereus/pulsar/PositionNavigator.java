package io.nereus.pulsar;

import com.google.common.collect.BoundType;
import com.google.common.collect.Range;
import io.nereus.pulsar.cursor.CursorLedger;
import java.util.function.LongSupplier;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionBound;

/**
 * Walks over the positions of one ledger: next, previous, n further, first, valid or not.
 *
 * <p>Promises: pure arithmetic on offsets, O(1), no I/O; answers are in normal form; every position is accepted. A
 * position whose ledger id is not one of ours is resolved as Pulsar's own ledger resolves a missing ledger: a smaller
 * one lies before the first readable entry, a larger one after the last. An entry id past the end of a closed span
 * means the first entry of the next span. Thread-safe; the bounds are read once per call.
 */
final class PositionNavigator {

    private final Projection projection;
    private final LongSupplier trim;
    private final LongSupplier end;

    /**
     * @param trim first readable offset
     * @param end  committed end
     */
    PositionNavigator(Projection projection, LongSupplier trim, LongSupplier end) {
        this.projection = projection;
        this.trim = trim;
        this.end = end;
    }

    /** One reading of the bounds, so that a call sees the ledger at one moment. */
    private record Bounds(long trim, long end) {

        long clamp(long offset) {
            return Math.max(trim, Math.min(end, offset));
        }
    }

    private Bounds bounds() {
        long last = end.getAsLong();
        return new Bounds(Math.min(trim.getAsLong(), last), last);
    }

    /**
     * The offset that {@code position} names before it is clamped to what exists; -1 is before offset 0. Past the last
     * span it is {@code Long.MAX_VALUE}, before the first one {@code Long.MIN_VALUE}.
     */
    private long raw(Position position, long lastOffset) {
        if (position.getLedgerId() < projection.firstLedgerId()) {
            return Long.MIN_VALUE;
        }
        if (position.getLedgerId() > projection.ledgerId(Math.max(0, lastOffset))) {
            return Long.MAX_VALUE;
        }
        long entry = Math.max(-1, Math.min(position.getEntryId(), projection.spanEntries()));
        return projection.firstOffsetOf(position.getLedgerId()) + entry;
    }

    private static long plusOne(long raw) {
        return raw == Long.MAX_VALUE || raw == Long.MIN_VALUE ? raw : raw + 1;
    }

    private long raw(Position position, Bounds bounds) {
        // the open span may be named by its first entry before that entry exists
        return raw(position, bounds.end());
    }

    /** First readable offset at or after {@code position}, within trim and committed end. */
    long offsetAtOrAfter(Position position) {
        Bounds bounds = bounds();
        return bounds.clamp(raw(position, bounds));
    }

    /** First readable offset after {@code position}, within trim and committed end. */
    long offsetAfter(Position position) {
        Bounds bounds = bounds();
        return bounds.clamp(plusOne(raw(position, bounds)));
    }

    /**
     * The offset that {@code position} names by arithmetic alone, whatever is trimmed or committed: -1 before the first
     * entry of this incarnation, {@link CursorLedger#BEYOND} past its last span.
     */
    long offset(Position position) {
        long raw = raw(position, bounds());
        return raw == Long.MAX_VALUE ? CursorLedger.BEYOND : Math.max(-1, raw);
    }

    /** The next entry after {@code position}; past the last entry, the place where the next one will be. */
    Position next(Position position) {
        return projection.position(offsetAfter(position));
    }

    /** The entry before {@code position}; before the first readable one, {@link #first()}. */
    Position previous(Position position) {
        Bounds bounds = bounds();
        long raw = raw(position, bounds);
        if (position.getEntryId() < 0) {
            raw = plusOne(raw); // "before the first entry of this ledger" has the same predecessor as that entry
        }
        if (raw <= bounds.trim()) {
            return first(bounds);
        }
        return projection.position(Math.min(raw, bounds.end()) - 1);
    }

    /**
     * The position that lies {@code n} entries ahead of {@code start}, at most the last confirmed entry.
     *
     * @param bound whether {@code start} itself counts as the first of the {@code n}
     */
    Position afterN(Position start, long n, PositionBound bound) {
        Bounds bounds = bounds();
        long raw = raw(start, bounds);
        long from = bound == PositionBound.startIncluded ? Math.max(raw, bounds.trim() - 1)
            : bounds.clamp(plusOne(raw));
        long reached = Math.min(bounds.end(), saturatedAdd(from, Math.max(0, n)));
        return reached <= bounds.trim() ? first(bounds) : projection.position(reached - 1);
    }

    private static long saturatedAdd(long a, long b) {
        long sum = a + b;
        return sum < a ? Long.MAX_VALUE : sum;
    }

    /** Just before the first readable entry; with none left, the last confirmed entry, so that it never goes back. */
    Position first() {
        return first(bounds());
    }

    private Position first(Bounds bounds) {
        if (bounds.trim() == bounds.end()) {
            return projection.position(bounds.end() - 1);
        }
        return projection.positionBefore(bounds.trim());
    }

    /** Whether {@code position} names a readable entry or the place of the next one. */
    boolean isValid(Position position) {
        if (position.getEntryId() < 0 || position.getEntryId() > projection.spanEntries()) {
            return false;
        }
        Bounds bounds = bounds();
        long offset = raw(position, bounds);
        return offset >= bounds.trim() && offset <= bounds.end();
    }

    /** Entries within a range of positions, never negative; what is trimmed or not yet written does not count. */
    long entriesWithin(Range<Position> range) {
        Bounds bounds = bounds();
        long lower = raw(range.lowerEndpoint(), bounds);
        long upper = raw(range.upperEndpoint(), bounds);
        long from = bounds.clamp(range.lowerBoundType() == BoundType.CLOSED ? lower : plusOne(lower));
        long to = bounds.clamp(range.upperBoundType() == BoundType.CLOSED ? plusOne(upper) : upper);
        return Math.max(0, to - from);
    }
}
