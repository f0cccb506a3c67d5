package io.nereus.tests.demo;

import static io.nereus.tests.demo.Plan.LARGE_COUNTS_FOR;

import io.nereus.tests.demo.Plan.ProducerPlan;
import io.nereus.tests.demo.Plan.TopicPlan;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongFunction;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageRoutingMode;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.impl.MessageIdImpl;

/**
 * One producer on its own thread: sends at its pace with rising sequence ids until it is told to stop, records every
 * send before it and every receipt after it, and never gives up on a message: reconnecting is the client library's
 * work. What is under way is bounded by the client's memory limit and the pending messages of the plan's size.
 */
final class ProducerTask<T> {

    /** Keys repeat often enough that each is used many times, and messages of one key follow each other. */
    private static final int KEYS = 17;

    private final String topic;
    private final boolean partitioned;
    private final ProducerPlan plan;
    private final Recorder recorder;
    private final Schema<T> schema;
    private final LongFunction<T> values;
    private final Producer<T> producer;
    private final AtomicLong receipts = new AtomicLong();
    private final AtomicLong outstanding = new AtomicLong();
    private final Thread thread;
    private volatile boolean stopping;
    private volatile Throwable failure;
    private long next;

    private ProducerTask(String tenant, TopicPlan topicPlan, ProducerPlan plan, Recorder recorder, Schema<T> schema,
                         LongFunction<T> values, PulsarClient client) throws PulsarClientException {
        this.topic = topicPlan.fullName(tenant);
        this.partitioned = topicPlan.partitions() > 0;
        this.plan = plan;
        this.recorder = recorder;
        this.schema = schema;
        this.values = values;
        this.producer = shape(client.newProducer(schema).topic(topic).producerName(plan.name())).create();
        this.thread = new Thread(this::run, "producer-" + plan.name());
    }

    static ProducerTask<?> create(String tenant, TopicPlan topic, ProducerPlan plan, Recorder recorder,
                                  PulsarClient client) throws PulsarClientException {
        String name = plan.name();
        if (plan.shape() == Plan.Shape.JSON) {
            return new ProducerTask<>(tenant, topic, plan, recorder, Schema.JSON(Order.class),
                    n -> new Order(n, "customer-" + n % KEYS, n / 100.0), client);
        }
        return new ProducerTask<>(tenant, topic, plan, recorder, Schema.BYTES,
                n -> Content.of(name, n, Content.size(name, n, plan.minBytes(), plan.maxBytes())), client);
    }

    private ProducerBuilder<T> shape(ProducerBuilder<T> builder) {
        boolean batched = switch (plan.shape()) {
            case BATCHED, BATCHED_LZ4 -> true;
            default -> false;
        };
        builder.sendTimeout(0, TimeUnit.SECONDS).blockIfQueueFull(true).messageRoutingMode(MessageRoutingMode.RoundRobinPartition)
                .maxPendingMessages(plan.isLarge() ? 4 : 200).enableBatching(batched);
        if (batched) {
            builder.batchingMaxMessages(20).batchingMaxPublishDelay(10, TimeUnit.MILLISECONDS);
        }
        switch (plan.shape()) {
            case BATCHED_LZ4 -> builder.compressionType(CompressionType.LZ4);
            case PLAIN_ZSTD -> builder.compressionType(CompressionType.ZSTD);
            case CHUNKED -> builder.enableChunking(true);
            default -> { }
        }
        return builder;
    }

    void start() {
        thread.start();
    }

    String name() {
        return plan.name();
    }

    /** How many messages of this producer stand for {@code count} of an ordinary one. */
    int share(int count) {
        return plan.isLarge() ? Math.max(1, count / LARGE_COUNTS_FOR) : count;
    }

    long receipts() {
        return receipts.get();
    }

    /** Throws what ended this producer, if something did. */
    void check() {
        if (failure != null) {
            throw new IllegalStateException("producer " + plan.name() + " of " + topic + " failed", failure);
        }
    }

    /**
     * Stops sending and waits for the receipt of everything that was sent.
     *
     * @throws TimeoutException naming the producer and how many receipts are missing
     */
    void finish(long timeoutMillis) throws InterruptedException, TimeoutException, PulsarClientException {
        stopping = true;
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMillis);
        LockSupport.unpark(thread);
        thread.join(timeoutMillis);
        while (thread.isAlive() || outstanding.get() > 0) {
            check();
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("producer " + plan.name() + " of " + topic + " still waits for "
                        + outstanding.get() + " receipts");
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
        }
        check();
        producer.close();
    }

    private void run() {
        long interval = (long) (1e9 / plan.perSecond());
        long due = System.nanoTime();
        try {
            while (!stopping && failure == null) {
                long wait = due - System.nanoTime();
                if (wait > 0) {
                    LockSupport.parkNanos(wait);
                    continue;
                }
                due = Math.max(due, System.nanoTime() - TimeUnit.SECONDS.toNanos(1)) + interval;   // no burst after an outage
                send(next++);
            }
        } catch (RuntimeException | Error e) {
            failure = e;
        }
    }

    private void send(long sequence) {
        T value = values.apply(sequence);
        recorder.sent(topic, plan.name(), sequence, schema.encode(value));
        TypedMessageBuilder<T> message = producer.newMessage().sequenceId(sequence).value(value);
        if (plan.shape() == Plan.Shape.KEYED) {
            message.key("key-" + sequence % KEYS);
        }
        outstanding.incrementAndGet();
        message.sendAsync().whenComplete((id, error) -> {
            if (error != null) {
                recorder.sendFailed(topic, plan.name(), sequence, error);
                failure = error;
            } else {
                recorder.receipt(part(id), plan.name(), sequence, id);
                receipts.incrementAndGet();
            }
            outstanding.decrementAndGet();
        });
    }

    private String part(MessageId id) {
        return partitioned ? topic + "-partition-" + ((MessageIdImpl) id).getPartitionIndex() : topic;
    }
}
