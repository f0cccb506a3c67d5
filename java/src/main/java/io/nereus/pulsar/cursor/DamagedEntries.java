package io.nereus.pulsar.cursor;

import io.nereus.pulsar.bridge.NativeErrors;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.LongStream;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lets one cursor pass over entries whose stored bytes are damaged, where Pulsar's {@code autoSkipNonRecoverableData}
 * asks for it.
 *
 * <p>Promises: an entry is passed over only when its own bytes failed their check, never for a time-out, a closed ledger
 * or a refusal; it counts as acknowledged from then on, durably, and each run of such entries is logged with its
 * positions. Nothing is passed over before an entry behind the run has been read well, nor more than
 * {@link #LONGEST_RUN} in a row: whatever makes all of a backlog unreadable is not one bad entry. Without the setting
 * nothing is passed over. Runs on the ledger's executor.
 */
public final class DamagedEntries implements ReadOp.Unreadable {

    /** Most damaged entries in a row that are passed over. */
    public static final int LONGEST_RUN = 1 << 16;
    private static final Logger log = LoggerFactory.getLogger(DamagedEntries.class);

    private final String cursor;
    private final CursorLedger ledger;
    private final CursorProgress progress;
    private final CursorKeeper keeper;

    /** Serves the cursor of that name. */
    public DamagedEntries(String cursor, CursorLedger ledger, CursorProgress progress, CursorKeeper keeper) {
        this.cursor = cursor;
        this.ledger = ledger;
        this.progress = progress;
        this.keeper = keeper;
    }

    /** Whether {@code failure} says that stored bytes failed their check. */
    static boolean isDamage(ManagedLedgerException failure) {
        return NativeErrors.codeOf(failure.getCause()) == NativeErrors.CORRUPT;
    }

    /**
     * Acknowledges the damaged entry at {@code offset} and those that follow it without a gap, if that may be.
     *
     * @param why     the failure of reading it alone
     * @param skipped called when they are acknowledged
     * @param refused called with {@code why} when nothing may be passed over
     */
    @Override
    public void at(long offset, ManagedLedgerException why, Runnable skipped,
                   Consumer<ManagedLedgerException> refused) {
        if (!ledger.skipsDamaged() || !isDamage(why)) {
            refused.accept(why);
            return;
        }
        probe(offset, offset + 1, why, skipped, refused);
    }

    private void probe(long start, long next, ManagedLedgerException why, Runnable skipped,
                       Consumer<ManagedLedgerException> refused) {
        if (next >= ledger.committedEnd() || next - start > LONGEST_RUN) {
            log.warn("cursor {}: the entries from {} to {} are damaged, and none behind them was found to be good: {}",
                    cursor, ledger.position(start), ledger.position(next - 1), why.toString());
            refused.accept(why);
            return;
        }
        ledger.read(next, 1, 1, next + 1, new CursorLedger.EntriesResult() {
            @Override
            public void entries(List<Entry> good) {
                good.forEach(Entry::release);
                log.error("cursor {} passes over the damaged entries {} to {}, as autoSkipNonRecoverableData asks: {}",
                        cursor, ledger.position(start), ledger.position(next - 1), why.toString());
                progress.ack(LongStream.range(start, next).mapToObj(o -> new CursorProgress.Ack(o, null)).toList());
                keeper.whenKept(NOBODY_WAITS);
                skipped.run();
            }

            @Override
            public void failed(ManagedLedgerException failure) {
                if (isDamage(failure)) {
                    probe(start, next + 1, why, skipped, refused);
                } else {
                    refused.accept(failure);
                }
            }
        });
    }

    /**
     * What to give to a replay of {@code offsets}: a callback that, when the replay fails on damage, reads the entries
     * again one by one and passes over the damaged ones.
     */
    public ReadEntriesCallback replaying(long[] offsets, ReadEntriesCallback callback) {
        return new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                callback.readEntriesComplete(entries, ctx);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                if (ledger.skipsDamaged() && isDamage(exception)) {
                    replay(offsets, 0, new ArrayList<>(), callback, ctx);
                } else {
                    callback.readEntriesFailed(exception, ctx);
                }
            }
        };
    }

    private void replay(long[] offsets, int at, List<Entry> good, ReadEntriesCallback callback, Object ctx) {
        int next = at;
        while (next < offsets.length && progress.isAcked(offsets[next])) {
            next++; // passed over with the one before it
        }
        if (next == offsets.length) {
            callback.readEntriesComplete(good, ctx);
            return;
        }
        int reading = next;
        ledger.read(offsets[reading], 1, Long.MAX_VALUE, offsets[reading] + 1, new CursorLedger.EntriesResult() {
            @Override
            public void entries(List<Entry> entries) {
                good.addAll(entries);
                replay(offsets, reading + 1, good, callback, ctx);
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                at(offsets[reading], exception, () -> replay(offsets, reading + 1, good, callback, ctx), refused -> {
                    good.forEach(Entry::release);
                    callback.readEntriesFailed(refused, ctx);
                });
            }
        });
    }

    private static final CursorKeeper.Completion NOBODY_WAITS = new CursorKeeper.Completion() {
        @Override
        public void done() {
        }

        @Override
        public void failed(ManagedLedgerException exception) {
            log.debug("passing over damaged entries is written with the next change: {}", exception.toString());
        }
    };
}
