package io.nereus.pulsar;

import io.nereus.pulsar.bridge.NativeErrors;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.bookkeeper.mledger.ManagedLedgerException;

/** Blocks the caller of Pulsar's synchronous methods on the asynchronous ones. Never used on a ledger's executor. */
final class Waiting {

    /** What stock allows a synchronous call. */
    static final long TIMEOUT_SECONDS = 30;

    private Waiting() {
    }

    /**
     * Refuses a wait that could only end by its time-out, because the answer would come on the thread that waits.
     *
     * @param answersHere whether the caller is on the thread on which {@code future} completes
     */
    static void checkCanWait(CompletableFuture<?> future, String what, boolean answersHere)
            throws ManagedLedgerException {
        if (answersHere && !future.isDone()) {
            throw new ManagedLedgerException(what + " was called in a callback on the thread of the ledger and would"
                + " wait for itself: use the asynchronous call; what was asked for goes on");
        }
    }

    /** Waits at most {@link #TIMEOUT_SECONDS}; {@code what} names the operation in the time-out's message. */
    static <T> T forResult(CompletableFuture<T> future, String what)
            throws InterruptedException, ManagedLedgerException {
        try {
            return future.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw NativeErrors.toManagedLedgerException(e);
        } catch (TimeoutException e) {
            throw new ManagedLedgerException("Timeout after " + TIMEOUT_SECONDS + " s during " + what, e);
        }
    }

    /** Waits as long as it takes: an append has no time-out, because its outcome must be known (L6). */
    static <T> T forOutcome(CompletableFuture<T> future) throws InterruptedException, ManagedLedgerException {
        try {
            return future.get();
        } catch (ExecutionException e) {
            throw NativeErrors.toManagedLedgerException(e);
        }
    }
}
