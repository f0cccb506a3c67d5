package io.nereus.pulsar;

import io.nereus.pulsar.bridge.CursorState;
import io.nereus.pulsar.bridge.CursorUpdate;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.compat.CursorContainer;
import io.nereus.pulsar.cursor.AckState;
import io.nereus.pulsar.cursor.DurableKeeper;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorNotFoundException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The cursors of one ledger: which exist, which are being made or deleted.
 *
 * <p>Promises: one cursor per name; concurrent opens of a name share one creation, concurrent deletions one deletion, and
 * an open that meets a deletion makes a new cursor after it; a durable cursor is durable before anybody sees it and gone
 * from storage before it is gone from here. A cursor that could not be stored is refused before any effect. Futures complete
 * on the ledger's executor, or at once when there is nothing to do. Thread-safe; the lock is held for look-ups only.
 */
final class LedgerCursors {

    private static final Logger log = LoggerFactory.getLogger(LedgerCursors.class);

    private final NereusManagedLedger ledger;
    private final CursorContainer all = new CursorContainer();
    private final Map<String, CompletableFuture<ManagedCursor>> opening = new HashMap<>();
    private final Map<String, CompletableFuture<Void>> deleting = new HashMap<>();

    LedgerCursors(NereusManagedLedger ledger) {
        this.ledger = ledger;
    }

    CursorContainer all() {
        return all;
    }

    /** Those that are active now. Made for the caller: nobody asks often, and every ledger would keep one. */
    CursorContainer active() {
        CursorContainer active = new CursorContainer();
        for (ManagedCursor cursor : all.asPulsar()) {
            if (cursor.isActive()) {
                active.add(cursor, null);
            }
        }
        return active;
    }

    /** Adds the durable cursors found at open. */
    void recover(List<CursorState> states) {
        for (CursorState state : states) {
            addDurable(state).getStats().addReadCursorLedgerSize(DurableKeeper.bytes(state.pages()));
        }
    }

    private ManagedCursor addDurable(CursorState state) {
        // what was trimmed is acknowledged for good, also for a cursor that was stored further back
        long markDeleteEnd = Math.max(state.markDeleteEnd(), ledger.trimOffset());
        NereusManagedCursor cursor = NereusManagedCursor.recovered(ledger, new CursorState(state.name(), markDeleteEnd,
            state.positionProperties(), state.cursorProperties(), state.pages()), this::persist);
        synchronized (this) {
            all.add(cursor, cursor.getMarkDeletedPosition());
        }
        cursor.setActive();
        return cursor;
    }

    /** Persists a change of a cursor; one that is refused as fenced fences the ledger. Completes on the executor. */
    private CompletableFuture<Void> persist(CursorUpdate update) {
        return ledger.stream().persistCursor(update).whenComplete((ignored, failure) -> {
            if (failure != null) {
                ledger.failed(failure);
            }
        });
    }

    /**
     * Opens or creates a durable cursor.
     *
     * @param markDeleteEnd where a new cursor starts: everything below is acknowledged
     */
    CompletableFuture<ManagedCursor> open(String name, long markDeleteEnd, Map<String, Long> positionProperties,
                                          Map<String, String> cursorProperties) {
        ManagedLedgerException refusal = refusal(name, positionProperties, cursorProperties);
        if (refusal != null) {
            return CompletableFuture.failedFuture(refusal);
        }
        CompletableFuture<ManagedCursor> created = new CompletableFuture<>();
        CompletableFuture<Void> deletion;
        synchronized (this) {
            deletion = deleting.get(name);
            if (deletion == null) {
                ManagedCursor existing = all.get(name);
                if (existing != null) {
                    return CompletableFuture.completedFuture(existing);
                }
                CompletableFuture<ManagedCursor> underWay = opening.putIfAbsent(name, created);
                if (underWay != null) {
                    return underWay;
                }
            }
        }
        if (deletion != null) { // the one that goes is of no use to anybody; a deletion that failed brings it back
            return deletion.handle((gone, failure) -> name)
                .thenCompose(again -> open(again, markDeleteEnd, positionProperties, cursorProperties));
        }
        CursorState initial =
            new CursorState(name, markDeleteEnd, positionProperties, cursorProperties, List.of());
        ledger.stream()
            .persistCursor(new CursorUpdate(name, true, true, markDeleteEnd, positionProperties, cursorProperties,
                List.of()))
            .thenApply(ignored -> addDurable(initial))
            .whenComplete((cursor, failure) -> {
                synchronized (this) {
                    opening.remove(name);
                }
                if (failure == null) {
                    log.info("[{}] created cursor {} at {}", ledger.getName(), name, cursor.getMarkDeletedPosition());
                    created.complete(cursor);
                } else {
                    created.completeExceptionally(ledger.failed(failure));
                }
            });
        return created;
    }

    /** Why such a cursor cannot be stored, or null if it can. */
    private static ManagedLedgerException refusal(String name, Map<String, Long> positionProperties,
                                                  Map<String, String> cursorProperties) {
        if (!StandardCharsets.UTF_8.newEncoder().canEncode(name)) {
            return new ManagedLedgerException("the cursor name " + name + " is no valid Unicode text");
        }
        return PropertyEdits.hasNull(positionProperties) || PropertyEdits.hasNull(cursorProperties)
            ? new ManagedLedgerException("a property of cursor " + name + " has no name or no value") : null;
    }

    /**
     * Returns the cursor of that name, or makes a non-durable one that starts after {@code markDeleteEnd}.
     *
     * @throws ManagedLedgerException if a durable cursor of that name is being made or deleted: try again
     */
    synchronized ManagedCursor openNonDurable(String name, long markDeleteEnd, boolean readCompacted)
            throws ManagedLedgerException {
        if (opening.containsKey(name) || deleting.containsKey(name)) {
            throw new ManagedLedgerException("a durable cursor " + name + " of ledger " + ledger.getName()
                + " is being made or deleted");
        }
        ManagedCursor existing = all.get(name);
        if (existing != null) {
            return existing;
        }
        return addNonDurable(new NereusNonDurableCursor(ledger, name, new AckState(markDeleteEnd), readCompacted));
    }

    /** Makes a non-durable cursor that has acknowledged {@code acks}, which it takes over; its name must be free. */
    synchronized ManagedCursor addDuplicate(String name, AckState acks) throws ManagedLedgerException {
        if (opening.containsKey(name) || deleting.containsKey(name) || all.get(name) != null) {
            throw new ManagedLedgerException("ledger " + ledger.getName() + " has a cursor " + name
                + " already, it cannot become a copy of another one");
        }
        return addNonDurable(new NereusNonDurableCursor(ledger, name, acks, false));
    }

    private ManagedCursor addNonDurable(NereusManagedCursor cursor) {
        cursor.setActive();
        all.add(cursor, null);
        cursor.ledgerTrimmed(ledger.trimOffset()); // a trim since it was made has not met it here (case 47)
        return cursor;
    }

    /** Deletes a cursor; fails with {@link CursorNotFoundException} if there is none. */
    CompletableFuture<Void> delete(String name) {
        NereusManagedCursor cursor;
        CompletableFuture<Void> done = new CompletableFuture<>();
        synchronized (this) {
            cursor = (NereusManagedCursor) all.get(name);
            if (cursor == null) {
                return CompletableFuture.failedFuture(new CursorNotFoundException("ManagedCursor not found: " + name));
            }
            CompletableFuture<Void> underWay = cursor.isDurable() ? deleting.putIfAbsent(name, done) : null;
            if (underWay != null) {
                return underWay;
            }
            if (!cursor.isDurable()) {
                all.remove(name); // at once: a reader that comes back under its name needs one that works
            }
        }
        cursor.setInactive();
        if (!cursor.isDurable()) {
            return close(cursor);
        }
        deleteDurable(cursor).whenComplete((ignored, failure) -> {
            synchronized (this) {
                deleting.remove(name);
                if (failure == null) {
                    all.remove(name);
                }
            }
            if (failure == null) {
                done.complete(null);
            } else {
                done.completeExceptionally(ledger.failed(failure));
            }
        });
        return done;
    }

    private CompletableFuture<Void> deleteDurable(NereusManagedCursor cursor) {
        if (!cursor.startDeleting()) {
            return CompletableFuture.failedFuture(
                new CursorNotFoundException("ManagedCursor was deleted: " + cursor.getName()));
        }
        return ledger.stream().deleteCursor(cursor.getName()).handle((ignored, failure) -> {
            boolean gone = failure == null || NativeErrors.codeOf(failure) == NativeErrors.NOT_FOUND;
            cursor.finishDeleting(gone);
            return gone ? CompletableFuture.<Void>completedFuture(null) : CompletableFuture.<Void>failedFuture(failure);
        }).thenCompose(outcome -> outcome);
    }

    /** Closes all cursors; completes when the last one is, exceptionally if one could not persist its state. */
    CompletableFuture<Void> closeAll() {
        List<CompletableFuture<Void>> closing = new ArrayList<>();
        for (ManagedCursor cursor : all.asPulsar()) {
            closing.add(close(cursor));
        }
        return CompletableFuture.allOf(closing.toArray(CompletableFuture[]::new));
    }

    /** The ledger is gone: no cursor may persist any more, and none is left here. */
    void forgetAll() {
        for (ManagedCursor cursor : all.asPulsar()) {
            if (cursor.isDurable() && cursor instanceof NereusManagedCursor durable && durable.startDeleting()) {
                durable.finishDeleting(true);
            } else {
                close(cursor);
            }
            all.remove(cursor.getName());
        }
    }

    private static CompletableFuture<Void> close(ManagedCursor cursor) {
        CompletableFuture<Void> closed = new CompletableFuture<>();
        cursor.asyncClose(new CloseCallback() {
            @Override
            public void closeComplete(Object ctx) {
                closed.complete(null);
            }

            @Override
            public void closeFailed(ManagedLedgerException exception, Object ctx) {
                closed.completeExceptionally(exception);
            }
        }, null);
        return closed;
    }

    /** Sum over all cursors of the entries they have not acknowledged; O(cursors), reads nothing. */
    long backlogEntries() {
        long sum = 0;
        for (ManagedCursor cursor : all.asPulsar()) {
            sum += cursor.getNumberOfEntriesInBacklog(false);
        }
        return sum;
    }
}
