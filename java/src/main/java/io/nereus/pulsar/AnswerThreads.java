package io.nereus.pulsar;

import io.netty.util.concurrent.DefaultThreadFactory;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Threads for answers to which the broker reacts with blocking calls of the same ledger: on the ledger's own thread such
 * a call would wait for itself.
 *
 * <p>The broker does so with single entries: its check of backlog quotas reads the oldest message of a topic and, in the
 * callback, skips what is too much (case 75). Promises: every task runs once, also after {@link #close}, then on the
 * thread that hands it over; no order among tasks. Owns a few daemon threads that end when idle.
 */
final class AnswerThreads implements Executor, AutoCloseable {

    private static final int THREADS = 4;
    private static final long IDLE_SECONDS = 30;

    private final ThreadPoolExecutor pool;

    AnswerThreads() {
        pool = new ThreadPoolExecutor(THREADS, THREADS, IDLE_SECONDS, TimeUnit.SECONDS, new LinkedBlockingQueue<>(),
            new DefaultThreadFactory("nereus-answers", true), (task, closed) -> task.run());
        pool.allowCoreThreadTimeOut(true);
    }

    @Override
    public void execute(Runnable task) {
        pool.execute(task);
    }

    /** Lets what was handed over run to its end; does not wait for it. */
    @Override
    public void close() {
        pool.shutdown();
    }
}
