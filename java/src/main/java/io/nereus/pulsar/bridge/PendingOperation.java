package io.nereus.pulsar.bridge;

import java.util.concurrent.Executor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One operation between its native call and its outcome. Whoever takes it out of the reactor's table has the right, and
 * the duty, to give it its outcome; it then runs once on its executor.
 */
abstract class PendingOperation implements Runnable {

    private static final Logger log = LoggerFactory.getLogger(PendingOperation.class);

    private final Executor executor;
    private long a;
    private long b;
    private long c;
    private NativeException failure;

    PendingOperation(Executor executor) {
        this.executor = executor;
    }

    /** Delivers success, on the executor; what it throws before it has told anybody becomes the failure. */
    abstract void succeeded(long first, long second, long third) throws NativeException;

    /** Delivers failure, on the executor. */
    abstract void failed(NativeException cause);

    /** Names the operation in messages. */
    abstract String what();

    /** Code of an operation that the native side can no longer answer. */
    int lostCode() {
        return NativeErrors.CLOSED;
    }

    /** Hands a success over to the executor. */
    final void succeed(long first, long second, long third, Executor fallback) {
        a = first;
        b = second;
        c = third;
        handOver(fallback);
    }

    /** Hands a failure over to the executor. */
    final void fail(NativeException cause, Executor fallback) {
        failure = cause;
        handOver(fallback);
    }

    @Override
    public final void run() {
        try {
            if (failure != null) {
                failed(failure);
                return;
            }
            try {
                succeeded(a, b, c);
            } catch (NativeException e) {
                failed(e);
            }
        } catch (Throwable e) {
            // The receiver's defect must not stop the executor's thread, nor the operations behind this one.
            log.error("The receiver of the outcome of {} failed", what(), e);
        }
    }

    private void handOver(Executor fallback) {
        try {
            executor.execute(this);
        } catch (Throwable e) {
            // A ledger whose executor was shut down still owes its callers an answer.
            log.debug("The executor of {} refused its outcome", what(), e);
            fallback.execute(this);
        }
    }
}
