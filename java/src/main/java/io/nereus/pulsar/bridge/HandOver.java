package io.nereus.pulsar.bridge;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Executor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Outcomes on their way to the executors of their owners: of those that arrive together, the ones of an executor go in one task,
 * in the order of their arrival. A task costs its executor a lock, a place in a queue ordered by time and two looks at the clock,
 * which is more than the callback of an append takes.
 *
 * <p>Not thread-safe: belongs to the thread that delivers outcomes.
 */
final class HandOver {

    private static final Logger log = LoggerFactory.getLogger(HandOver.class);

    private final Executor fallback;
    /** One for each executor that was met since the last flush; there are about as many as cores. */
    private final Queue<Chain> chains = new ArrayDeque<>();

    /** @param fallback runs what an executor refuses; must not refuse */
    HandOver(Executor fallback) {
        this.fallback = fallback;
    }

    /** Operations of one executor, linked in order. */
    private static final class Chain implements Runnable {
        private final Executor executor;
        private final PendingOperation first;
        private PendingOperation last;

        private Chain(PendingOperation first) {
            this.executor = first.executor();
            this.first = first;
            this.last = first;
        }

        @Override
        public void run() {
            for (PendingOperation next = first; next != null; next = next.takeNext()) {
                next.run();
            }
        }
    }

    /** Takes an operation that has its outcome. */
    void add(PendingOperation operation) {
        for (Chain chain : chains) {
            if (chain.executor == operation.executor()) {
                chain.last.follow(operation);
                chain.last = operation;
                return;
            }
        }
        chains.add(new Chain(operation));
    }

    /** Hands everything over that was added since the last time, to the executor first whose first outcome came first. */
    void flush() {
        Chain chain;
        // Out of the queue first: whatever an executor throws, nothing is handed over twice.
        while ((chain = chains.poll()) != null) {
            execute(chain, chain.executor, fallback);
        }
    }

    /** Runs {@code task} on {@code executor}, or where that refuses, as of a ledger that was shut down, on {@code fallback}. */
    static void execute(Runnable task, Executor executor, Executor fallback) {
        try {
            executor.execute(task);
        } catch (Throwable e) {
            // Its callers are still owed an answer.
            log.debug("An executor refused the outcome of an operation", e);
            fallback.execute(task);
        }
    }
}
