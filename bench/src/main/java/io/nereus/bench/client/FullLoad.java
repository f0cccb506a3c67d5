package io.nereus.bench.client;

import io.nereus.bench.Figures;
import io.nereus.bench.WorkerMain;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;

/** As fast as the broker answers: producers on some topics take turns, with a bound on what is under way in all. */
final class FullLoad implements AutoCloseable {

    /** How messages travel. */
    enum Batching {
        /** Each alone. */
        NONE,
        /** 64 messages together, which makes 64 KiB. */
        BATCHES_OF_64_KIB
    }

    private static final int PER_BATCH = 64;
    private static final int DRAIN_SECONDS = 60;

    private final List<Producer<byte[]>> producers = new ArrayList<>();
    private final int outstanding;
    private final Semaphore room;
    private final LongAdder answered = new LongAdder();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private int turn;

    FullLoad(PulsarClient client, List<String> topics, Batching batching, int outstanding) throws Exception {
        this.outstanding = outstanding;
        room = new Semaphore(outstanding);
        for (String topic : topics) {
            ProducerBuilder<byte[]> builder = client.newProducer().topic(topic).maxPendingMessages(0)
                .enableBatching(batching != Batching.NONE);
            if (batching == Batching.BATCHES_OF_64_KIB) {
                builder.batchingMaxMessages(PER_BATCH).batchingMaxBytes(2 * PER_BATCH * Payload.BYTES)
                    .batchingMaxPublishDelay(10, TimeUnit.MILLISECONDS);
            }
            producers.add(builder.create());
        }
    }

    /** Sends for so long, measures the second part. */
    Figures run(double warmSeconds, double seconds) throws Exception {
        sendUntil(System.nanoTime() + (long) (warmSeconds * 1e9), Long.MAX_VALUE);
        WorkerMain.begin();
        long before = answered.sum();
        long start = System.nanoTime();
        sendUntil(start + (long) (seconds * 1e9), Long.MAX_VALUE);
        long count = answered.sum() - before;
        long nanos = System.nanoTime() - start;
        WorkerMain.end();
        drain();
        if (count == 0) {
            throw new IllegalStateException("no message was answered in the measured " + seconds + " s");
        }
        return new Figures().with("rate", count * 1e9 / nanos).with("mb", count * 1e3 * Payload.BYTES / nanos)
            .with("count", count).with("all", answered.sum());
    }

    /** Sends so many messages and waits for every receipt. */
    Figures fill(long messages) throws Exception {
        long start = System.nanoTime();
        sendUntil(Long.MAX_VALUE, messages);
        drain();
        return new Figures().with("rate", messages * 1e9 / (System.nanoTime() - start)).with("all", answered.sum());
    }

    private void sendUntil(long deadline, long messages) throws InterruptedException {
        for (long i = 0; i < messages && System.nanoTime() < deadline; i++) {
            if (!room.tryAcquire(DRAIN_SECONDS, TimeUnit.SECONDS) || failure.get() != null) {
                throw new IllegalStateException("a send failed or did not end", failure.get());
            }
            producers.get(turn).sendAsync(Payload.plain()).whenComplete((id, failed) -> {
                if (failed != null) {
                    failure.compareAndSet(null, failed);
                } else {
                    answered.increment();
                }
                room.release();
            });
            turn = turn + 1 < producers.size() ? turn + 1 : 0;
        }
    }

    private void drain() throws Exception {
        for (Producer<byte[]> producer : producers) {
            producer.flush();
        }
        if (!room.tryAcquire(outstanding, DRAIN_SECONDS, TimeUnit.SECONDS) || failure.get() != null) {
            throw new IllegalStateException("a send failed or did not end", failure.get());
        }
        room.release(outstanding);
    }

    @Override
    public void close() throws org.apache.pulsar.client.api.PulsarClientException {
        for (Producer<byte[]> producer : producers) {
            producer.close();
        }
    }
}
