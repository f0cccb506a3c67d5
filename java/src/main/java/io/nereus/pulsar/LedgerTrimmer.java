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
import org.apache.bookkeeper.mledger.Position;
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
class LedgerTrimmer {

    private static final Logger log = LoggerFactory.getLogger(LedgerTrimmer.class);
    private static final long MEGABYTE = 1024 * 1024;

    private final NereusManagedLedger ledger;
    private final LedgerExtent extent;
    /** A check that was scheduled by a moved cursor and has not started. */
    private final AtomicBoolean checkPending = new AtomicBoolean();
    private List<CompletableFuture<?>> waiting = new ArrayList<>();
    private boolean running;

    LedgerTrimmer(NereusManagedLedger ledger, LedgerExtent extent) {
        this.ledger = ledger;
        this.extent = extent;
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
        retain(consumedEnd(), config.getRetentionTimeMillis(), maxBytes).whenComplete((trim, failure) -> {
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

    /** Drops the closed parts below {@code consumed} that need not be kept; a bound below 0 keeps everything. */
    CompletableFuture<Long> retain(long consumed, long maxAgeMillis, long maxBytes) {
        return told(ledger.stream().retain(consumed, maxAgeMillis, maxBytes, ledger.clock().millis()));
    }

    /** Drops everything below {@code offset}; completes, on the executor, when it is durable. */
    CompletableFuture<Long> trimTo(long offset) {
        return told(ledger.stream().trim(offset));
    }

    /** Lets the ledger and its cursors know what is gone, before anybody else hears of it. */
    final CompletableFuture<Long> told(CompletableFuture<Long> trimming) {
        return trimming.whenComplete((trim, failure) -> {
            if (failure != null) {
                ledger.failed(failure);
            } else if (extent.trimmed(trim)) {
                for (ManagedCursor cursor : ledger.getCursors()) {
                    ((NereusManagedCursor) cursor).ledgerTrimmed(trim);
                }
            }
        });
    }

    /** Acknowledges everything for every cursor, then drops it. */
    CompletableFuture<Void> truncate() {
        ManagedLedgerException refusal = ledger.useRefusal();
        if (refusal != null) {
            return CompletableFuture.failedFuture(refusal);
        }
        List<CompletableFuture<Void>> cleared = new ArrayList<>();
        for (ManagedCursor cursor : ledger.getCursors()) {
            CompletableFuture<Void> one = new CompletableFuture<>();
            cursor.asyncClearBacklog(Callbacks.cleared(one), null);
            cleared.add(one);
        }
        return CompletableFuture.allOf(cleared.toArray(CompletableFuture[]::new))
            .thenComposeAsync(ignored -> trimConsumed(), ledger::execute);
    }

    /** Drops what every cursor has acknowledged, whatever retention says; an entry that came since stays. */
    private CompletableFuture<Void> trimConsumed() {
        long end = consumedEnd();
        if (end <= extent.trimOffset()) {
            return CompletableFuture.completedFuture(null);
        }
        return trimTo(end).handle((trim, failure) -> failure == null
            ? CompletableFuture.<Void>completedFuture(null)
            : CompletableFuture.<Void>failedFuture(ledger.failed(failure))).thenCompose(outcome -> outcome);
    }

    /** Every offset below it is consumed by every cursor; the committed end if there is no cursor. */
    private long consumedEnd() {
        long end = extent.committedEnd();
        for (ManagedCursor cursor : ledger.getCursors()) {
            end = Math.min(end, consumedEnd(cursor));
        }
        return end;
    }

    /** Every offset below it is acknowledged by {@code cursor}, and durably so if the cursor is durable. */
    private long consumedEnd(ManagedCursor cursor) {
        Position acknowledged =
            cursor.isDurable() ? cursor.getPersistentMarkDeletedPosition() : cursor.getMarkDeletedPosition();
        return acknowledged == null ? 0 : extent.navigator().offsetAfter(acknowledged);
    }
}
