package io.nereus.pulsar.cursor;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ScanOutcome;

/**
 * Shows a predicate every entry from a place to the committed end that is not acknowledged.
 *
 * <p>Promises: the future completes exactly once, on the ledger's executor; entries are released here, the predicate
 * only looks at them; neither the read position nor an acknowledgement changes. Ends early, as {@code ABORTED}, after
 * the given number of entries or the given time, whichever comes first.
 */
public final class ScanOp implements CursorLedger.EntriesResult {

    private final CursorLedger ledger;
    private final CursorProgress progress;
    private final Predicate<Entry> condition;
    private final int batchSize;
    private final long deadlineNanos;
    private final CompletableFuture<ScanOutcome> outcome = new CompletableFuture<>();
    private long next;
    private long left;

    private ScanOp(CursorLedger ledger, CursorProgress progress, long start, Predicate<Entry> condition, int batchSize,
                   long maxEntries, long timeOutMillis) {
        this.ledger = ledger;
        this.progress = progress;
        this.next = start;
        this.condition = condition;
        this.batchSize = batchSize;
        this.left = maxEntries;
        this.deadlineNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeOutMillis);
    }

    /**
     * Starts a scan.
     *
     * @param batchSize     entries per read, at least 1
     * @param maxEntries    most entries to go through, acknowledged ones included
     * @param timeOutMillis longest time
     */
    public static CompletableFuture<ScanOutcome> start(CursorLedger ledger, CursorProgress progress, long start,
            Predicate<Entry> condition, int batchSize, long maxEntries, long timeOutMillis) {
        if (batchSize < 1) {
            throw new IllegalArgumentException("a scan of " + batchSize + " entries at a time");
        }
        ScanOp op = new ScanOp(ledger, progress, start, condition, batchSize, maxEntries, timeOutMillis);
        ledger.executor().execute(op::readNext);
        return op.outcome;
    }

    private void readNext() {
        next = Math.max(next, ledger.trimOffset());
        if (next >= ledger.committedEnd()) {
            outcome.complete(ScanOutcome.COMPLETED);
        } else if (left <= 0 || System.nanoTime() - deadlineNanos > 0) {
            outcome.complete(ScanOutcome.ABORTED);
        } else {
            ledger.read(next, (int) Math.min(batchSize, left), Long.MAX_VALUE, Long.MAX_VALUE, this);
        }
    }

    @Override
    public void entries(List<Entry> entries) {
        next += entries.size();
        left -= entries.size();
        List<Entry> acked = new ArrayList<>();
        List<Entry> unacked = progress.withoutAcked(entries, acked);
        boolean goOn = true;
        try {
            for (Entry entry : unacked) {
                goOn = condition.test(entry);
                if (!goOn) {
                    break;
                }
            }
        } catch (RuntimeException | Error e) {
            outcome.completeExceptionally(ManagedLedgerException.getManagedLedgerException(e));
            return;
        } finally {
            acked.forEach(Entry::release);
            unacked.forEach(Entry::release);
        }
        if (!goOn) {
            outcome.complete(ScanOutcome.USER_INTERRUPTED);
        } else if (entries.isEmpty()) {
            outcome.complete(ScanOutcome.COMPLETED);
        } else {
            readNext();
        }
    }

    @Override
    public void failed(ManagedLedgerException exception) {
        if (next < ledger.trimOffset()) {
            readNext();
        } else {
            outcome.completeExceptionally(exception);
        }
    }
}
