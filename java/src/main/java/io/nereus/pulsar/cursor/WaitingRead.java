package io.nereus.pulsar.cursor;

import java.util.ArrayList;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ConcurrentWaitCallbackException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.NoMoreEntriesToReadException;

/**
 * The one read of a cursor that may wait for entries.
 *
 * <p>Promises: a wait ends exactly once, by starting its read, by a failure, or by {@link #cancel()}, after which its
 * callback is never called. Taking the request out of the slot is the right to end it, so cancel and notification
 * cannot both win. The cursor registers with its ledger before the condition is looked at again: no entry that is
 * committed in between is missed. Nothing polls.
 *
 * <p>A caller whose own limit lies before the read position cannot be served by any new entry, only by asking again
 * with a newer limit. Its wait therefore ends empty, after the delay that Pulsar configures for looking again.
 */
public final class WaitingRead {

    private final CursorLedger ledger;
    private final CursorProgress progress;
    private final Runnable register;
    private final Runnable unregister;
    private final Consumer<ReadRequest> read;
    private final LongSupplier recheckMillis;
    private ReadRequest waiting;
    private boolean closed;

    /**
     * @param register      asks the ledger for one call of {@link #notifyEntriesAvailable()}; idempotent
     * @param unregister    takes the cursor off the ledger's list; both only change that list and call nobody
     * @param read          starts a read now
     * @param recheckMillis how long a caller waits whose limit lies before the read position
     */
    public WaitingRead(CursorLedger ledger, CursorProgress progress, Runnable register, Runnable unregister,
                       Consumer<ReadRequest> read, LongSupplier recheckMillis) {
        this.ledger = ledger;
        this.progress = progress;
        this.register = register;
        this.unregister = unregister;
        this.read = read;
        this.recheckMillis = recheckMillis;
    }

    /** Reads now if there is an entry to read, else when there is one. */
    public void readOrWait(ReadRequest request) {
        ManagedLedgerException refused = null;
        boolean limited = false;
        boolean readNow = false;
        synchronized (this) {
            if (closed) {
                refused = new CursorAlreadyClosedException("the cursor is closed");
            } else if (progress.hasEntries(request.limit())) {
                readNow = true;
            } else if (waiting != null) {
                refused = new ConcurrentWaitCallbackException();
            } else {
                waiting = request;
                limited = progress.hasEntries(Long.MAX_VALUE);
                if (!limited) {
                    register.run();
                }
            }
        }
        if (refused != null) {
            fail(request, refused);
        } else if (readNow) {
            read.accept(request);
        } else if (limited) {
            endEmptyLater(request);
        } else {
            lookAgain();
        }
    }

    /**
     * Looks whether the wait can end now. Called after anything that may have changed that: a registration, the end of
     * the ledger, a read position that moved. Any thread.
     */
    public void lookAgain() {
        ReadRequest request;
        ManagedLedgerException failure = null;
        boolean served;
        synchronized (this) {
            request = waiting;
            if (request == null) {
                return;
            }
            served = progress.hasEntries(request.limit());
            boolean passedOver = !served && progress.hasEntries(Long.MAX_VALUE);
            if (!served && !passedOver) {
                if (ledger.isClosed()) {
                    failure = new CursorAlreadyClosedException("the ledger of the cursor is closed");
                } else if (ledger.isTerminated()) {
                    failure = new NoMoreEntriesToReadException("the topic is terminated and read to its end");
                } else {
                    return;
                }
            }
            endWait();
        }
        if (failure != null) {
            fail(request, failure);
        } else if (served) {
            read.accept(request);
        } else {
            endEmpty(request);
        }
    }

    /** The ledger has entries, or has ended. It has forgotten the cursor by telling it. On the ledger's executor. */
    public void notifyEntriesAvailable() {
        lookAgain();
        synchronized (this) {
            if (waiting == null) {
                return;
            }
            register.run();
        }
        lookAgain(); // what came between the first look and the registration
    }

    /** Ends the wait without a callback; answers whether there was one. */
    public synchronized boolean cancel() {
        if (waiting == null) {
            return false;
        }
        endWait();
        return true;
    }

    /** Whether a read waits now. */
    public synchronized boolean isWaiting() {
        return waiting != null;
    }

    /** Fails the wait, if any, and every later one. */
    public void close() {
        ReadRequest request;
        synchronized (this) {
            closed = true;
            request = waiting;
            endWait();
        }
        if (request != null) {
            fail(request, new CursorAlreadyClosedException("the cursor was closed while a read waited for entries"));
        }
    }

    /** Takes a {@link #close()} back. */
    public synchronized void reopen() {
        closed = false;
    }

    private void endWait() {
        waiting = null;
        unregister.run();
    }

    private synchronized boolean take(ReadRequest request) {
        if (waiting != request) {
            return false;
        }
        endWait();
        return true;
    }

    private void endEmptyLater(ReadRequest request) {
        long delay = Math.max(0, recheckMillis.getAsLong());
        Runnable end = () -> ledger.executor().execute(() -> {
            if (take(request)) {
                request.callback().readEntriesComplete(new ArrayList<>(), request.ctx());
            }
        });
        if (delay == 0) {
            end.run();
            return;
        }
        try {
            ledger.scheduler().schedule(end, delay, TimeUnit.MILLISECONDS);
        } catch (RejectedExecutionException e) {
            end.run(); // everything is being shut down; the caller will find out when it asks again
        }
    }

    private void endEmpty(ReadRequest request) {
        ledger.executor().execute(
                () -> request.callback().readEntriesComplete(new ArrayList<>(), request.ctx()));
    }

    private void fail(ReadRequest request, ManagedLedgerException failure) {
        ledger.executor().execute(() -> request.callback().readEntriesFailed(failure, request.ctx()));
    }
}
