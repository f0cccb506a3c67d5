package io.nereus.pulsar;

import io.nereus.pulsar.cursor.AckState;
import io.nereus.pulsar.cursor.CursorProgress;
import io.nereus.pulsar.cursor.VolatileKeeper;
import java.util.Map;

/**
 * The cursor of a reader: like a durable one, but nothing of it outlives it, so an acknowledgement is answered at once.
 *
 * <p>A reader asks for the last message id, and reads until it has met it. So the last entry, which stays readable by
 * position when everything is trimmed, is there for a reader that has not had it (case 93).
 *
 * <p>While it lives it holds back trimming like any other. One that reads compacted data stays where it is when the
 * ledger is trimmed: what it still has to read of the trimmed part lies in the compacted view.
 */
final class NereusNonDurableCursor extends NereusManagedCursor {

    private final boolean readCompacted;

    /**
     * @param acks what counts as acknowledged; reading starts at the first entry that does not
     */
    NereusNonDurableCursor(NereusManagedLedger ledger, String name, AckState acks, boolean readCompacted) {
        super(ledger, name, new CursorProgress(ledger, acks, ledger::firstKept),
                (progress, stats, moved, rate) -> new VolatileKeeper(ledger, progress, Map.of(), moved));
        this.readCompacted = readCompacted;
    }

    @Override
    public boolean isDurable() {
        return false;
    }

    @Override
    void ledgerTrimmed(long trim) {
        if (!readCompacted) {
            super.ledgerTrimmed(Math.min(trim, ledger.firstKept()));
        }
    }
}
