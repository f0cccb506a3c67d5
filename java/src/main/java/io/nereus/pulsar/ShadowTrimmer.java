package io.nereus.pulsar;

import io.nereus.pulsar.bridge.StreamState;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;

/**
 * What a shadow topic lets go of: whatever its source has let go of, and nothing else. Neither its retention nor a
 * truncation of it touches the source; its cursors do not keep the source's entries, as in stock.
 */
final class ShadowTrimmer extends LedgerTrimmer {

    private final NereusManagedLedger ledger;
    private final LedgerExtent extent;
    private final ShadowSource source;

    ShadowTrimmer(NereusManagedLedger ledger, LedgerExtent extent, ShadowSource source) {
        super(ledger, extent);
        this.ledger = ledger;
        this.extent = extent;
        this.source = source;
    }

    @Override
    CompletableFuture<Long> retain(long consumed, long maxAgeMillis, long maxBytes) {
        return follow();
    }

    @Override
    CompletableFuture<Long> trimTo(long offset) {
        return follow();
    }

    /** Takes over how far the source is trimmed; fences the ledger if there is no source any more. On the executor. */
    CompletableFuture<Long> follow() {
        StreamState now = source.state();
        if (now == null) {
            ledger.sourceLost();
            return CompletableFuture.failedFuture(new ManagedLedgerFencedException("ledger " + source.name()
                + ", which " + ledger.getName() + " shadows, was deleted"));
        }
        if (now.trim() > extent.committedEnd()) {
            extent.reached(now.trim() - 1, 0, now.lastAppendMillis()); // gone before we were told of it
        }
        return told(CompletableFuture.completedFuture(now.trim()));
    }
}
