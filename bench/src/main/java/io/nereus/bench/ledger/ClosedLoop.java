package io.nereus.bench.ledger;

import com.sun.management.ThreadMXBean;
import io.nereus.bench.Figures;
import io.nereus.bench.WorkerMain;
import io.netty.buffer.ByteBuf;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.Recorder;

/**
 * So many appends under way at any time, each answer followed by the next append on the thread that brought it: no thread
 * of the load's own stands between two appends, so what is measured is the storage and not the wake-ups of the load.
 */
final class ClosedLoop {

    private static final int DRAIN_SECONDS = 60;

    /** Starts one append; {@code answered} is called once with null or the failure. */
    interface Target {
        void append(int slot, ByteBuf entry, Answer answered);
    }

    /** Takes the answer of one append. */
    interface Answer {
        void complete(Throwable failure);
    }

    private final Target target;
    private final ByteBuf entry;
    private final int outstanding;
    private final LongAdder answered = new LongAdder();
    private final Recorder latencies = new Recorder(TimeUnit.MINUTES.toNanos(1), 3);
    private final CountDownLatch running;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private volatile boolean stopping;

    ClosedLoop(Target target, ByteBuf entry, int outstanding) {
        this.target = target;
        this.entry = entry;
        this.outstanding = outstanding;
        this.running = new CountDownLatch(outstanding);
    }

    /** One of the appends under way, over and over. */
    private final class Slot implements Answer {
        private final int number;
        private long started;

        Slot(int number) {
            this.number = number;
        }

        void next() {
            started = System.nanoTime();
            ByteBuf given = entry.retainedDuplicate();
            try {
                target.append(number, given, this);
            } finally {
                given.release();
            }
        }

        @Override
        public void complete(Throwable failed) {
            if (failed != null) {
                failure.compareAndSet(null, failed);
                stopping = true;
            } else {
                latencies.recordValue(Math.min(System.nanoTime() - started, TimeUnit.MINUTES.toNanos(1)));
                answered.increment();
            }
            if (stopping) {
                running.countDown();
            } else {
                next();
            }
        }
    }

    /**
     * Runs it.
     *
     * @return {@code rate} per second, {@code p50} and {@code p99} in microseconds, of the measured time; {@code all}
     *     appends answered, the warm-up's too; {@code allocated} bytes of this JVM's heap for each
     */
    Figures run(double warmSeconds, double seconds) throws InterruptedException {
        for (int slot = 0; slot < outstanding; slot++) {
            new Slot(slot).next();
        }
        sleep(warmSeconds);
        WorkerMain.begin();
        latencies.getIntervalHistogram();      // forgets the warm-up
        long allocated = allocatedBytes();
        long before = answered.sum();
        long start = System.nanoTime();
        sleep(seconds);
        long count = answered.sum() - before;
        long nanos = System.nanoTime() - start;
        Histogram measured = latencies.getIntervalHistogram();
        allocated = allocatedBytes() - allocated;
        WorkerMain.end();
        stopping = true;
        if (!running.await(DRAIN_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException(running.getCount() + " appends have no answer after " + DRAIN_SECONDS + " s");
        }
        if (failure.get() != null) {
            throw new IllegalStateException("an append failed", failure.get());
        }
        if (count == 0) {
            throw new IllegalStateException("no append was answered in the measured " + seconds + " s");
        }
        return new Figures().with("rate", count * 1e9 / nanos).with("p50", measured.getValueAtPercentile(50) / 1e3)
            .with("p99", measured.getValueAtPercentile(99) / 1e3).with("count", count).with("all", answered.sum())
            .with("allocated", (double) allocated / count);
    }

    /** Heap bytes that the threads of this JVM allocated so far, those that ended left out. */
    private static long allocatedBytes() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        return Arrays.stream(threads.getThreadAllocatedBytes(threads.getAllThreadIds())).filter(bytes -> bytes > 0).sum();
    }

    private void sleep(double seconds) throws InterruptedException {
        long deadline = System.nanoTime() + (long) (seconds * 1e9);
        for (long left; (left = deadline - System.nanoTime()) > 0 && failure.get() == null; ) {
            TimeUnit.NANOSECONDS.sleep(Math.min(left, 100_000_000));
        }
    }
}
