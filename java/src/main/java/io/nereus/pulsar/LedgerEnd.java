package io.nereus.pulsar;

import io.nereus.pulsar.bridge.NativeStream;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.Position;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The ways in which one ledger ends: terminated, migrated, closed, deleted.
 *
 * <p>Promises: an end is durable before it is told, and every append and read under way has been answered by then; a
 * close or a termination under way answers all who ask; after a close or a deletion the factory has forgotten this instance. Futures
 * complete on the ledger's executor, or at once when nothing is left to do.
 */
final class LedgerEnd {

    private static final Logger log = LoggerFactory.getLogger(LedgerEnd.class);
    private static final String MIGRATED = "migrated";

    private final NereusManagedLedger ledger;
    private final NereusManagedLedgerFactory factory;
    private final String name;
    private final NativeStream stream;
    private final LedgerLifecycle lifecycle;
    private final Adds pendingAdds;
    private final LedgerCursors cursors;
    private final WaitingCursors waitingCursors;
    private final LedgerProperties properties;
    private final CompletableFuture<Void> closed = new CompletableFuture<>();
    /** Outcome of the termination that began last, shared by all who ask; null before. Guarded by this. */
    private CompletableFuture<Position> terminating;
    /** The termination under way is that of a migration, whose mark may not be durable yet. */
    private volatile boolean migrating;

    LedgerEnd(NereusManagedLedger ledger, NereusManagedLedgerFactory factory, LedgerLifecycle lifecycle,
              Adds pendingAdds, LedgerCursors cursors, WaitingCursors waitingCursors,
              LedgerProperties properties) {
        this.ledger = ledger;
        this.factory = factory;
        this.name = ledger.getName();
        this.stream = ledger.stream();
        this.lifecycle = lifecycle;
        this.pendingAdds = pendingAdds;
        this.cursors = cursors;
        this.waitingCursors = waitingCursors;
        this.properties = properties;
    }

    /** Refuses every later append, from now on and for good; answers the last entry. */
    CompletableFuture<Position> terminate() {
        return end(() -> CompletableFuture.completedFuture(null));
    }

    /**
     * Terminates the ledger and marks it as moved to another cluster. The mark is durable first, so that producers are
     * sent there and not told that the topic has ended.
     */
    CompletableFuture<Position> migrate() {
        if (ledger.source() != null) {
            return terminate();
        }
        migrating = true;
        return end(() -> properties.update(map -> map.put(MIGRATED, Boolean.TRUE.toString())))
            .whenComplete((last, failure) -> migrating = false);
    }

    boolean isMigrated() {
        return lifecycle.state() == LedgerState.TERMINATING ? migrating
            : ledger.isTerminated() && properties.current().containsKey(MIGRATED);
    }

    /** Refuses appends, carries out {@code first}, and terminates; appends are accepted again if either fails. */
    private CompletableFuture<Position> end(Supplier<CompletableFuture<?>> first) {
        ManagedLedgerException refusal = lifecycle.useRefusal();
        if (refusal != null) {
            return CompletableFuture.failedFuture(refusal);
        }
        if (ledger.source() != null) {
            return CompletableFuture.failedFuture(new ManagedLedgerException("ledger " + name
                + " is a shadow and ends with its source " + ledger.source().name() + ", never by itself"));
        }
        if (ledger.isTerminated()) {
            return first.get().thenApply(ignored -> ledger.getLastConfirmedEntry());
        }
        CompletableFuture<Position> outcome = new CompletableFuture<>();
        CompletableFuture<Position> shared;
        synchronized (this) {
            if (lifecycle.beginTerminate()) {
                terminating = outcome;
            }
            shared = terminating;
        }
        if (shared == null) {
            return end(first); // closed in between: then it is refused
        }
        if (shared != outcome) {
            return first.get().thenCompose(ignored -> shared);
        }
        first.get().thenCompose(ignored -> stream.terminate()).whenComplete((end, failure) -> {
            lifecycle.endTerminate(failure == null);
            if (failure != null) {
                outcome.completeExceptionally(ledger.failed(failure));
                return;
            }
            Position last = ledger.getLastConfirmedEntry();
            log.info("[{}] terminated at {}", name, last);
            waitingCursors.wakeAll();
            outcome.complete(last);
        });
        return outcome;
    }

    /** Closes the ledger; fails, after closing, if it was fenced or deleted before. */
    CompletableFuture<Void> close() {
        LedgerState before = lifecycle.close();
        if (before != LedgerState.CLOSED) {
            factory.closing(ledger, closed);
            closeAll().whenComplete((ignored, failure) -> {
                if (failure == null) {
                    closed.complete(null);
                } else {
                    closed.completeExceptionally(failure);
                }
            });
        }
        if (!before.isUnusable() || before == LedgerState.CLOSED) {
            return closed;
        }
        return closed.handle((ignored, failure) -> CompletableFuture.<Void>failedFuture(
            new ManagedLedgerFencedException("ledger " + name + " was closed as " + before.stockName())))
            .thenCompose(failed -> failed);
    }

    /** Cursors first, while they can still persist; then the stream, which settles the appends under way. */
    private CompletableFuture<Void> closeAll() {
        return cursors.closeAll().handle((ignored, cursorFailure) -> stream.close().handleAsync((done, failure) -> {
            closeSource();
            pendingAdds.failAll(new ManagedLedgerAlreadyClosedException("ledger " + name + " was already closed"));
            waitingCursors.wakeAll();
            Throwable first = cursorFailure != null ? cursorFailure : failure;
            return first == null ? CompletableFuture.<Void>completedFuture(null)
                : CompletableFuture.<Void>failedFuture(first);
        }, ledger::execute).thenCompose(outcome -> outcome)).thenCompose(outcome -> outcome);
    }

    private void closeSource() {
        if (ledger.source() != null) {
            ledger.source().close();
        }
    }

    /** Deletes the ledger with its cursors and its registry node. */
    CompletableFuture<Void> delete() {
        lifecycle.delete();
        CompletableFuture<Void> deleted = factory.deleteStored(name, ledger.scheduler()).handle((ignored, failure) -> {
            stream.close(); // gives the handle back; it has nothing to say about the deletion
            closeSource();
            ManagedLedgerException reason = new ManagedLedgerFencedException("ledger " + name + " was deleted");
            pendingAdds.failAll(reason);
            cursors.forgetAll();
            waitingCursors.wakeAll();
            return failure == null ? CompletableFuture.<Void>completedFuture(null)
                : CompletableFuture.<Void>failedFuture(failure);
        }).thenCompose(outcome -> outcome);
        factory.closing(ledger, deleted);
        return deleted;
    }
}
