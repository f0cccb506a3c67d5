package io.nereus.pulsar;

import java.util.concurrent.CompletableFuture;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;

/**
 * Looks for the last entry at or before a position that satisfies a predicate, entry by entry, towards the front.
 *
 * <p>Promises: the future completes once: with the entry's position, or, when the search runs out of entries, with the
 * invalid position it ended at, as stock does. Releases every entry it reads; the predicate only looks.
 */
final class BackwardSearch implements ReadEntryCallback {

    private final NereusManagedLedger ledger;
    private final Predicate<Entry> predicate;
    private final CompletableFuture<Position> found;

    BackwardSearch(NereusManagedLedger ledger, Predicate<Entry> predicate, CompletableFuture<Position> found) {
        this.ledger = ledger;
        this.predicate = predicate;
        this.found = found;
    }

    void from(Position position) {
        if (!ledger.isValidPosition(position)) {
            found.complete(position);
        } else {
            ledger.asyncReadEntry(position, this, null);
        }
    }

    @Override
    public void readEntryComplete(Entry entry, Object ctx) {
        Position position = entry.getPosition();
        boolean matches;
        try {
            matches = predicate.test(entry);
        } catch (RuntimeException | Error e) {
            found.completeExceptionally(e);
            return;
        } finally {
            entry.release();
        }
        if (matches) {
            found.complete(position);
        } else {
            from(ledger.getPreviousPosition(position));
        }
    }

    @Override
    public void readEntryFailed(ManagedLedgerException exception, Object ctx) {
        found.completeExceptionally(exception);
    }
}
