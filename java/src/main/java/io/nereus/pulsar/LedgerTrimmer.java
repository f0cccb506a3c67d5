package io.nereus.pulsar;

import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.Rollover;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Asks the native side to let go of what one ledger need not keep any more.
 *
 * <p>Promises: whole parts from the front, a contiguous prefix, a part ending where Pulsar's rollover settings would
 * have closed a ledger; never past a durable cursor's persisted mark-delete or the mark-delete of a live non-durable
 * cursor (L16); a part goes when it is older than the retention time or when what is left without it still fills the
 * retention size, Pulsar's rule. Without any cursor every closed part is subject to that rule. Each pass also closes
 * what time alone closes, so that a quiet ledger is let go too. One pass at a time; requests that arrive meanwhile
 * share the next one. Runs on the ledger's executor.
 */
final class LedgerTrimmer {

    private static final Logger log = LoggerFactory.getLogger(LedgerTrimmer.class);
    private static final long MEGABYTE = 1024 * 1024;

    private final NereusManagedLedger ledger;
    /** A check that was scheduled by a moved cursor and has not started. */
    private final AtomicBoolean checkPending = new AtomicBoolean();
    private List<CompletableFuture<?>> waiting = new ArrayList<>();
    private boolean running;

    LedgerTrimmer(NereusManagedLedger ledger) {
        this.ledger = ledger;
    }

    /** Pulsar's rollover settings in the native side's words. */
    static Rollover rollover(ManagedLedgerConfig config) {
        return new Rollover(config.getMaxEntriesPerLedger(), config.getMaxSizePerLedgerMb() * MEGABYTE,
            config.getMinimumRolloverTimeMs(), config.getMaximumRolloverTimeMs(),
            config.getInactiveLedgerRollOverTimeMs());
    }

    /** Trims soon; any number of calls before it starts make one trim. Any thread. */
    void checkSoon() {
        if (checkPending.compareAndSet(false, true)) {
            ledger.execute(() -> {
                checkPending.set(false);
                trim(new CompletableFuture<>());
            });
        }
    }

    /** Trims; {@code promise} completes with null when it is durable. On the executor. */
    void trim(CompletableFuture<?> promise) {
        ManagedLedgerException refusal = ledger.useRefusal();
        if (refusal != null) {
            promise.completeExceptionally(refusal);
            return;
        }
        waiting.add(promise);
        if (!running) {
            run();
        }
    }

    private void run() {
        List<CompletableFuture<?>> promises = waiting;
        waiting = new ArrayList<>();
        running = true;
        ManagedLedgerConfig config = ledger.getConfig();
        long megabytes = config.getRetentionSizeInMB();
        long maxBytes = megabytes < 0 ? -1 : megabytes * MEGABYTE;
        ledger.retain(consumedEnd(), config.getRetentionTimeMillis(), maxBytes).whenComplete((trim, failure) -> {
            running = false;
            if (failure == null) {
                promises.forEach(promise -> promise.complete(null));
            } else {
                log.warn("[{}] retention failed: {}", ledger.getName(), failure.toString());
                ManagedLedgerException mapped = NativeErrors.toManagedLedgerException(failure);
                promises.forEach(promise -> promise.completeExceptionally(mapped));
            }
            if (!waiting.isEmpty()) {
                run();
            }
        });
    }

    /** Drops what every cursor has acknowledged, whatever retention says; an entry that came since stays. */
    CompletableFuture<Void> trimConsumed() {
        long end = consumedEnd();
        if (end <= ledger.trimOffset()) {
            return CompletableFuture.completedFuture(null);
        }
        return ledger.trimTo(end).handle((trim, failure) -> failure == null
            ? CompletableFuture.<Void>completedFuture(null)
            : CompletableFuture.<Void>failedFuture(ledger.failed(failure))).thenCompose(outcome -> outcome);
    }

    /** Every offset below it is consumed by every cursor; the committed end if there is no cursor. */
    private long consumedEnd() {
        long end = ledger.committedEnd();
        for (ManagedCursor cursor : ledger.getCursors()) {
            end = Math.min(end, ledger.consumedEnd(cursor));
        }
        return end;
    }
}
