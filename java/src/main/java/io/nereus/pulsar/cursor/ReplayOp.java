package io.nereus.pulsar.cursor;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;

/**
 * Reads given entries of a cursor again.
 *
 * <p>Promises: ends exactly once, on the ledger's executor, with all of the entries in order or with the first failure
 * and none; the list is mutable and each entry carries one reference. Neighbouring offsets are read together. Does not:
 * move the read position or filter what is acknowledged.
 */
public final class ReplayOp {

    private final CursorLedger ledger;
    private final ReadEntriesCallback callback;
    private final Object ctx;
    private final ArrayList<Entry> entries;
    private int runsLeft;
    private ManagedLedgerException failure;

    private ReplayOp(CursorLedger ledger, int expected, ReadEntriesCallback callback, Object ctx) {
        this.ledger = ledger;
        this.entries = new ArrayList<>(expected);
        this.callback = callback;
        this.ctx = ctx;
    }

    /**
     * Starts a replay.
     *
     * @param offsets at least one, ascending, without duplicates
     */
    public static void start(CursorLedger ledger, long[] offsets, ReadEntriesCallback callback, Object ctx) {
        ReplayOp op = new ReplayOp(ledger, offsets.length, callback, ctx);
        List<AckState.Range> runs = runs(offsets);
        op.runsLeft = runs.size();
        // One task, so that the runs are counted on one thread only.
        ledger.executor().execute(() -> runs.forEach(op::read));
    }

    private static List<AckState.Range> runs(long[] offsets) {
        List<AckState.Range> runs = new ArrayList<>();
        long start = offsets[0];
        for (int i = 1; i <= offsets.length; i++) {
            if (i == offsets.length || offsets[i] != offsets[i - 1] + 1) {
                runs.add(new AckState.Range(start, offsets[i - 1] + 1));
                start = i < offsets.length ? offsets[i] : start;
            }
        }
        return runs;
    }

    private void read(AckState.Range run) {
        if (run.end() > ledger.committedEnd()) {
            fail(new ManagedLedgerException("cannot replay " + ledger.position(run.end() - 1)
                    + ": the ledger ends at " + ledger.position(ledger.committedEnd() - 1)));
            return;
        }
        int wanted = Math.toIntExact(run.size());
        ledger.read(run.start(), wanted, Long.MAX_VALUE, run.end(), new CursorLedger.EntriesResult() {
            @Override
            public void entries(List<Entry> read) {
                entries.addAll(read);
                long next = run.start() + read.size();
                if (read.isEmpty()) {
                    fail(new ManagedLedgerException("cannot replay " + ledger.position(run.start())
                            + ": the ledger answered no entry"));
                } else if (next < run.end() && failure == null) {
                    ReplayOp.this.read(new AckState.Range(next, run.end()));
                } else {
                    runEnded();
                }
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                fail(exception);
            }
        });
    }

    private void fail(ManagedLedgerException exception) {
        if (failure == null) {
            failure = exception;
        }
        runEnded();
    }

    private void runEnded() {
        if (--runsLeft > 0) {
            return;
        }
        if (failure != null) {
            entries.forEach(Entry::release);
            callback.readEntriesFailed(failure, ctx);
            return;
        }
        entries.sort(Comparator.comparing(Entry::getPosition));
        callback.readEntriesComplete(entries, ctx);
    }
}
