package io.nereus.tests.demo;

import io.nereus.tests.history.Event.Delivery;
import io.nereus.tests.history.Event.Reach;
import java.util.ArrayList;
import java.util.List;

/**
 * What a workload does, as data.
 *
 * @param topics every topic with its producers and subscriptions
 */
public record Plan(List<TopicPlan> topics) {

    /** How messages are sent. */
    enum Shape { PLAIN, BATCHED, BATCHED_LZ4, PLAIN_ZSTD, CHUNKED, KEYED, JSON }

    /** Where deduplication is switched on. */
    enum Deduplication { OFF, NAMESPACE, TOPIC_POLICY }

    /**
     * @param perSecond messages per second that it tries to send
     * @param minBytes  smallest content
     * @param maxBytes  largest content
     */
    record ProducerPlan(String name, Shape shape, double perSecond, int minBytes, int maxBytes) {

        boolean isLarge() {
            return maxBytes >= LARGE;
        }
    }

    /**
     * @param reach       acknowledge single messages, or up to a message
     * @param ackedAtOnce how many of a hundred messages are acknowledged before the workload is told to finish (each by
     *                    itself); with {@link Reach#UP_TO} one in sixteen is, and the value has no meaning
     */
    record SubscriptionPlan(String name, Delivery delivery, int consumers, Reach reach, int ackedAtOnce) { }

    /**
     * @param name       short name, in the namespace that its deduplication asks for
     * @param partitions 0: not partitioned
     */
    record TopicPlan(String name, int partitions, Deduplication deduplication, List<ProducerPlan> producers,
                     List<SubscriptionPlan> subscriptions) {

        /** Full name, without a partition. */
        String fullName(String tenant) {
            return "persistent://" + tenant + "/" + namespace() + "/" + name;
        }

        String namespace() {
            return deduplication == Deduplication.NAMESPACE ? "demo-dedup" : "demo";
        }

        boolean deduplicated() {
            return deduplication != Deduplication.OFF;
        }

        /** Full names of the topics that hold the messages. */
        List<String> parts(String tenant) {
            if (partitions == 0) {
                return List.of(fullName(tenant));
            }
            List<String> parts = new ArrayList<>();
            for (int i = 0; i < partitions; i++) {
                parts.add(fullName(tenant) + "-partition-" + i);
            }
            return parts;
        }

        boolean isJson() {
            return producers.stream().anyMatch(p -> p.shape == Shape.JSON);
        }

        boolean isLarge() {
            return producers.stream().anyMatch(ProducerPlan::isLarge);
        }
    }

    private static final int KIB = 1024;
    private static final int MIB = 1024 * KIB;
    /** Messages from this size in bytes on are few, and under way a few at a time. */
    private static final int LARGE = 256 * KIB;
    /** One message of that size counts as progress for this many ordinary ones. */
    static final int LARGE_COUNTS_FOR = 50;
    /** The largest content that fits beside its metadata into the broker's default {@code maxMessageSize} of 5 MiB. */
    private static final int LARGEST_WHOLE = 5 * MIB - KIB;

    /** Every way of sending and of consuming, a minute's worth. */
    public static Plan full() {
        return new Plan(List.of(
                new TopicPlan("plain", 0, Deduplication.OFF,
                        List.of(new ProducerPlan("plain", Shape.PLAIN, 150, 1, 8 * KIB),
                                new ProducerPlan("batched", Shape.BATCHED, 500, 1, 300)),
                        List.of(new SubscriptionPlan("exclusive", Delivery.EXCLUSIVE, 1, Reach.ONE, 70),
                                new SubscriptionPlan("shared", Delivery.SHARED, 2, Reach.ONE, 60))),
                new TopicPlan("compressed", 0, Deduplication.OFF,
                        List.of(new ProducerPlan("lz4", Shape.BATCHED_LZ4, 300, 1, 2 * KIB),
                                new ProducerPlan("zstd", Shape.PLAIN_ZSTD, 60, 1, 64 * KIB)),
                        List.of(new SubscriptionPlan("shared", Delivery.SHARED, 2, Reach.ONE, 50))),
                new TopicPlan("large", 0, Deduplication.OFF,
                        List.of(new ProducerPlan("whole", Shape.PLAIN, 1, LARGEST_WHOLE, LARGEST_WHOLE),
                                new ProducerPlan("chunked", Shape.CHUNKED, 0.5, 11 * MIB, 12 * MIB)),
                        List.of(new SubscriptionPlan("failover", Delivery.FAILOVER, 2, Reach.ONE, 50))),
                new TopicPlan("keyed", 3, Deduplication.OFF,
                        List.of(new ProducerPlan("keyed", Shape.KEYED, 100, 1, KIB),
                                new ProducerPlan("keyed-small", Shape.KEYED, 100, 1, 10)),
                        List.of(new SubscriptionPlan("key-shared", Delivery.KEY_SHARED, 2, Reach.ONE, 60),
                                new SubscriptionPlan("failover", Delivery.FAILOVER, 2, Reach.UP_TO, 0))),
                new TopicPlan("orders", 0, Deduplication.OFF,
                        List.of(new ProducerPlan("json", Shape.JSON, 100, 1, 1)),
                        List.of(new SubscriptionPlan("exclusive", Delivery.EXCLUSIVE, 1, Reach.UP_TO, 0))),
                new TopicPlan("events", 0, Deduplication.NAMESPACE,
                        List.of(new ProducerPlan("dedup-plain", Shape.PLAIN, 100, 1, KIB),
                                new ProducerPlan("dedup-batched", Shape.BATCHED, 300, 1, 100)),
                        List.of(new SubscriptionPlan("failover", Delivery.FAILOVER, 2, Reach.ONE, 80))),
                new TopicPlan("event-parts", 2, Deduplication.NAMESPACE,
                        List.of(new ProducerPlan("dedup-keyed", Shape.KEYED, 100, 1, 500)),
                        List.of(new SubscriptionPlan("shared", Delivery.SHARED, 2, Reach.ONE, 70))),
                new TopicPlan("by-policy", 0, Deduplication.TOPIC_POLICY,
                        List.of(new ProducerPlan("dedup-policy", Shape.BATCHED, 200, 1, 100)),
                        List.of(new SubscriptionPlan("exclusive", Delivery.EXCLUSIVE, 1, Reach.UP_TO, 0)))));
    }

    /** The same without the large messages and with fewer topics, for tests that kill more than once. */
    public static Plan small() {
        List<String> kept = List.of("plain", "keyed", "events");
        return new Plan(full().topics.stream().filter(topic -> kept.contains(topic.name)).toList());
    }
}
