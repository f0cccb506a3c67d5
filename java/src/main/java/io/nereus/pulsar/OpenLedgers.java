package io.nereus.pulsar;

import io.nereus.pulsar.bridge.NativeErrors;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFactoryClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerNotFoundException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The open ledgers of one factory by name, and what an open, close or deletion of a name follows.
 *
 * <p>Promises: one instance per name; concurrent opens share one; a failed open is forgotten; an open waits until a
 * close or deletion of the same name has ended; a ledger is forgotten before its close or deletion is reported; after
 * {@link #close()} nothing opens any more, and what still arrives is closed. Does not: know how a ledger is opened.
 */
final class OpenLedgers {

    private static final Logger log = LoggerFactory.getLogger(OpenLedgers.class);

    /** Opens a ledger that is not open; the failure has the type that Pulsar is to see. */
    interface Opener {
        CompletableFuture<NereusManagedLedger> open(String name, ManagedLedgerConfig config);
    }

    /** An open under way or done; the first one to complete the result decides. */
    private record Opening(CompletableFuture<NereusManagedLedger> result, long startedNanos) {

        /** The ledger, or null while it is being opened and when that failed. */
        NereusManagedLedger opened() {
            return result.isDone() && !result.isCompletedExceptionally() ? result.join() : null;
        }
    }

    private final Opener opener;
    private final Function<String, CompletableFuture<Void>> deleteStored;
    private final Map<String, Opening> ledgers = new ConcurrentHashMap<>();
    /** Closes and deletions under way; the next open of the name waits for them. */
    private final Map<String, CompletableFuture<Void>> ending = new ConcurrentHashMap<>();
    /** Held, shortly, to decide what follows what; nothing is called under it. */
    private final Object names = new Object();
    private volatile boolean closed;

    /**
     * Makes an empty map.
     *
     * @param deleteStored deletes what is stored under a name that is not open
     */
    OpenLedgers(Opener opener, Function<String, CompletableFuture<Void>> deleteStored) {
        this.opener = opener;
        this.deleteStored = deleteStored;
    }

    boolean isClosed() {
        return closed;
    }

    static <T> CompletableFuture<T> refusal() {
        return CompletableFuture.failedFuture(new ManagedLedgerFactoryClosedException());
    }

    /** Opens a ledger, or joins the open of its name that is under way or done. */
    CompletableFuture<NereusManagedLedger> open(String name, ManagedLedgerConfig config,
                                                Supplier<CompletableFuture<Boolean>> ownershipChecker) {
        Opening mine = new Opening(new CompletableFuture<>(), System.nanoTime());
        Opening joined;
        CompletableFuture<Void> before;
        synchronized (names) {
            if (closed) {
                return refusal();
            }
            forgetUnusable(name);
            joined = ledgers.putIfAbsent(name, mine);
            before = ending.get(name);
        }
        if (joined == null) {
            start(name, config, ownershipChecker, mine, before);
            return mine.result();
        }
        boolean hung = System.nanoTime() - joined.startedNanos()
            > TimeUnit.SECONDS.toNanos(config.getMetadataOperationsTimeoutSeconds());
        return joined.result().exceptionallyCompose(failure -> {
            // what we joined may have been an open that must not create what we may create, or one that was hung
            boolean again = hung || config.isCreateIfMissing()
                && NativeErrors.toManagedLedgerException(failure) instanceof ManagedLedgerNotFoundException;
            return again ? open(name, config, ownershipChecker) : CompletableFuture.failedFuture(failure);
        });
    }

    /** A fenced or closed instance never works again: the next open replaces it. */
    private void forgetUnusable(String name) {
        Opening known = ledgers.get(name);
        if (known != null && known.result().isDone() && (known.opened() == null || known.opened().isClosed())) {
            ledgers.remove(name, known);
        }
    }

    private void start(String name, ManagedLedgerConfig config, Supplier<CompletableFuture<Boolean>> ownershipChecker,
                       Opening opening, CompletableFuture<Void> before) {
        settled(before)
            .thenCompose(ignored -> checkOwner(name, ownershipChecker))
            .thenCompose(ignored -> opener.open(name, config))
            .whenComplete((ledger, failure) -> {
                if (failure != null) {
                    ledgers.remove(name, opening);
                    opening.result().completeExceptionally(NativeErrors.toManagedLedgerException(failure));
                } else if (opening.result().complete(ledger)) {
                    log.info("[{}] opened, last {}", name, ledger.getLastConfirmedEntry());
                } else { // the factory was closed meanwhile
                    ledger.asyncClose(Callbacks.closed(new CompletableFuture<>()), null);
                }
            });
    }

    /** Completes, never exceptionally, when a close or deletion that came before has ended; null if there was none. */
    private static CompletableFuture<Void> settled(CompletableFuture<Void> before) {
        return before == null ? CompletableFuture.completedFuture(null) : before.handle((ignored, failure) -> null);
    }

    private static CompletableFuture<Void> checkOwner(String name,
                                                      Supplier<CompletableFuture<Boolean>> ownershipChecker) {
        if (ownershipChecker == null) {
            return CompletableFuture.completedFuture(null);
        }
        return ownershipChecker.get().thenCompose(owned -> owned ? CompletableFuture.<Void>completedFuture(null)
            : CompletableFuture.failedFuture(new ManagedLedgerException("ledger " + name
                + " is not opened: this broker does not own its topic any more")));
    }

    /** {@code ledger} will not serve any more; {@code end} completes when its stream is released. */
    void closing(NereusManagedLedger ledger, CompletableFuture<Void> end) {
        String name = ledger.getName();
        synchronized (names) {
            ending.put(name, end);
            Opening known = ledgers.get(name);
            if (known != null && known.opened() == ledger) {
                ledgers.remove(name, known);
            }
        }
        end.whenComplete((ignored, failure) -> ending.remove(name, end));
    }

    /** The ledgers that are open now; a map of the caller's own. */
    Map<String, ManagedLedger> byName() {
        Map<String, ManagedLedger> open = new HashMap<>();
        ledgers.forEach((name, opening) -> {
            NereusManagedLedger ledger = opening.opened();
            if (ledger != null) {
                open.put(name, ledger);
            }
        });
        return open;
    }

    /** Deletes a ledger, through its instance if it is open or being opened. */
    CompletableFuture<Void> delete(String name) {
        CompletableFuture<Void> mine = new CompletableFuture<>();
        Opening open;
        CompletableFuture<Void> before;
        synchronized (names) {
            if (closed) {
                return refusal();
            }
            forgetUnusable(name);
            open = ledgers.get(name);
            before = open == null ? ending.put(name, mine) : null;
        }
        if (open == null) {
            settled(before).thenCompose(ignored -> deleteStored.apply(name)).whenComplete((ignored, failure) -> {
                ending.remove(name, mine);
                if (failure == null) {
                    mine.complete(null);
                } else {
                    mine.completeExceptionally(failure);
                }
            });
            return mine;
        }
        return open.result().handle((ledger, failure) -> {
            if (failure != null) { // it was forgotten by now, and what is stored is still to be deleted
                return delete(name);
            }
            ledger.asyncDelete(Callbacks.deleted(mine), null);
            return mine;
        }).thenCompose(Function.identity());
    }

    /**
     * Lets nothing open any more, fails the opens under way and closes what is open.
     *
     * @return completes, never exceptionally, when every close and deletion under way has ended
     */
    CompletableFuture<Void> close() throws ManagedLedgerFactoryClosedException {
        List<CompletableFuture<?>> ends;
        List<Opening> openings;
        synchronized (names) {
            if (closed) {
                throw new ManagedLedgerFactoryClosedException();
            }
            closed = true;
            ends = new ArrayList<>(ending.values());
            openings = new ArrayList<>(ledgers.values());
        }
        for (Opening opening : openings) {
            opening.result().completeExceptionally(new ManagedLedgerFactoryClosedException());
            NereusManagedLedger ledger = opening.opened();
            if (ledger != null) {
                CompletableFuture<Void> end = new CompletableFuture<>();
                ledger.asyncClose(Callbacks.closed(end), null);
                ends.add(end);
            }
        }
        log.info("closing {} ledgers", ends.size());
        return CompletableFuture.allOf(ends.stream().map(end -> end.handle((ignored, failure) -> {
            if (failure != null) {
                log.warn("a ledger did not close cleanly: {}", failure.toString());
            }
            return null;
        })).toArray(CompletableFuture[]::new));
    }
}
