package io.nereus.pulsar;

import io.nereus.pulsar.cursor.CursorKeeper;
import io.nereus.pulsar.cursor.WaitingRead;
import java.util.ArrayList;
import java.util.List;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whether one cursor is open, and how it ends.
 *
 * <p>Promises: closing fails the read that waits, then succeeds when everything acknowledged before is kept, and only
 * then; a close that failed leaves the cursor closed to new work and may be tried again. Deletion stops every further
 * write, and can be taken back if it failed. Callbacks run on the ledger's executor. Thread-safe.
 */
final class CursorLifecycle {

    private static final Logger log = LoggerFactory.getLogger(CursorLifecycle.class);

    private final String name;
    private final NereusManagedLedger ledger;
    private final CursorKeeper keeper;
    private final WaitingRead waitingRead;
    private State state = State.OPEN;
    /** Callers of the close under way; null if none is. */
    private List<Close> closing;

    CursorLifecycle(String name, NereusManagedLedger ledger, CursorKeeper keeper, WaitingRead waitingRead) {
        this.name = name;
        this.ledger = ledger;
        this.keeper = keeper;
        this.waitingRead = waitingRead;
    }

    synchronized boolean isClosed() {
        return state != State.OPEN;
    }

    /** Pulsar's name of the state, for statistics. */
    synchronized String stateName() {
        return state.stockName;
    }

    void close(CloseCallback callback, Object ctx) {
        synchronized (this) {
            if (state == State.OPEN || state == State.CLOSING) {
                boolean first = closing == null;
                if (first) {
                    closing = new ArrayList<>();
                    state = State.CLOSING;
                }
                closing.add(new Close(callback, ctx));
                if (!first) {
                    return;
                }
            } else {
                ledger.execute(() -> callback.closeComplete(ctx));
                return;
            }
        }
        waitingRead.close();
        keeper.flush(new CursorKeeper.Completion() {
            @Override
            public void done() {
                endClose(null);
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                endClose(exception);
            }
        });
    }

    private void endClose(ManagedLedgerException failure) {
        List<Close> callers;
        boolean failed;
        synchronized (this) {
            callers = closing;
            closing = null;
            failed = failure != null && state == State.CLOSING; // of a deleted cursor there is nothing to keep
            if (failure == null && state == State.CLOSING) {
                state = State.CLOSED;
                keeper.stop(closedException());
            }
        }
        if (failed) {
            log.warn("[{}] cursor {} could not be closed, its last acknowledgements are not durable: {}",
                    ledger.getName(), name, failure.toString());
        }
        for (Close caller : callers) {
            if (failed) {
                caller.callback().closeFailed(failure, caller.ctx());
            } else {
                caller.callback().closeComplete(caller.ctx());
            }
        }
    }

    /** Stops the cursor for good; answers false if that has begun before. */
    boolean startDeleting() {
        synchronized (this) {
            if (state == State.DELETING || state == State.DELETED) {
                return false;
            }
            state = State.DELETING;
        }
        waitingRead.close();
        keeper.stop(new CursorAlreadyClosedException("cursor " + name + " of " + ledger.getName() + " was deleted"));
        return true;
    }

    /** Ends what {@link #startDeleting()} began; a cursor that could not be deleted works again. */
    void finishDeleting(boolean deleted) {
        synchronized (this) {
            state = deleted ? State.DELETED : State.OPEN;
        }
        if (!deleted) {
            waitingRead.reopen();
            keeper.resume();
        }
    }

    private CursorAlreadyClosedException closedException() {
        return new CursorAlreadyClosedException("cursor " + name + " of " + ledger.getName() + " is closed");
    }

    private record Close(CloseCallback callback, Object ctx) {
    }

    private enum State {
        OPEN("Open"), CLOSING("Closing"), CLOSED("Closed"), DELETING("Deleting"), DELETED("Deleted");

        private final String stockName;

        State(String stockName) {
            this.stockName = stockName;
        }
    }
}
