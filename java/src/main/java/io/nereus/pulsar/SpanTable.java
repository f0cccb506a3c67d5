package io.nereus.pulsar;

import io.nereus.pulsar.bridge.SpanInfo;
import io.nereus.pulsar.compat.LedgerDetails;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * The live spans of one ledger, which Pulsar sees as its ledgers: how many entries and bytes each holds and when it was
 * written.
 *
 * <p>Promises: never empty; the last span is the open one and holds the last confirmed entry; counts of entries are
 * exact; bytes are exact per span, and estimated from the span's average where a range cuts through a span or a trim
 * ends inside one (exact again at the next open). A view of the last completions, no storage truth. Thread-safe; no
 * operation does I/O, lookups take O(log spans).
 */
final class SpanTable {

    /** One span; {@code firstLive} is its first readable offset, {@code bytes} those of its live entries. */
    private static final class Span {
        private final long firstOffset;
        /** Bytes of all spans that this table has had before this one, also of what was trimmed since. */
        private final long bytesBefore;
        private long firstLive;
        private long end;
        private long bytes;
        private long lastAppendMillis;

        private Span(long firstOffset, long bytesBefore, long firstLive, long end, long bytes, long lastAppendMillis) {
            this.firstOffset = firstOffset;
            this.bytesBefore = bytesBefore;
            this.firstLive = firstLive;
            this.end = end;
            this.bytes = bytes;
            this.lastAppendMillis = lastAppendMillis;
        }

        private long entries() {
            return end - firstLive;
        }

        /** Bytes of the live entries in {@code [from, to)}: all but those of the others, at the average rounded down. */
        private long bytesWithin(long from, long to) {
            long start = Math.max(from, firstLive);
            long wanted = Math.min(to, end) - start;
            if (wanted <= 0) {
                return 0;
            }
            return bytes - bytes / entries() * (entries() - wanted);
        }
    }

    private final Projection projection;
    /** By first offset. */
    private final TreeMap<Long, Span> spans = new TreeMap<>();
    /** The last of them: nearly every append goes here. */
    private Span open;
    private long trim;
    private long end;
    private long totalBytes;
    /** Never goes down: what the spans had, and what they were given since. */
    private long bytesEver;

    /**
     * @param recovered live spans, ascending, as described at open
     * @param trim      first readable offset
     * @param end       committed end
     */
    SpanTable(Projection projection, List<SpanInfo> recovered, long trim, long end) {
        this.projection = projection;
        this.trim = trim;
        this.end = end;
        for (SpanInfo info : recovered) {
            long first = info.firstOffset();
            long spanEnd = Math.min(end, first + projection.spanEntries());
            Span span = new Span(first, bytesEver, spanEnd - info.entries(), spanEnd, info.bytes(),
                info.lastAppendMillis());
            spans.put(first, span);
            totalBytes += span.bytes;
            bytesEver += span.bytes;
        }
        ensureOpenSpan();
    }

    /** The open span exists even when it holds nothing that can be read. */
    private void ensureOpenSpan() {
        long first = firstOffsetOfSpan(Math.max(0, end - 1));
        open = spans.computeIfAbsent(first, f -> new Span(f, bytesEver, end, end, 0, 0));
    }

    /** The span that takes offset {@code next}, which is the end so far: the open one, or a new one behind it. */
    private Span openFor(long next) {
        if (next - open.firstOffset >= projection.spanEntries()) {
            open = new Span(firstOffsetOfSpan(next), bytesEver, next, next, 0, 0);
            spans.put(open.firstOffset, open);
        }
        return open;
    }

    private long firstOffsetOfSpan(long offset) {
        return offset >> projection.spanBits() << projection.spanBits();
    }

    /** An entry was committed at {@code offset}, which is the end so far. */
    synchronized void committed(long offset, int bytes, long appendMillis) {
        if (offset != end) {
            throw new IllegalStateException("offset " + offset + " was committed where " + end + " was next");
        }
        end = offset + 1;
        totalBytes += bytes;
        Span span = openFor(offset);
        bytesEver += bytes;
        span.end = end;
        span.bytes += bytes;
        span.lastAppendMillis = appendMillis;
    }

    /** Entries up to {@code newEnd} were committed, each of {@code bytes} bytes. */
    synchronized void reached(long newEnd, int bytes, long appendMillis) {
        while (end < newEnd) {
            Span span = openFor(end);
            long reached = Math.min(newEnd, span.firstOffset + projection.spanEntries());
            long added = (reached - end) * bytes;
            bytesEver += added;
            span.end = reached;
            span.bytes += added;
            span.lastAppendMillis = appendMillis;
            totalBytes += added;
            end = reached;
        }
    }

    /** Everything below {@code newTrim} is gone. */
    synchronized void trimmed(long newTrim) {
        if (newTrim <= trim) {
            return;
        }
        trim = newTrim;
        while (spans.firstKey() < open.firstOffset && spans.firstEntry().getValue().end <= newTrim) {
            totalBytes -= spans.pollFirstEntry().getValue().bytes;
        }
        Span cut = spans.firstEntry().getValue();
        if (newTrim > cut.firstLive) {
            long left = cut.bytesWithin(newTrim, cut.end);
            totalBytes -= cut.bytes - left;
            cut.bytes = left;
            cut.firstLive = newTrim;
        }
    }

    /** Live bytes of the ledger. */
    synchronized long totalBytes() {
        return totalBytes;
    }

    /** Entries and bytes of the open span. */
    synchronized long openEntries() {
        return open.entries();
    }

    synchronized long openBytes() {
        return open.bytes;
    }

    /** First offset of the open span. */
    synchronized long openFirstOffset() {
        return open.firstOffset;
    }

    /** Live bytes in {@code [from, to)}, estimated where the range cuts through a span. */
    synchronized long bytesBetween(long from, long to) {
        Map.Entry<Long, Span> holdsLast = spans.floorEntry(to - 1);
        if (from >= to || holdsLast == null) {
            return 0;
        }
        Map.Entry<Long, Span> holdsFrom = spans.floorEntry(from);
        Span first = (holdsFrom == null ? spans.firstEntry() : holdsFrom).getValue();
        Span last = holdsLast.getValue();
        if (first == last) {
            return first.bytesWithin(from, to);
        }
        // those in between are whole: only the first span of all is ever cut
        long between = last.bytesBefore - spans.higherEntry(first.firstOffset).getValue().bytesBefore;
        return first.bytesWithin(from, to) + between + last.bytesWithin(from, to);
    }

    /** Whether the span of virtual ledger {@code ledgerId} is live. */
    synchronized boolean contains(long ledgerId) {
        return find(ledgerId) != null;
    }

    private Span find(long ledgerId) {
        if (ledgerId < projection.firstLedgerId() || ledgerId > projection.ledgerId(open.firstOffset)) {
            return null;
        }
        return spans.get(projection.firstOffsetOf(ledgerId));
    }

    /** Ledger id of the first live span. */
    synchronized long firstLedgerId() {
        return projection.ledgerId(spans.firstKey());
    }

    /** Ledger id of the open span. */
    synchronized long lastLedgerId() {
        return projection.ledgerId(open.firstOffset);
    }

    /** First and one-past-last written offset of a live span; of the open one, the end is the committed end. */
    synchronized long endOf(long ledgerId) {
        Span span = find(ledgerId);
        if (span == null) {
            throw new IllegalArgumentException("ledger " + ledgerId + " is not live");
        }
        return span.end;
    }

    /** One live span as it is shown, or null if that ledger is not live. */
    synchronized LedgerDetails details(long ledgerId) {
        Span span = find(ledgerId);
        return span == null ? null : toDetails(span);
    }

    /** All live spans as they are shown, by ledger id: a fresh map that the caller may keep. */
    synchronized NavigableMap<Long, LedgerDetails> details() {
        NavigableMap<Long, LedgerDetails> all = new TreeMap<>();
        for (Map.Entry<Long, Span> entry : spans.entrySet()) {
            all.put(projection.ledgerId(entry.getKey()), toDetails(entry.getValue()));
        }
        return all;
    }

    /**
     * Entries are counted from the span's first offset, as stock counts from entry 0: the broker compares them with
     * entry ids. Only the open span, whose timestamp is 0, has no time of closing.
     */
    private LedgerDetails toDetails(Span span) {
        boolean isOpen = span == open;
        return new LedgerDetails(projection.ledgerId(span.firstOffset), span.end - span.firstOffset, span.bytes,
            isOpen ? 0 : span.lastAppendMillis);
    }
}
