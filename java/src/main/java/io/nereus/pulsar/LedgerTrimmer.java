package io.nereus.pulsar;

import io.nereus.pulsar.bridge.NativeErrors;
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
 * Decides how much of one ledger retention lets go, and lets it go.
 *
 * <p>Promises: whole closed spans from the front, a contiguous prefix; never past a durable cursor's persisted
 * mark-delete or the mark-delete of a live non-durable cursor (L16); a span goes when it is older than the retention
 * time or when what is left without it still fills the retention size, Pulsar's rule. Without any cursor every closed
 * span is subject to that rule. One trim at a time; requests that arrive meanwhile share the next one. Runs on the
 * ledger's executor.
 */
final class LedgerTrimmer {

    private static final Logger log = LoggerFactory.getLogger(LedgerTrimmer.class);
    private static final long MEGABYTE = 1024 * 1024;

    private final NereusManagedLedger ledger;
    private final SpanTable spans;
    /** A check that was scheduled by a moved cursor and has not started. */
    private final AtomicBoolean checkPending = new AtomicBoolean();
    private List<CompletableFuture<?>> waiting = new ArrayList<>();
    private boolean running;

    LedgerTrimmer(NereusManagedLedger ledger, SpanTable spans) {
        this.ledger = ledger;
        this.spans = spans;
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
        long target = target();
        if (target <= ledger.trimOffset()) {
            promises.forEach(promise -> promise.complete(null));
            return;
        }
        running = true;
        ledger.trimTo(target).whenComplete((trim, failure) -> {
            running = false;
            if (failure == null) {
                promises.forEach(promise -> promise.complete(null));
            } else {
                log.warn("[{}] could not trim below offset {}: {}", ledger.getName(), target, failure.toString());
                ManagedLedgerException mapped = NativeErrors.toManagedLedgerException(failure);
                promises.forEach(promise -> promise.completeExceptionally(mapped));
            }
            if (!waiting.isEmpty()) {
                run();
            }
        });
    }

    private long target() {
        ManagedLedgerConfig config = ledger.getConfig();
        long retentionMillis = config.getRetentionTimeMillis();
        long retentionMegabytes = config.getRetentionSizeInMB();
        long now = ledger.clock().millis();
        long left = spans.totalBytes();
        long target = 0;
        for (SpanTable.Closed span : spans.closedBelow(consumedEnd())) {
            left -= span.bytes();
            boolean expired = retentionMillis >= 0 && now - span.lastAppendMillis() > retentionMillis;
            boolean overQuota = retentionMegabytes >= 0 && left >= retentionMegabytes * MEGABYTE;
            if (!expired && !overQuota) {
                break;
            }
            target = span.end();
        }
        return target;
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
