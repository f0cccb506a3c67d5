package io.nereus.tests.demo;

import static io.nereus.tests.demo.Plan.LARGE_COUNTS_FOR;

import io.nereus.tests.demo.Plan.SubscriptionPlan;
import io.nereus.tests.demo.Plan.TopicPlan;
import io.nereus.tests.history.Event;
import io.nereus.tests.history.Event.Delivery;
import io.nereus.tests.history.Event.Reach;
import io.nereus.tests.history.HistoryWriter;
import io.nereus.tests.history.MsgId;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/**
 * One subscription with all its consumers on one thread: records every message before it does anything with it, asks
 * for acknowledgements as the plan says and records the broker's receipts. Until it is told to finish it leaves holes;
 * then it subscribes anew, so that everything it kept is delivered again, and acknowledges it all.
 *
 * <p>Consumers notice a lost connection themselves; the task only writes down that they did, before the first message
 * that they were given afterwards.
 */
final class SubscriptionTask {

    private static final int CUMULATIVE_EVERY = 16;
    private static final int POLL_MILLIS = 5;
    private static final int MESSAGES_IN_A_ROW = 100;

    /** One consumer and when it was last seen disconnected. */
    private static final class Member {
        final String name;
        final Consumer<?> consumer;
        long lastDisconnect;

        Member(String name, Consumer<?> consumer) {
            this.name = name;
            this.consumer = consumer;
            this.lastDisconnect = consumer.getLastDisconnectedTimestamp();
        }
    }

    /** Makes the consumer with this number. */
    private interface Subscriber {
        Consumer<?> subscribe(int number) throws PulsarClientException;
    }

    private final SubscriptionPlan plan;
    private final List<String> parts;
    private final boolean large;
    private final HistoryWriter history;
    private final Subscriber subscriber;
    private final List<Member> members = new ArrayList<>();
    private final AtomicLong ackReceipts = new AtomicLong();
    private final Set<CompletableFuture<Void>> acksUnderWay = ConcurrentHashMap.newKeySet();
    private final Thread thread;
    private boolean everything;
    private long received;
    private volatile boolean finishing;
    private volatile boolean stopping;
    private volatile Throwable failure;

    private SubscriptionTask(String tenant, TopicPlan topic, SubscriptionPlan plan, HistoryWriter history,
                             PulsarClient client) {
        Schema<?> schema = topic.isJson() ? Schema.JSON(Order.class) : Schema.BYTES;
        this.subscriber = number -> client.newConsumer(schema).topic(topic.fullName(tenant)).subscriptionName(plan.name())
                .subscriptionType(type(plan.delivery())).consumerName("c" + number).priorityLevel(priority(plan, number))
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .isAckReceiptEnabled(true).enableBatchIndexAcknowledgment(true)
                // Each at once: a grouping client looks for duplicates in the very bit sets that its flush recycles, and
                // can so drop a message of a batch that is coming in while its neighbours are acknowledged (apache/pulsar#25145).
                .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                .receiverQueueSize(topic.isLarge() ? 4 : 500).maxTotalReceiverQueueSizeAcrossPartitions(2_000)
                .startPaused(true).subscribe();
        this.plan = plan;
        this.parts = topic.parts(tenant);
        this.large = topic.isLarge();
        this.history = history;
        this.thread = new Thread(this::run, "subscription-" + topic.name() + "-" + plan.name());
    }

    /** Subscribes from the earliest message with all consumers; delivery starts with {@link #start}. */
    static SubscriptionTask create(String tenant, TopicPlan topic, SubscriptionPlan plan, HistoryWriter history,
                                   PulsarClient client) throws PulsarClientException {
        SubscriptionTask task = new SubscriptionTask(tenant, topic, plan, history, client);
        for (String part : task.parts) {
            history.append(t -> new Event.Subscribed(t, part, plan.name(), plan.delivery()));
        }
        task.subscribe();
        return task;
    }

    /**
     * Delivery begins when all consumers are there: a key-shared subscription of Pulsar 4.0 can stand still when hashes
     * move to a consumer that joins while others hold messages and nothing new is produced (apache/pulsar#23845).
     */
    private void subscribe() throws PulsarClientException {
        for (int i = 0; i < plan.consumers(); i++) {
            members.add(new Member("c" + i, subscriber.subscribe(i)));
        }
        for (Member member : members) {
            member.consumer.resume();
        }
    }

    /**
     * Closes all consumers and makes them anew. Not by asking for redelivery: what one consumer asks for again may be
     * given to the other, be acknowledged there, and already be on its way once more because that one asks too.
     */
    private void subscribeAnew() throws PulsarClientException {
        CompletableFuture.allOf(acksUnderWay.toArray(CompletableFuture[]::new)).exceptionally(failed -> null)
                .orTimeout(30, TimeUnit.SECONDS).join();
        for (Member member : members) {
            interrupted(member);
            member.consumer.close();
        }
        members.clear();
        subscribe();
    }

    /** The first consumer of a failover subscription is preferred, so that it is also the active one after a restart. */
    private static int priority(SubscriptionPlan plan, int consumer) {
        return plan.delivery() == Delivery.FAILOVER ? consumer : 0;
    }

    private static SubscriptionType type(Delivery delivery) {
        return switch (delivery) {
            case EXCLUSIVE -> SubscriptionType.Exclusive;
            case FAILOVER -> SubscriptionType.Failover;
            case SHARED -> SubscriptionType.Shared;
            case KEY_SHARED -> SubscriptionType.Key_Shared;
        };
    }

    void start() {
        thread.start();
    }

    /** How many ack receipts of this subscription stand for {@code count} of an ordinary one. */
    int share(int count) {
        int messages = large ? Math.max(1, count / LARGE_COUNTS_FOR) : count;
        return plan.reach() == Reach.UP_TO ? Math.max(1, messages / CUMULATIVE_EVERY) : messages;
    }

    /** For messages to people: which subscription of which topic. */
    String name() {
        return thread.getName();
    }

    String subscription() {
        return plan.name();
    }

    List<String> parts() {
        return parts;
    }

    long ackReceipts() {
        return ackReceipts.get();
    }

    /** Throws what ended this subscription, if something did. */
    void check() {
        if (failure != null) {
            throw new IllegalStateException(thread.getName() + " failed", failure);
        }
    }

    /** From now on everything is acknowledged, also what was received before and kept. */
    void acknowledgeEverything() {
        finishing = true;
    }

    /** Stops and closes the consumers. To be called when the broker has nothing more for this subscription. */
    void finish() throws InterruptedException, PulsarClientException {
        stopping = true;
        thread.join();
        check();
        for (Member member : members) {
            member.consumer.close();
        }
        for (String part : parts) {
            history.append(t -> new Event.Drained(t, part, plan.name()));
        }
    }

    private void run() {
        try {
            while (!stopping) {
                if (finishing && !everything) {
                    everything = true;
                    subscribeAnew();
                }
                for (Member member : members) {
                    drain(member);
                }
            }
        } catch (PulsarClientException | RuntimeException | Error e) {
            failure = e;
        }
    }

    private void drain(Member member) throws PulsarClientException {
        for (int i = 0; i < MESSAGES_IN_A_ROW; i++) {
            Message<?> message = member.consumer.receive(POLL_MILLIS, TimeUnit.MILLISECONDS);
            if (message == null) {
                return;
            }
            long disconnect = member.consumer.getLastDisconnectedTimestamp();
            if (disconnect != member.lastDisconnect) {
                member.lastDisconnect = disconnect;
                interrupted(member);
            }
            take(member, message);
        }
    }

    private void interrupted(Member member) {
        for (String part : parts) {
            history.append(t -> new Event.Interrupted(t, part, plan.name(), member.name));
        }
    }

    private void take(Member member, Message<?> message) {
        String topic = message.getTopicName();
        MsgId id = MsgId.of(message.getMessageId());
        String key = message.hasKey() ? message.getKey() : "";
        String hash = Content.hash(message.getData());
        if (message.getValue() instanceof Order order && order.number != message.getSequenceId()) {
            throw new IllegalStateException("order " + order.number + " came as message " + message.getSequenceId());
        }
        history.append(t -> new Event.Received(t, topic, plan.name(), member.name, id, message.getProducerName(),
                message.getSequenceId(), key, message.getRedeliveryCount(), hash));
        received++;
        if (everything || (plan.reach() == Reach.UP_TO ? received % CUMULATIVE_EVERY == 0
                : Content.percentile(message.getProducerName(), message.getSequenceId()) < plan.ackedAtOnce())) {
            acknowledge(member, message, topic, id);
        }
    }

    /** A request that fails (the connection is gone) has no receipt, and the broker will deliver the message again. */
    private void acknowledge(Member member, Message<?> message, String topic, MsgId id) {
        history.append(t -> new Event.AckRequested(t, topic, plan.name(), id, plan.reach()));
        CompletableFuture<Void> ack = plan.reach() == Reach.UP_TO ? member.consumer.acknowledgeCumulativeAsync(message)
                : member.consumer.acknowledgeAsync(message);
        acksUnderWay.add(ack);
        ack.thenRun(() -> {
            history.append(t -> new Event.AckReceipt(t, topic, plan.name(), id, plan.reach()));
            ackReceipts.incrementAndGet();
        });
        ack.whenComplete((done, failed) -> acksUnderWay.remove(ack));
    }
}
