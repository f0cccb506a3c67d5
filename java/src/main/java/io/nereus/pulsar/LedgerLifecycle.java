package io.nereus.pulsar;

import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerTerminatedException;

/**
 * The state of one ledger and the legal moves between states.
 *
 * <p>Promises: fenced, deleting and closed are never left for a working state (L5); what each state refuses has the
 * exception type on which the broker decides: fenced closes the topic, already-closed makes it resume or close,
 * terminated tells the producer. Thread-safe; holds no lock while calling anything.
 */
final class LedgerLifecycle {

    private final String ledgerName;
    private volatile LedgerState state;

    LedgerLifecycle(String ledgerName, boolean terminated) {
        this.ledgerName = ledgerName;
        this.state = terminated ? LedgerState.TERMINATED : LedgerState.OPEN;
    }

    LedgerState state() {
        return state;
    }

    /** What an append has to fail with now, or null if it may go on. */
    ManagedLedgerException appendRefusal() {
        return switch (state) {
            case OPEN -> null;
            case WRITE_FAILED -> new ManagedLedgerAlreadyClosedException("ledger " + ledgerName
                + " waits until the writes before a failed one are settled");
            case TERMINATING, TERMINATED -> new ManagedLedgerTerminatedException("ledger " + ledgerName
                + " was terminated");
            case FENCED, DELETING -> fenced();
            case CLOSED -> closed();
        };
    }

    /** What a read or a cursor operation has to fail with now, or null if it may go on. */
    ManagedLedgerException useRefusal() {
        return switch (state) {
            case OPEN, WRITE_FAILED, TERMINATING, TERMINATED -> null;
            case FENCED, DELETING -> fenced();
            case CLOSED -> closed();
        };
    }

    private ManagedLedgerException fenced() {
        return new ManagedLedgerFencedException("ledger " + ledgerName
            + (state == LedgerState.DELETING ? " is being deleted" : " was taken or deleted by another broker"));
    }

    private ManagedLedgerException closed() {
        return new ManagedLedgerAlreadyClosedException("ledger " + ledgerName + " was already closed");
    }

    /** Another owner was seen. Returns whether this call made the move. */
    synchronized boolean fence() {
        if (state.isUnusable()) {
            return false;
        }
        state = LedgerState.FENCED;
        return true;
    }

    /** An append failed. */
    synchronized void writeFailed() {
        if (state == LedgerState.OPEN) {
            state = LedgerState.WRITE_FAILED;
        }
    }

    /** The stream accepts appends again. */
    synchronized void resumed() {
        if (state == LedgerState.WRITE_FAILED) {
            state = LedgerState.OPEN;
        }
    }

    /** Returns whether termination may begin. */
    synchronized boolean beginTerminate() {
        if (state != LedgerState.OPEN && state != LedgerState.WRITE_FAILED) {
            return false;
        }
        state = LedgerState.TERMINATING;
        return true;
    }

    /** Termination is durable, or failed and left the ledger as it was. */
    synchronized void endTerminate(boolean terminated) {
        if (state == LedgerState.TERMINATING) {
            state = terminated ? LedgerState.TERMINATED : LedgerState.OPEN;
        }
    }

    /** Returns the state before; the ledger is closed afterwards unless it was already unusable. */
    synchronized LedgerState close() {
        LedgerState before = state;
        if (!before.isUnusable()) {
            state = LedgerState.CLOSED;
        }
        return before;
    }

    /** Deletion begins; legal from every state. */
    synchronized void delete() {
        state = LedgerState.DELETING;
    }
}
