package io.nereus.pulsar.cursor;

import io.nereus.pulsar.bridge.AckPage;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * What one cursor has acknowledged: everything below the mark-delete end, single entries beyond it, and single
 * messages of batches.
 *
 * <p>Owns these facts and which of them changed since they were last taken for persisting. Promises: acknowledgements
 * only ever grow, except by a reset, which makes a new state; the mark-delete end is always the end of the contiguous
 * acknowledged prefix; there is no limit on the number of holes (L15). Counting and looking up read no entry and cost
 * at most one step per page of 65,536 offsets that holds acknowledgements.
 *
 * <p>Keeps: the entry at the mark-delete end is not acknowledged; nothing is stored about entries below it. Does not:
 * lock (its owner does), persist, or know what is committed; the caller never acknowledges past the committed end.
 */
public final class AckState {

    /** Most words of the messages of one batch: what the engine stores. A larger batch is acknowledged as a whole. */
    public static final int MAX_BATCH_WORDS = 1024;

    /** By number; the shared empty map of the JDK until there is a page, which most cursors never have. */
    private NavigableMap<Long, AckedPage> pages = Collections.emptyNavigableMap();
    /** The same for the numbers of those that changed. */
    private NavigableSet<Long> dirtyPages = Collections.emptyNavigableSet();
    private long markDeleteEnd;
    private boolean markDeleteDirty;
    /** Wholly acknowledged offsets at or beyond the mark-delete end. */
    private long ackedBeyond;
    /** Maximal runs of such offsets. */
    private int ranges;

    /** Makes the state of a cursor that has acknowledged everything below {@code markDeleteEnd} and nothing else. */
    public AckState(long markDeleteEnd) {
        if (markDeleteEnd < 0) {
            throw new IllegalArgumentException("mark-delete end " + markDeleteEnd + " is negative");
        }
        this.markDeleteEnd = markDeleteEnd;
    }

    /**
     * Reads a state back.
     *
     * @param pages stored pages in any order; whatever they hold below {@code markDeleteEnd} is ignored
     * @throws IllegalArgumentException if a page is damaged
     */
    public static AckState recovered(long markDeleteEnd, List<AckPage> pages) {
        AckState state = new AckState(markDeleteEnd);
        for (AckPage stored : pages) {
            AckedPage page = AckedPage.of(stored);
            long start = AckedPage.startOf(stored.pageNo());
            if (start + AckedPage.ENTRIES <= markDeleteEnd) {
                continue;
            }
            if (start < markDeleteEnd) {
                page.dropBelow(AckedPage.lowOf(markDeleteEnd));
            }
            if (!page.isEmpty() && state.put(stored.pageNo(), page) != null) {
                throw new IllegalArgumentException("ack page " + stored.pageNo() + " is stored twice");
            }
        }
        state.recount();
        long end = state.nextUnacked(markDeleteEnd);
        if (end > markDeleteEnd) {
            state.moveTo(end);
        }
        return state;
    }

    /** Offsets below it are all acknowledged, the one at it is not. */
    public long markDeleteEnd() {
        return markDeleteEnd;
    }

    /** Number of acknowledged offsets beyond the mark-delete end. */
    public long ackedBeyond() {
        return ackedBeyond;
    }

    /** Number of maximal runs of acknowledged offsets beyond the mark-delete end. */
    public int ranges() {
        return ranges;
    }

    /** Whether the whole entry is acknowledged. */
    public boolean isAcked(long offset) {
        return offset < markDeleteEnd || isAckedBeyond(offset);
    }

    /**
     * The messages of a batch that are still unacknowledged, as set bits; null if the entry is acknowledged as a whole
     * or not at all. A copy.
     */
    public long[] unackedIndexes(long offset) {
        AckedPage page = offset < markDeleteEnd ? null : pages.get(AckedPage.pageOf(offset));
        long[] words = page == null ? null : page.unackedIndexes(AckedPage.lowOf(offset));
        return words == null ? null : words.clone();
    }

    /** Acknowledges a whole entry; answers whether it was not acknowledged before. */
    public boolean ack(long offset) {
        if (isAcked(offset)) {
            return false;
        }
        if (offset == markDeleteEnd) {
            moveTo(nextUnacked(offset + 1));
            return true;
        }
        boolean joinsLeft = isAckedBeyond(offset - 1);
        boolean joinsRight = isAckedBeyond(offset + 1);
        pageFor(offset).ack(AckedPage.lowOf(offset));
        ackedBeyond++;
        ranges += 1 - (joinsLeft ? 1 : 0) - (joinsRight ? 1 : 0);
        return true;
    }

    /**
     * Acknowledges every message of a batch whose bit is clear in {@code unacked}; with no bit set, the whole entry.
     *
     * @return whether anything was acknowledged that was not before
     */
    public boolean ackIndexes(long offset, long[] unacked) {
        if (isAcked(offset)) {
            return false;
        }
        long pageNo = AckedPage.pageOf(offset);
        int low = AckedPage.lowOf(offset);
        AckedPage known = pages.get(pageNo);
        AckedPage page = known == null ? new AckedPage() : known;
        switch (page.ackIndexes(low, unacked)) {
            case UNCHANGED -> {
                return false;
            }
            case CHANGED -> {
                put(pageNo, page);
                markDirty(pageNo);
                return true;
            }
            default -> {
                return ack(offset);
            }
        }
    }

    /**
     * Acknowledges everything below {@code end}, and what follows it without a hole.
     *
     * @return whether the mark-delete end moved
     */
    public boolean markDelete(long end) {
        if (end <= markDeleteEnd) {
            return false;
        }
        moveTo(nextUnacked(end));
        return true;
    }

    /** First offset at or after {@code from} that is not wholly acknowledged. Always exists. */
    public long nextUnacked(long from) {
        long offset = Math.max(from, markDeleteEnd);
        while (true) {
            AckedPage page = pages.get(AckedPage.pageOf(offset));
            if (page == null) {
                return offset;
            }
            int low = page.nextUnacked(AckedPage.lowOf(offset));
            long found = AckedPage.startOf(AckedPage.pageOf(offset)) + low;
            if (low < AckedPage.ENTRIES) {
                return found;
            }
            offset = found;
        }
    }

    /** First acknowledged offset at or after {@code from} and the mark-delete end; {@link Long#MAX_VALUE} if none. */
    public long nextAcked(long from) {
        long offset = Math.max(from, markDeleteEnd);
        for (Map.Entry<Long, AckedPage> e : pages.tailMap(AckedPage.pageOf(offset)).entrySet()) {
            long start = AckedPage.startOf(e.getKey());
            int low = e.getValue().nextAcked(start >= offset ? 0 : AckedPage.lowOf(offset));
            if (low >= 0) {
                return start + low;
            }
        }
        return Long.MAX_VALUE;
    }

    /** Acknowledged offsets in {@code [from, to)} beyond the mark-delete end. */
    public long ackedIn(long from, long to) {
        long start = Math.max(from, markDeleteEnd);
        if (start >= to || pages.isEmpty()) {
            return 0;
        }
        if (start == markDeleteEnd && to >= AckedPage.startOf(pages.lastKey() + 1)) {
            return ackedBeyond;
        }
        long count = 0;
        for (Map.Entry<Long, AckedPage> e
                : pages.subMap(AckedPage.pageOf(start), true, AckedPage.pageOf(to - 1), true).entrySet()) {
            long pageStart = AckedPage.startOf(e.getKey());
            int low = (int) Math.max(0, start - pageStart);
            int high = (int) Math.min(AckedPage.ENTRIES, to - pageStart);
            count += e.getValue().ackedIn(low, high);
        }
        return count;
    }

    /** The {@code n}th offset, counted from 1, at or after {@code from} that is not wholly acknowledged. */
    public long nthUnacked(long from, long n) {
        if (n < 1) {
            throw new IllegalArgumentException("the unacknowledged entries are counted from 1, not from " + n);
        }
        long offset = Math.max(from, markDeleteEnd);
        long wanted = n;
        for (Map.Entry<Long, AckedPage> e : pages.tailMap(AckedPage.pageOf(offset)).entrySet()) {
            long pageStart = AckedPage.startOf(e.getKey());
            long free = Math.max(0, pageStart - offset);
            if (wanted <= free) {
                break;
            }
            wanted -= free;
            offset = Math.max(offset, pageStart);
            int low = AckedPage.lowOf(offset);
            int unacked = AckedPage.ENTRIES - low - e.getValue().ackedIn(low, AckedPage.ENTRIES);
            if (wanted <= unacked) {
                return pageStart + nthUnackedInPage(e.getValue(), low, (int) wanted);
            }
            wanted -= unacked;
            offset = pageStart + AckedPage.ENTRIES;
        }
        return Math.addExact(offset, wanted - 1);
    }

    /**
     * Chooses what to read next: a range that starts and ends with entries not yet acknowledged. Short runs of
     * acknowledged entries inside it are cheaper to read and drop than to read around.
     *
     * @param from    first offset to consider
     * @param limit   exclusive end of what may be read
     * @param wanted  most unacknowledged entries in the range, positive
     * @param longest longest run of acknowledged entries inside the range
     * @return the range, empty and at {@code min(first unacknowledged, limit)} if there is nothing to read
     */
    public Range window(long from, long limit, int wanted, int longest) {
        long start = nextUnacked(from);
        if (start >= limit) {
            return new Range(Math.max(from, limit), Math.max(from, limit));
        }
        long at = start;
        long left = wanted;
        while (true) {
            long runEnd = Math.min(nextAcked(at), limit);
            long taken = Math.min(runEnd - at, left);
            at += taken;
            left -= taken;
            if (left == 0 || at >= limit) {
                return new Range(start, at);
            }
            long next = nextUnacked(at);
            if (next - at > longest || next >= limit) {
                return new Range(start, at);
            }
            at = next;
        }
    }

    /** The last run of acknowledged offsets beyond the mark-delete end, or null if there is none. */
    public Range lastRange() {
        for (Map.Entry<Long, AckedPage> e : pages.descendingMap().entrySet()) {
            int last = e.getValue().previousAcked(AckedPage.ENTRIES - 1);
            if (last >= 0) {
                long end = AckedPage.startOf(e.getKey()) + last + 1;
                return new Range(runStart(end - 1), end);
            }
        }
        return null;
    }

    /** The first runs of acknowledged offsets beyond the mark-delete end, at most {@code limit} of them. */
    public List<Range> firstRanges(int limit) {
        List<Range> found = new ArrayList<>(Math.min(limit, ranges));
        long start = nextAcked(markDeleteEnd);
        while (start != Long.MAX_VALUE && found.size() < limit) {
            long end = nextUnacked(start);
            found.add(new Range(start, end));
            start = nextAcked(end);
        }
        return found;
    }

    /** Bytes that the acknowledgements beyond the mark-delete end take when stored. */
    public int storedBytes() {
        int bytes = 0;
        for (AckedPage page : pages.values()) {
            bytes = Math.addExact(bytes, page.storedBytes());
        }
        return bytes;
    }

    /** Whether anything changed since the last {@link #takeChanges()}. */
    public boolean isDirty() {
        return markDeleteDirty || !dirtyPages.isEmpty();
    }

    /** Takes what has to be persisted; from now on it counts as clean until {@link #putBack}. */
    public Changes takeChanges() {
        List<AckPage> changed = new ArrayList<>(dirtyPages.size());
        for (long pageNo : dirtyPages) {
            AckedPage page = pages.get(pageNo);
            changed.add((page == null ? new AckedPage() : page).toStored(pageNo));
        }
        Changes changes = new Changes(markDeleteEnd, List.copyOf(changed));
        dirtyPages = Collections.emptyNavigableSet();
        markDeleteDirty = false;
        return changes;
    }

    /** Makes changes that could not be persisted dirty again, in their present form. */
    public void putBack(Changes changes) {
        markDeleteDirty = true;
        for (AckPage page : changes.pages()) {
            if (AckedPage.startOf(page.pageNo() + 1) > markDeleteEnd) {
                markDirty(page.pageNo());
            }
        }
    }

    /** An independent copy in which nothing is dirty. */
    public AckState copy() {
        AckState copy = new AckState(markDeleteEnd);
        pages.forEach((pageNo, page) -> copy.put(pageNo, page.copy()));
        copy.ackedBeyond = ackedBeyond;
        copy.ranges = ranges;
        return copy;
    }

    private boolean isAckedBeyond(long offset) {
        AckedPage page = offset < markDeleteEnd ? null : pages.get(AckedPage.pageOf(offset));
        return page != null && page.isAcked(AckedPage.lowOf(offset));
    }

    private AckedPage pageFor(long offset) {
        long pageNo = AckedPage.pageOf(offset);
        markDirty(pageNo);
        AckedPage page = pages.get(pageNo);
        if (page == null) {
            page = new AckedPage();
            put(pageNo, page);
        }
        return page;
    }

    /** Returns the page that was there before, or null. */
    private AckedPage put(long pageNo, AckedPage page) {
        if (pages.isEmpty()) {
            pages = new TreeMap<>();
        }
        return pages.put(pageNo, page);
    }

    private void markDirty(long pageNo) {
        if (dirtyPages.isEmpty()) {
            dirtyPages = new TreeSet<>();
        }
        dirtyPages.add(pageNo);
    }

    /** First offset of the run that {@code acked} belongs to. */
    private long runStart(long acked) {
        long start = acked;
        while (true) {
            long pageNo = AckedPage.pageOf(start);
            int hole = pages.get(pageNo).previousUnacked(AckedPage.lowOf(start));
            if (hole >= 0) {
                return AckedPage.startOf(pageNo) + hole + 1;
            }
            start = AckedPage.startOf(pageNo);
            if (!isAckedBeyond(start - 1)) {
                return start;
            }
            start--;
        }
    }

    private static int nthUnackedInPage(AckedPage page, int from, int n) {
        int low = from;
        int high = AckedPage.ENTRIES - 1;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (middle - from + 1 - page.ackedIn(from, middle + 1) >= n) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        return low;
    }

    /** Moves the mark-delete end to {@code end}, which is not acknowledged, so no run lies across it. */
    private void moveTo(long end) {
        if (!pages.isEmpty()) {
            passPages(end);
        }
        if (!dirtyPages.isEmpty()) {
            dirtyPages.headSet(AckedPage.pageOf(end)).clear();
        }
        markDeleteEnd = end;
        markDeleteDirty = true;
    }

    /** Drops what the pages hold below {@code end}, and the pages that hold nothing more. */
    private void passPages(long end) {
        long endPage = AckedPage.pageOf(end);
        NavigableMap<Long, AckedPage> passed = pages.headMap(endPage, AckedPage.lowOf(end) > 0);
        boolean lastWasAcked = false;
        long lastPage = Long.MIN_VALUE;
        for (Iterator<Map.Entry<Long, AckedPage>> it = passed.entrySet().iterator(); it.hasNext(); ) {
            Map.Entry<Long, AckedPage> e = it.next();
            AckedPage page = e.getValue();
            int high = e.getKey() < endPage ? AckedPage.ENTRIES : AckedPage.lowOf(end);
            ackedBeyond -= page.ackedIn(0, high);
            ranges -= page.runsBelow(high);
            if (lastWasAcked && lastPage == e.getKey() - 1 && page.isAcked(0)) {
                ranges++; // one run over the page border was counted on both sides
            }
            lastWasAcked = page.isAcked(AckedPage.ENTRIES - 1);
            lastPage = e.getKey();
            page.dropBelow(high);
            if (page.isEmpty()) {
                it.remove();
            }
        }
        if (pages.isEmpty()) {
            pages = Collections.emptyNavigableMap();
        }
    }

    private void recount() {
        ackedBeyond = 0;
        ranges = 0;
        for (Map.Entry<Long, AckedPage> e : pages.entrySet()) {
            ackedBeyond += e.getValue().ackedIn(0, AckedPage.ENTRIES);
            ranges += e.getValue().runsBelow(AckedPage.ENTRIES);
            AckedPage before = pages.get(e.getKey() - 1);
            if (before != null && before.isAcked(AckedPage.ENTRIES - 1) && e.getValue().isAcked(0)) {
                ranges--;
            }
        }
    }

    /**
     * A half-open range of offsets.
     *
     * @param start first offset
     * @param end   offset after the last
     */
    public record Range(long start, long end) {
        /** Whether the range holds no offset. */
        public boolean isEmpty() {
            return start >= end;
        }

        /** Number of offsets in the range. */
        public long size() {
            return end - start;
        }
    }

    /**
     * What a persist has to write.
     *
     * @param markDeleteEnd the mark-delete end
     * @param pages         the pages that changed, whole
     */
    public record Changes(long markDeleteEnd, List<AckPage> pages) {
    }
}
