package io.nereus.bench.ledger;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** Lets so many operations be under way at a time, and remembers the first failure. */
public final class InFlight {

    private final int most;
    private final int seconds;
    private final Semaphore free;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    /**
     * Nothing is under way.
     *
     * @param seconds that one operation may take
     */
    public InFlight(int most, int seconds) {
        this.most = most;
        this.seconds = seconds;
        free = new Semaphore(most);
    }

    /** Waits for room; then the caller starts an operation and hands it to {@link #follow}. */
    public void enter() throws Exception {
        if (!free.tryAcquire(seconds, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no operation ended within " + seconds + " s");
        }
        check();
    }

    /** The operation that was started after {@link #enter}. */
    public void follow(CompletableFuture<?> operation) {
        operation.whenComplete((done, failed) -> {
            if (failed != null) {
                failure.compareAndSet(null, failed);
            }
            free.release();
        });
    }

    /** Waits until nothing is under way. */
    public void drain() throws Exception {
        if (!free.tryAcquire(most, seconds, TimeUnit.SECONDS)) {
            throw new IllegalStateException((most - free.availablePermits()) + " operations did not end within " + seconds + " s");
        }
        free.release(most);
        check();
    }

    private void check() {
        if (failure.get() != null) {
            throw new IllegalStateException("an operation failed", failure.get());
        }
    }
}
