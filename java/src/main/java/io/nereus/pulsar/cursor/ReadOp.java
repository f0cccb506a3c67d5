package io.nereus.pulsar.cursor;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One read of a cursor, from its read position on.
 *
 * <p>Promises: ends exactly once, on the ledger's executor; what it delivers is a mutable list of entries that were not
 * acknowledged, in order, one reference each; the read position moves past them in the step that delivers them, so a
 * read in several parts cannot be overtaken by a later one. A read overtaken by a rewind, seek or reset ends with an
 * empty list: its entries will be read again from the new position. A read that fails after it has read some entries
 * delivers these; the failure meets the next read. A damaged entry hides no good one before it, nor does one that is
 * acknowledged: the read narrows until it meets the damaged entry alone, and its {@link Unreadable} decides.
 *
 * <p>Does not: wait for entries. Runs on one thread at a time.
 */
public final class ReadOp implements CursorLedger.EntriesResult {

    private static final Logger log = LoggerFactory.getLogger(ReadOp.class);

    private final CursorLedger ledger;
    private final CursorProgress progress;
    private final ReadRequest request;
    private final Runnable ended;
    private final Unreadable unreadable;
    private final long epoch;
    private ArrayList<Entry> entries = new ArrayList<>();
    private long bytes;
    private AckState.Range range;
    /** Behind everything that was read or skipped; 0 while nothing was. */
    private long next;
    /** Most entries of one range; less once one was damaged. */
    private int most = Integer.MAX_VALUE;

    private ReadOp(CursorLedger ledger, CursorProgress progress, ReadRequest request, Runnable ended,
                   Unreadable unreadable) {
        this.ledger = ledger;
        this.progress = progress;
        this.request = request;
        this.ended = ended;
        this.unreadable = unreadable;
        this.epoch = progress.epoch();
    }

    /** Starts a read that fails at an entry that cannot be read; see the longer form. */
    public static void start(CursorLedger ledger, CursorProgress progress, ReadRequest request, Runnable ended) {
        start(ledger, progress, request, ended, (offset, why, passedOver, refused) -> refused.accept(why));
    }

    /**
     * Starts a read.
     *
     * @param ended      told just before the callback, on the ledger's executor
     * @param unreadable decides about an entry that cannot be read
     */
    public static void start(CursorLedger ledger, CursorProgress progress, ReadRequest request, Runnable ended,
                             Unreadable unreadable) {
        ReadOp op = new ReadOp(ledger, progress, request, ended, unreadable);
        if (!op.readNext()) {
            ledger.executor().execute(op::finish);
        }
    }

    /** Starts reading the next range; answers false if there is nothing more to read. */
    private boolean readNext() {
        int wanted = Math.min(most, request.maxEntries() - entries.size());
        CursorProgress.Gaps gaps = request.skip() == null && most == Integer.MAX_VALUE ? CursorProgress.Gaps.ALLOWED
                : CursorProgress.Gaps.NONE;
        AckState.Range found = progress.window(epoch, next, wanted, request.limit(), gaps);
        if (found == null) {
            return false;
        }
        if (found.isEmpty()) {
            next = Math.max(next, found.start());
            return false;
        }
        if (request.skip() != null) {
            AckState.Range unskipped;
            try {
                unskipped = firstUnskipped(found);
            } catch (RuntimeException | Error e) {
                long start = found.start();
                ManagedLedgerException failure = ManagedLedgerException.getManagedLedgerException(e);
                ledger.executor().execute(() -> failOrFinish(failure, start));
                return true;
            }
            if (unskipped.isEmpty()) {
                next = found.end();
                // As a task of its own, which lets others in: all of a long backlog may be skipped.
                ledger.executor().execute(this::readNextOrFinish);
                return true;
            }
            found = unskipped;
        }
        range = found;
        ledger.read(found.start(), Math.toIntExact(found.size()), request.maxBytes() - bytes, found.end(), this);
        return true;
    }

    private void readNextOrFinish() {
        if (!readNext()) {
            finish();
        }
    }

    private AckState.Range firstUnskipped(AckState.Range candidates) {
        long start = candidates.start();
        while (start < candidates.end() && request.skip().test(ledger.position(start))) {
            start++;
        }
        long end = start;
        while (end < candidates.end() && (end == start || !request.skip().test(ledger.position(end)))) {
            end++;
        }
        return new AckState.Range(start, end);
    }

    @Override
    public void entries(List<Entry> read) {
        next = range.start() + read.size();
        List<Entry> dropped = new ArrayList<>();
        List<Entry> kept = progress.withoutAcked(read, dropped);
        dropped.forEach(Entry::release);
        entries.addAll(kept);
        for (Entry entry : kept) {
            bytes += entry.getLength();
        }
        // A short answer met the byte limit; so would another round that is bound to bring one entry.
        boolean limited = request.maxBytes() != Long.MAX_VALUE
                && (read.size() < range.size() || request.maxBytes() - bytes < Math.max(1, averageLength()));
        if (read.isEmpty() || entries.size() >= request.maxEntries() || limited && !entries.isEmpty()) {
            finish();
        } else {
            readNextOrFinish();
        }
    }

    private long averageLength() {
        return entries.isEmpty() ? 0 : bytes / entries.size();
    }

    @Override
    public void failed(ManagedLedgerException exception) {
        if (progress.firstReadable() > range.start()) {
            readNextOrFinish(); // what we asked for was trimmed under way; the next range starts behind it
        } else if (range.size() > 1 && DamagedEntries.isDamage(exception)) {
            most = Math.toIntExact(range.size() / 2);
            readNextOrFinish();
        } else if (entries.isEmpty()) {
            unreadable.at(range.start(), exception, this::readNextOrFinish, why -> fail(why, range.start()));
        } else {
            finish();
        }
    }

    private void failOrFinish(ManagedLedgerException exception, long start) {
        if (entries.isEmpty()) {
            fail(exception, start);
        } else {
            finish();
        }
    }

    private void fail(ManagedLedgerException exception, long start) {
        log.warn("a read from {} failed: {}", ledger.position(start), exception.toString());
        ended.run();
        request.callback().readEntriesFailed(exception, request.ctx());
    }

    private void finish() {
        List<Entry> dropped = new ArrayList<>();
        List<Entry> claimed = progress.claim(epoch, next, entries, dropped);
        dropped.forEach(Entry::release);
        boolean overtaken = claimed != null && claimed.isEmpty() && !entries.isEmpty();
        entries = claimed == null ? new ArrayList<>() : new ArrayList<>(claimed);
        if (overtaken) {
            // Another read was faster with all of it; what follows is still to be had.
            bytes = 0;
            readNextOrFinish();
            return;
        }
        ended.run();
        request.callback().readEntriesComplete(entries, request.ctx());
    }

    /** Decides about an entry that cannot be read. */
    public interface Unreadable {

        /**
         * Calls one of the two, once, on the ledger's executor.
         *
         * @param why        the failure of reading {@code offset} alone
         * @param passedOver the entry counts as acknowledged from now on: the read goes on behind it
         * @param refused    the read fails with what it is given
         */
        void at(long offset, ManagedLedgerException why, Runnable passedOver,
                Consumer<ManagedLedgerException> refused);
    }
}
