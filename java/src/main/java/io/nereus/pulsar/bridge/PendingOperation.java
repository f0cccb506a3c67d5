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
    private PendingOperation next;
    private long id;

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

    /** Its id in the reactor's table, set before others can see the operation there. */
    final long id() {
        return id;
    }

    final void id(long given) {
        id = given;
    }

    /** Where it runs. */
    final Executor executor() {
        return executor;
    }

    /** {@code operation} runs right after this one, on the same executor. */
    final void follow(PendingOperation operation) {
        next = operation;
    }

    /** What runs after this one, once: nobody keeps a chain alive through an operation that has run. */
    final PendingOperation takeNext() {
        PendingOperation taken = next;
        next = null;
        return taken;
    }

    /** Sets success as the outcome, before it runs. */
    final void succeed(long first, long second, long third) {
        a = first;
        b = second;
        c = third;
    }

    /** Sets failure as the outcome, before it runs. */
    final void fail(NativeException cause) {
        failure = cause;
    }

    /** Hands a failure over to the executor, by itself. */
    final void fail(NativeException cause, Executor fallback) {
        fail(cause);
        HandOver.execute(this, executor, fallback);
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
}
