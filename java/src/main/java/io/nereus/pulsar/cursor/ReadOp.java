package io.nereus.pulsar.cursor;

import java.util.ArrayList;
import java.util.List;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One read of a cursor, from its read position on.
 *
 * <p>Promises: ends exactly once, on the ledger's executor; what it delivers is a mutable list of entries that were not
 * acknowledged, in order, one reference each; the read position moves past them as they are claimed. A read overtaken
 * by a rewind, seek or reset ends with an empty list: its entries will be read again from the new position. A read that
 * fails after it has claimed entries delivers these; the failure meets the next read.
 *
 * <p>Does not: wait for entries. Runs on one thread at a time.
 */
public final class ReadOp implements CursorLedger.EntriesResult {

    private static final Logger log = LoggerFactory.getLogger(ReadOp.class);

    private final CursorLedger ledger;
    private final CursorProgress progress;
    private final ReadRequest request;
    private final Runnable ended;
    private final long epoch;
    private final ArrayList<Entry> entries = new ArrayList<>();
    private long bytes;
    private AckState.Range range;

    private ReadOp(CursorLedger ledger, CursorProgress progress, ReadRequest request, Runnable ended) {
        this.ledger = ledger;
        this.progress = progress;
        this.request = request;
        this.ended = ended;
        this.epoch = progress.epoch();
    }

    /**
     * Starts a read.
     *
     * @param ended told just before the callback, on the ledger's executor
     */
    public static void start(CursorLedger ledger, CursorProgress progress, ReadRequest request, Runnable ended) {
        ReadOp op = new ReadOp(ledger, progress, request, ended);
        if (!op.readNext()) {
            ledger.executor().execute(op::finish);
        }
    }

    /** Starts reading the next range; answers false if there is nothing more to read. */
    private boolean readNext() {
        int wanted = request.maxEntries() - entries.size();
        CursorProgress.Gaps gaps = request.skip() == null ? CursorProgress.Gaps.ALLOWED : CursorProgress.Gaps.NONE;
        AckState.Range next = progress.window(epoch, wanted, request.limit(), gaps);
        if (next == null || next.isEmpty()) {
            return false;
        }
        if (request.skip() != null) {
            AckState.Range unskipped = firstUnskipped(next);
            if (unskipped.isEmpty()) {
                progress.skip(epoch, next.end());
                // As a task of its own, which lets others in: all of a long backlog may be skipped.
                ledger.executor().execute(this::readNextOrFinish);
                return true;
            }
            progress.skip(epoch, unskipped.start());
            next = unskipped;
        }
        range = next;
        ledger.read(next.start(), Math.toIntExact(next.size()), request.maxBytes() - bytes, next.end(), this);
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
        List<Entry> dropped = new ArrayList<>();
        List<Entry> claimed = progress.claim(epoch, range.start(), read, dropped);
        dropped.forEach(Entry::release);
        long roundBytes = 0;
        if (claimed != null) {
            entries.addAll(claimed);
            for (Entry entry : claimed) {
                roundBytes += entry.getLength();
            }
            bytes += roundBytes;
        }
        // A short answer met the byte limit; so would another round that is bound to bring one entry.
        boolean limited = request.maxBytes() != Long.MAX_VALUE
                && (read.size() < range.size() || request.maxBytes() - bytes < Math.max(1, averageLength()));
        if (claimed == null || read.isEmpty() || entries.size() >= request.maxEntries()
                || limited && !entries.isEmpty()) {
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
        if (ledger.trimOffset() > range.start()) {
            readNextOrFinish(); // what we asked for was trimmed under way; the next range starts behind it
        } else if (entries.isEmpty()) {
            log.warn("a read from {} failed: {}", ledger.position(range.start()), exception.toString());
            ended.run();
            request.callback().readEntriesFailed(exception, request.ctx());
        } else {
            finish();
        }
    }

    private void finish() {
        if (progress.epoch() != epoch) {
            entries.forEach(Entry::release);
            entries.clear();
        }
        ended.run();
        request.callback().readEntriesComplete(entries, request.ctx());
    }
}
