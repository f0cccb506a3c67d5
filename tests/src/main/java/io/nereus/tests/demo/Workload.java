package io.nereus.tests.demo;

import io.nereus.tests.demo.Plan.Deduplication;
import io.nereus.tests.demo.Plan.ProducerPlan;
import io.nereus.tests.demo.Plan.SubscriptionPlan;
import io.nereus.tests.demo.Plan.TopicPlan;
import io.nereus.tests.history.Event;
import io.nereus.tests.history.HistoryWriter;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SizeUnit;
import org.apache.pulsar.common.policies.data.RetentionPolicies;

/**
 * A whole {@link Plan} as one client process would run it. The caller's part is the broker: start it before
 * {@link #setUp}, kill and restart it between {@link #awaitFlow} and {@link #finishProducing}.
 *
 * <p>Every wait is for a condition, has a bound, and says at the end what was missing. Steps are called in their order by
 * one thread.
 */
public final class Workload implements AutoCloseable {

    private static final String TENANT = "public";
    private static final long WAIT_MILLIS = 60_000;
    /** Bound of the client library for what is sent and not yet answered. */
    private static final long PENDING_MEMORY_MIB = 64;

    private final Plan plan;
    private final HistoryWriter history;
    private final Recorder recorder;
    private final PulsarAdmin admin;
    private final PulsarClient client;
    private final List<ProducerTask<?>> producers = new ArrayList<>();
    private final List<SubscriptionTask> subscriptions = new ArrayList<>();

    /** @param seed chooses the message ids that are remembered */
    public Workload(Plan plan, String serviceUrl, String adminUrl, HistoryWriter history, long seed)
            throws PulsarClientException {
        this.plan = plan;
        this.history = history;
        this.recorder = new Recorder(history, seed);
        this.admin = PulsarAdmin.builder().serviceHttpUrl(adminUrl).build();
        this.client = PulsarClient.builder().serviceUrl(serviceUrl).memoryLimit(PENDING_MEMORY_MIB, SizeUnit.MEGA_BYTES)
                .operationTimeout(60, TimeUnit.SECONDS).lookupTimeout(60, TimeUnit.SECONDS)
                .startingBackoffInterval(50, TimeUnit.MILLISECONDS).maxBackoffInterval(1, TimeUnit.SECONDS)
                .ioThreads(2).listenerThreads(1).build();
    }

    /** Creates namespaces, topics and subscriptions and starts to produce and consume. */
    public void setUp() throws PulsarAdminException, PulsarClientException, InterruptedException, TimeoutException {
        String cluster = admin.clusters().getClusters().get(0);
        Set<String> present = Set.copyOf(admin.namespaces().getNamespaces(TENANT));
        for (String namespace : plan.topics().stream().map(TopicPlan::namespace).distinct().toList()) {
            String name = TENANT + "/" + namespace;
            if (!present.contains(name)) {
                admin.namespaces().createNamespace(name, Set.of(cluster));
            }
            admin.namespaces().setRetention(name, new RetentionPolicies(-1, -1));   // consumed messages are read back
        }
        for (TopicPlan topic : plan.topics()) {
            setUp(topic);
        }
        for (TopicPlan topic : plan.topics()) {
            for (SubscriptionPlan subscription : topic.subscriptions()) {
                subscriptions.add(SubscriptionTask.create(TENANT, topic, subscription, history, client));
            }
        }
        for (TopicPlan topic : plan.topics()) {
            for (ProducerPlan producer : topic.producers()) {
                producers.add(ProducerTask.create(TENANT, topic, producer, recorder, client));
            }
        }
        subscriptions.forEach(SubscriptionTask::start);
        producers.forEach(ProducerTask::start);
    }

    private void setUp(TopicPlan topic) throws PulsarAdminException, InterruptedException, TimeoutException {
        String name = topic.fullName(TENANT);
        if (topic.deduplication() == Deduplication.NAMESPACE) {
            admin.namespaces().setDeduplicationStatus(TENANT + "/" + topic.namespace(), true);
        }
        if (topic.partitions() == 0) {
            admin.topics().createNonPartitionedTopic(name);
        } else {
            admin.topics().createPartitionedTopic(name, topic.partitions());
        }
        if (topic.deduplication() == Deduplication.TOPIC_POLICY) {
            admin.topicPolicies().setDeduplicationStatus(name, true);
            await(() -> "the topic policy of " + name, () -> Boolean.TRUE.equals(admin.topicPolicies().getDeduplicationStatus(name)));
        }
        for (String part : topic.parts(TENANT)) {
            history.append(t -> new Event.Topic(t, part, topic.deduplicated()));
        }
    }

    /**
     * Waits until every producer has got {@code count} more receipts and every subscription as many more ack receipts
     * than when it was called; a fiftieth of that where few, large messages are sent.
     */
    public void awaitFlow(int count) throws InterruptedException, TimeoutException {
        Map<ProducerTask<?>, Long> sent = new HashMap<>();
        producers.forEach(p -> sent.put(p, p.receipts() + p.share(count)));
        Map<SubscriptionTask, Long> acknowledged = new HashMap<>();
        subscriptions.forEach(s -> acknowledged.put(s, s.ackReceipts() + s.share(count)));
        await(() -> "receipts: " + producers.stream().filter(p -> p.receipts() < sent.get(p)).map(ProducerTask::name).toList()
                + " and ack receipts: " + subscriptions.stream().filter(s -> s.ackReceipts() < acknowledged.get(s))
                        .map(SubscriptionTask::name).toList(), () -> {
            check();
            return producers.stream().allMatch(p -> p.receipts() >= sent.get(p))
                    && subscriptions.stream().allMatch(s -> s.ackReceipts() >= acknowledged.get(s));
        });
    }

    /** Stops the producers once everything they sent has its receipt. */
    public void finishProducing() throws InterruptedException, TimeoutException, PulsarClientException {
        for (ProducerTask<?> producer : producers) {
            producer.finish(WAIT_MILLIS);
        }
    }

    /** Has every subscription consume and acknowledge all that is left, until the broker has nothing more for it. */
    public void drainSubscriptions() throws InterruptedException, TimeoutException, PulsarClientException {
        subscriptions.forEach(SubscriptionTask::acknowledgeEverything);
        for (SubscriptionTask subscription : subscriptions) {
            for (String part : subscription.parts()) {
                await(() -> "an empty backlog of " + subscription.name() + " of " + part, () -> {
                    check();
                    return backlog(part, subscription.subscription()) == 0;
                });
            }
        }
        for (SubscriptionTask subscription : subscriptions) {
            subscription.finish();
        }
    }

    /**
     * Reads every topic from the beginning and then at the remembered ids.
     *
     * @return a line that says how much was read
     */
    public String readBack() throws InterruptedException, IOException {
        ReadBack readBack = new ReadBack(client, history);
        List<String> parts = plan.topics().stream().flatMap(t -> t.parts(TENANT).stream()).toList();
        long shown = 0;
        ExecutorService threads = Executors.newFixedThreadPool(3);
        try {
            List<Future<Long>> scans = parts.stream()
                    .map(part -> threads.submit(() -> readBack.scan(part, "earliest " + part))).toList();
            for (Future<Long> scan : scans) {
                shown += scan.get();
            }
            List<Future<?>> fetches = new ArrayList<>();
            for (Recorder.Remembered remembered : recorder.remembered()) {
                fetches.add(threads.submit(() -> {
                    readBack.fetch(remembered);
                    return null;
                }));
            }
            for (Future<?> fetch : fetches) {
                fetch.get();
            }
        } catch (ExecutionException e) {
            throw new IOException("reading back failed", e.getCause());
        } finally {
            threads.shutdownNow();
        }
        return shown + " messages of " + parts.size() + " topics and partitions from the beginning, "
                + recorder.remembered().size() + " by remembered id";
    }

    @Override
    public void close() throws PulsarClientException {
        try {
            client.close();
        } finally {
            admin.close();
        }
    }

    private void check() {
        producers.forEach(ProducerTask::check);
        subscriptions.forEach(SubscriptionTask::check);
    }

    private long backlog(String part, String subscription) throws PulsarAdminException {
        return admin.topics().getStats(part, true).getSubscriptions().get(subscription).getMsgBacklog();
    }

    private interface Condition {
        boolean holds() throws PulsarAdminException;
    }

    private static void await(Supplier<String> what, Condition condition) throws InterruptedException, TimeoutException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WAIT_MILLIS);
        PulsarAdminException last = null;
        while (System.nanoTime() < deadline) {
            try {
                if (condition.holds()) {
                    return;
                }
            } catch (PulsarAdminException notYet) {
                last = notYet;
            }
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(100));
        }
        TimeoutException timeout = new TimeoutException("waited " + WAIT_MILLIS / 1000 + " s in vain for " + what.get());
        timeout.initCause(last);
        throw timeout;
    }
}
