package io.nereus.bench.client;

import io.nereus.bench.Figures;
import io.nereus.bench.ledger.InFlight;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** The state before a restart: thousands of topics, and bytes on a few of them; and the first publish after it. */
final class ManyTopics {

    private static final int AT_A_TIME = 64;
    private static final int SECONDS = 60;
    private static final int BATCHED_OUTSTANDING = 4096;

    private ManyTopics() {
    }

    /** Makes topics with one message each. */
    static Figures create(PulsarClient client, String prefix, int topics) throws Exception {
        long start = System.nanoTime();
        InFlight creations = new InFlight(AT_A_TIME, SECONDS);
        for (int i = 0; i < topics; i++) {
            creations.enter();
            creations.follow(client.newProducer().topic(prefix + i).enableBatching(false).createAsync()
                .thenCompose(producer -> producer.sendAsync(Payload.plain()).thenCompose(id -> producer.closeAsync())));
        }
        creations.drain();
        return new Figures().with("seconds", (System.nanoTime() - start) / 1e9).with("all", topics);
    }

    /** Writes so many messages in batches, which a subscription keeps. */
    static Figures fill(PulsarClient client, String topic, long messages) throws Exception {
        try (Consumer<byte[]> keeper = client.newConsumer().topic(topic).subscriptionName("keep").receiverQueueSize(1)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            keeper.pause();
        }
        try (FullLoad load = new FullLoad(client, List.of(topic), FullLoad.Batching.BATCHES_OF_64_KIB, BATCHED_OUTSTANDING)) {
            return load.fill(messages);
        }
    }

    /** Tries until one message to the topic has its receipt; the client tries often, so that its own waits do not count. */
    static Figures first(String url, String topic) throws Exception {
        long start = System.nanoTime();
        try (PulsarClient client = PulsarClient.builder().serviceUrl(url).startingBackoffInterval(20, TimeUnit.MILLISECONDS)
                .maxBackoffInterval(100, TimeUnit.MILLISECONDS).operationTimeout(2, TimeUnit.SECONDS)
                .connectionTimeout(1, TimeUnit.SECONDS).build()) {
            while (true) {
                try (Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false).create()) {
                    producer.send(Payload.plain());
                    return new Figures().with("seconds", (System.nanoTime() - start) / 1e9).with("all", 1);
                } catch (PulsarClientException notYet) {
                    if (System.nanoTime() - start > TimeUnit.MINUTES.toNanos(5)) {
                        throw notYet;
                    }
                    Thread.sleep(20);
                }
            }
        }
    }
}
