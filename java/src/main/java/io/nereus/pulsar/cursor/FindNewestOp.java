package io.nereus.pulsar.cursor;

import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.FindEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;

/**
 * Binary search for the newest entry that satisfies a predicate which is true up to some entry and false from there on.
 *
 * <p>Promises: ends exactly once, on the ledger's executor; reads at most {@code log2(n) + 2} single entries of a range
 * of n. Acknowledged entries are searched like others: they are still readable and tell where the border lies. The
 * predicate owns the entry it is given and releases it. An entry that is damaged ends the search with its failure or,
 * where the ledger lets cursors pass over such entries, counts like the next one that can be read.
 *
 * <p>Where the predicate is not monotone (clocks of producers differ) the answer is an entry that satisfies it and is
 * followed by one that does not, or the last of the range.
 */
public final class FindNewestOp implements CursorLedger.EntriesResult {

    private final CursorLedger ledger;
    private final Predicate<Entry> condition;
    private final FindEntryCallback callback;
    private final Object ctx;
    /** Everything below is known to match or lies outside; everything from {@code high} on is known not to match. */
    private long low;
    private long high;
    private long probe;
    /** Where the last look began; below {@code probe} when damaged entries lie between. */
    private long middle;
    private boolean checkingFirst;
    private Position newest;

    private FindNewestOp(CursorLedger ledger, AckState.Range range, Predicate<Entry> condition,
                         FindEntryCallback callback, Object ctx) {
        this.ledger = ledger;
        this.condition = condition;
        this.callback = callback;
        this.ctx = ctx;
        this.low = range.start();
        this.high = range.end();
    }

    /**
     * Searches a range. An empty one ends with null.
     *
     * @param guard whether the answer is null whenever the first entry does not satisfy the predicate
     */
    public static void start(CursorLedger ledger, AckState.Range range, FirstEntry guard, Predicate<Entry> condition,
                             FindEntryCallback callback, Object ctx) {
        FindNewestOp op = new FindNewestOp(ledger, range, condition, callback, ctx);
        op.checkingFirst = guard == FirstEntry.MUST_MATCH;
        ledger.executor().execute(op::next);
    }

    private void next() {
        low = Math.max(low, ledger.trimOffset()); // trimmed entries are older than everything that is left
        if (low >= high) {
            callback.findEntryComplete(newest, ctx);
            return;
        }
        middle = checkingFirst ? low : low + (high - low) / 2;
        probe = middle;
        read();
    }

    private void read() {
        ledger.read(probe, 1, Long.MAX_VALUE, probe + 1, this);
    }

    @Override
    public void entries(List<Entry> entries) {
        if (entries.isEmpty()) {
            failed(new ManagedLedgerException("the ledger answered no entry at " + ledger.position(probe)));
            return;
        }
        Position position = entries.get(0).getPosition();
        boolean matches;
        try {
            matches = condition.test(entries.get(0));
        } catch (RuntimeException | Error e) {
            failed(ManagedLedgerException.getManagedLedgerException(e));
            return;
        }
        if (matches) {
            newest = position;
            low = probe + 1;
        } else {
            high = middle; // the first entry of the range, if that is what was checked: then nothing is left
        }
        checkingFirst = false;
        next();
    }

    @Override
    public void failed(ManagedLedgerException exception) {
        if (probe < ledger.trimOffset()) {
            next();
        } else if (ledger.skipsDamaged() && DamagedEntries.isDamage(exception)) {
            if (++probe < high) {
                read();
            } else {
                high = middle; // nothing is known of them
                next();
            }
        } else {
            callback.findEntryFailed(exception, Optional.of(ledger.position(probe)), ctx);
        }
    }

    /** What the first entry of the range decides. */
    public enum FirstEntry {
        /** If it does not satisfy the predicate nothing does: expiry must not take an entry that is younger. */
        MUST_MATCH,
        /** Nothing in particular: a search by time wants the nearest entry even if the first one is out of order. */
        ORDINARY
    }
}
