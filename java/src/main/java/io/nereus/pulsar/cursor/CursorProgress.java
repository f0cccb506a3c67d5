package io.nereus.pulsar.cursor;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;
import org.apache.bookkeeper.mledger.Entry;

/**
 * Where one cursor stands: its acknowledgements, its read position and whether a reset is under way, under one lock.
 *
 * <p>Promises: the read position never lies below the mark-delete end, except where a caller forced it there; every
 * entry is handed to at most one of several reads between two rewinds; a read that began before a rewind, seek or
 * reset (an older <em>epoch</em>) hands over nothing and moves nothing. Backlog figures are exact and never negative.
 *
 * <p>Does not: call anybody while it holds the lock, except to ask the ledger for its bounds. Thread-safe.
 */
public final class CursorProgress {

    /** Runs of acknowledged entries up to this length are read and dropped rather than read around. */
    private static final int LONGEST_GAP = 8;

    private final CursorLedger ledger;
    private final LongSupplier firstReadable;
    private AckState acks;
    private long readOffset;
    private long epoch;
    private boolean resetting;

    /** Starts at the first entry that {@code acks} leaves unacknowledged. */
    public CursorProgress(CursorLedger ledger, AckState acks) {
        this(ledger, acks, ledger::trimOffset);
    }

    /**
     * Starts at the first entry that {@code acks} leaves unacknowledged.
     *
     * @param firstReadable first offset that this cursor can still read; never goes back, any thread
     */
    public CursorProgress(CursorLedger ledger, AckState acks, LongSupplier firstReadable) {
        this.ledger = ledger;
        this.firstReadable = firstReadable;
        this.acks = acks;
        this.readOffset = acks.markDeleteEnd();
    }

    /** First offset that this cursor can still read. Never goes back. Any thread. */
    public long firstReadable() {
        return firstReadable.getAsLong();
    }

    // ---- what is acknowledged

    /** See {@link AckState#markDeleteEnd()}. */
    public synchronized long markDeleteEnd() {
        return acks.markDeleteEnd();
    }

    /** Whether the whole entry is acknowledged. */
    public synchronized boolean isAcked(long offset) {
        return acks.isAcked(offset);
    }

    /** See {@link AckState#unackedIndexes(long)}. */
    public synchronized long[] unackedIndexes(long offset) {
        return acks.unackedIndexes(offset);
    }

    /** See {@link AckState#ranges()}. */
    public synchronized int ranges() {
        return acks.ranges();
    }

    /** See {@link AckState#storedBytes()}. */
    public synchronized int storedBytes() {
        return acks.storedBytes();
    }

    /** See {@link AckState#lastRange()}. */
    public synchronized AckState.Range lastRange() {
        return acks.lastRange();
    }

    /** See {@link AckState#firstRanges(int)}. */
    public synchronized List<AckState.Range> firstRanges(int limit) {
        return acks.firstRanges(limit);
    }

    /** Number of entries acknowledged in this incarnation of the topic. */
    public synchronized long ackedTotal() {
        return acks.markDeleteEnd() + acks.ackedBeyond();
    }

    /** An independent copy of what is acknowledged. */
    public synchronized AckState copyAcks() {
        return acks.copy();
    }

    // ---- acknowledging

    /** Acknowledges single entries or messages. The caller has checked that they are committed. */
    public synchronized void ack(List<Ack> batch) {
        for (Ack ack : batch) {
            if (ack.unacked() == null) {
                acks.ack(ack.offset());
            } else {
                acks.ackIndexes(ack.offset(), ack.unacked());
            }
        }
        passAcked();
    }

    /**
     * Acknowledges everything below {@code end}.
     *
     * @param unacked if not null, what the entry at {@code end} still has unacknowledged; acknowledged in the same step
     */
    public synchronized MarkDelete markDelete(long end, long[] unacked) {
        if (resetting) {
            return MarkDelete.RESETTING;
        }
        if (end < acks.markDeleteEnd()) {
            return MarkDelete.BEHIND;
        }
        acks.markDelete(end);
        if (unacked != null) {
            acks.ackIndexes(end, unacked);
        }
        passAcked();
        return MarkDelete.DONE;
    }

    /** Moves out of what the ledger no longer holds. */
    public synchronized void trimmed(long trim) {
        acks.markDelete(trim);
        passAcked();
    }

    private void passAcked() {
        readOffset = Math.max(readOffset, acks.markDeleteEnd());
    }

    // ---- persisting

    synchronized boolean isDirty() {
        return acks.isDirty();
    }

    synchronized AckState.Changes takeChanges() {
        return acks.takeChanges();
    }

    synchronized void putBack(AckState.Changes changes) {
        acks.putBack(changes);
    }

    // ---- moving the read position

    /** Offset of the next entry to read; may lie below the trim offset. */
    public synchronized long readOffset() {
        return readOffset;
    }

    /** Goes back to the first unacknowledged entry. */
    public synchronized void rewind() {
        readOffset = acks.markDeleteEnd();
        epoch++;
    }

    /** Goes to {@code offset}, but not below the mark-delete end. */
    public synchronized void seek(long offset) {
        readOffset = Math.max(Math.min(offset, ledger.committedEnd()), acks.markDeleteEnd());
        epoch++;
    }

    /** Goes to {@code offset}, even below the mark-delete end or the trim offset: compacted data may lie there. */
    public synchronized void forceSeek(long offset) {
        readOffset = Math.max(0, Math.min(offset, ledger.committedEnd()));
        epoch++;
    }

    /** Moves on past entries that are read by their positions, where they are the next ones; ascending. */
    public synchronized void passReplayed(long[] offsets) {
        for (long offset : offsets) {
            if (offset == readOffset) {
                readOffset++;
            }
        }
    }

    // ---- resetting

    /** Begins a reset; answers false if one is under way. Until it ends, mark-deletes are refused. */
    synchronized boolean beginReset() {
        if (resetting) {
            return false;
        }
        resetting = true;
        return true;
    }

    synchronized void resetFailed() {
        resetting = false;
    }

    /** Replaces what is acknowledged; reading goes on at {@code offset}. */
    synchronized void resetDone(AckState fresh, long offset) {
        acks = fresh;
        readOffset = offset;
        epoch++;
        resetting = false;
    }

    // ---- reading

    /** The epoch that a read which starts now belongs to. */
    synchronized long epoch() {
        return epoch;
    }

    /** Whether a read up to {@code limit} (exclusive) would find an entry. */
    public synchronized boolean hasEntries(long limit) {
        return acks.nextUnacked(readStart()) < Math.min(limit, ledger.committedEnd());
    }

    /**
     * Chooses the next range for a read.
     *
     * @param readEpoch   the epoch in which the read began
     * @param from        where the read itself has got to; it moves nothing before it delivers
     * @param wanted      most entries to deliver
     * @param limit       exclusive bound
     * @param acrossGaps  whether the range may hold short runs of acknowledged entries
     * @return the range, empty if there is nothing to read; null if the read is stale
     */
    synchronized AckState.Range window(long readEpoch, long from, int wanted, long limit, Gaps acrossGaps) {
        if (readEpoch != epoch) {
            return null;
        }
        long start = Math.max(from, readStart());
        long bound = Math.min(limit, ledger.committedEnd());
        return acks.window(start, bound, wanted, acrossGaps == Gaps.ALLOWED ? LONGEST_GAP : 0);
    }

    /**
     * Hands everything that a read has read over to it, in one step with moving the read position, so that no later
     * read can deliver before it what follows. Leaves out what another read or an acknowledgement was faster with.
     *
     * @param next    offset behind everything that was read or skipped
     * @param dropped receives the entries that are not handed over; the caller releases them
     * @return what is handed over; null, with everything dropped, if the read is stale
     */
    synchronized List<Entry> claim(long readEpoch, long next, List<Entry> entries, List<Entry> dropped) {
        if (readEpoch != epoch) {
            dropped.addAll(entries);
            return null;
        }
        List<Entry> claimed = new ArrayList<>(entries.size());
        for (Entry entry : entries) {
            long offset = ledger.offset(entry.getPosition());
            (offset >= readOffset && !acks.isAcked(offset) ? claimed : dropped).add(entry);
        }
        passTo(next);
        return claimed;
    }

    private void passTo(long next) {
        if (next > readOffset) {
            readOffset = Math.max(next, Math.min(acks.nextUnacked(next), ledger.committedEnd()));
        }
    }

    private long readStart() {
        return Math.max(readOffset, firstReadable.getAsLong());
    }

    // ---- counting

    /** First offset of the backlog: not below the mark-delete end, and readable. */
    public synchronized long backlogStart() {
        return Math.max(acks.markDeleteEnd(), firstReadable.getAsLong());
    }

    /** Entries that are readable and not acknowledged. */
    public synchronized long backlog() {
        return unackedFrom(firstReadable.getAsLong());
    }

    /** Entries at or after the read position that are readable and not acknowledged. */
    public synchronized long unread() {
        return unackedFrom(readStart());
    }

    private long unackedFrom(long from) {
        long start = Math.max(from, acks.markDeleteEnd());
        long end = ledger.committedEnd();
        long acked = start == acks.markDeleteEnd() ? acks.ackedBeyond() : acks.ackedIn(start, end);
        return Math.max(0, end - start - acked);
    }

    /** Entries from the mark-delete position, which does not count, to the read position, which does. */
    public synchronized long fromFirstUnackedToRead() {
        return Math.max(0, readOffset - acks.markDeleteEnd() + 1);
    }

    /** The {@code n}th entry of the backlog, counted from 1, by its offset; may lie past the committed end. */
    public synchronized long nthUnacked(long n) {
        return acks.nthUnacked(Math.max(acks.markDeleteEnd(), firstReadable.getAsLong()), n);
    }

    /** Those of {@code entries} that are acknowledged move to {@code dropped}, which the caller releases. */
    synchronized List<Entry> withoutAcked(List<Entry> entries, List<Entry> dropped) {
        List<Entry> kept = new ArrayList<>(entries.size());
        for (Entry entry : entries) {
            (acks.isAcked(ledger.offset(entry.getPosition())) ? dropped : kept).add(entry);
        }
        return kept;
    }

    /** Whether a range to read may hold acknowledged entries. */
    enum Gaps { ALLOWED, NONE }

    /** What became of a mark-delete. */
    public enum MarkDelete {
        /** Everything below the end is acknowledged. */
        DONE,
        /** Refused: more than that was acknowledged before. */
        BEHIND,
        /** Refused: a reset is under way. */
        RESETTING
    }

    /**
     * One acknowledgement.
     *
     * @param offset  the entry
     * @param unacked the messages of a batch that stay unacknowledged, as set bits; null for the whole entry
     */
    public record Ack(long offset, long[] unacked) {
    }
}
