package io.nereus.bench.client;

import io.nereus.bench.Figures;
import io.nereus.bench.WorkerMain;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.Recorder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** One producer at an even pace, unbatched; with or without a consumer that tails it. */
final class PacedLoad {

    private static final long MOST_NANOS = TimeUnit.MINUTES.toNanos(1);

    private final LongAdder sent = new LongAdder();
    private final LongAdder received = new LongAdder();
    private final Recorder receipts = new Recorder(MOST_NANOS, 3);
    private final Recorder arrivals = new Recorder(MOST_NANOS, 3);
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    /** What a run measures. */
    enum Measured {
        /** From the send to its receipt. */
        RECEIPT,
        /** From the send to its arrival at a consumer. */
        ARRIVAL
    }

    /**
     * Runs it on a new topic.
     *
     * @return {@code p50}, {@code p99}, {@code p999} in microseconds, {@code rate} of receipts per second, {@code all} receipts
     */
    Figures run(PulsarClient client, String topic, Measured measured, int perSecond, double warmSeconds, double seconds)
            throws Exception {
        try (Consumer<byte[]> consumer = measured == Measured.ARRIVAL ? consumer(client, topic) : null;
             Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).blockIfQueueFull(true).create()) {
            send(producer, perSecond, warmSeconds);
            WorkerMain.begin();
            receipts.getIntervalHistogram();   // forgets the warm-up
            arrivals.getIntervalHistogram();
            long before = sent.sum();
            long start = System.nanoTime();
            send(producer, perSecond, seconds);
            long count = sent.sum() - before;
            long nanos = System.nanoTime() - start;
            var histogram = (measured == Measured.RECEIPT ? receipts : arrivals).getIntervalHistogram();
            WorkerMain.end();
            producer.flush();
            if (count == 0 || histogram.getTotalCount() == 0) {
                throw new IllegalStateException("no message was answered or arrived in the measured " + seconds + " s");
            }
            if (failure.get() != null) {
                throw new IllegalStateException("a send failed", failure.get());
            }
            if (consumer != null) {
                awaitAll();
            }
            return new Figures().with("p50", histogram.getValueAtPercentile(50) / 1e3)
                .with("p99", histogram.getValueAtPercentile(99) / 1e3).with("p999", histogram.getValueAtPercentile(99.9) / 1e3)
                .with("rate", count * 1e9 / nanos).with("count", count).with("all", sent.sum());
        }
    }

    private Consumer<byte[]> consumer(PulsarClient client, String topic) throws Exception {
        return client.newConsumer().topic(topic).subscriptionName("tail")
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
            .messageListener((consumer, message) -> {
                arrivals.recordValue(Math.min(System.nanoTime() - Payload.timeOf(message.getData()), MOST_NANOS));
                received.increment();
                consumer.acknowledgeAsync(message);
            }).subscribe();
    }

    private void send(Producer<byte[]> producer, int perSecond, double seconds) {
        long start = System.nanoTime();
        long messages = (long) (perSecond * seconds);
        for (long i = 0; i < messages && failure.get() == null; i++) {
            long due = start + i * 1_000_000_000L / perSecond;
            for (long early; (early = due - System.nanoTime()) > 0; ) {
                LockSupport.parkNanos(early);
            }
            long now = System.nanoTime();
            producer.sendAsync(Payload.at(now)).whenComplete((id, failed) -> {
                if (failed != null) {
                    failure.compareAndSet(null, failed);
                } else {
                    receipts.recordValue(Math.min(System.nanoTime() - now, MOST_NANOS));
                    sent.increment();
                }
            });
        }
    }

    private void awaitAll() throws InterruptedException {
        long deadline = System.nanoTime() + MOST_NANOS;
        while (received.sum() < sent.sum()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("received " + received.sum() + " of " + sent.sum() + " messages");
            }
            Thread.sleep(10);
        }
    }
}
