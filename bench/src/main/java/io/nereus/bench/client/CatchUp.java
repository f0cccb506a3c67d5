package io.nereus.bench.client;

import io.nereus.bench.Figures;
import io.nereus.bench.WorkerMain;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** A backlog and a reader that reads all of it from the beginning. */
final class CatchUp {

    private static final int OUTSTANDING = 1000;
    private static final int RECEIVER_QUEUE = 2000;
    private static final int SECONDS = 60;

    private CatchUp() {
    }

    /** Makes a backlog of unbatched messages that a subscription keeps. */
    static Figures fill(PulsarClient client, String topic, long messages) throws Exception {
        try (Consumer<byte[]> keeper = client.newConsumer().topic(topic).subscriptionName("keep").receiverQueueSize(1)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            keeper.pause();
        }
        try (FullLoad load = new FullLoad(client, java.util.List.of(topic), FullLoad.Batching.NONE, OUTSTANDING)) {
            return load.fill(messages);
        }
    }

    /** Reads so many messages from the beginning; {@code mb} is megabytes of payload per second. */
    static Figures read(PulsarClient client, String topic, long messages) throws Exception {
        WorkerMain.begin();
        long start = System.nanoTime();
        long bytes = 0;
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest)
                .receiverQueueSize(RECEIVER_QUEUE).create()) {
            for (long i = 0; i < messages; i++) {
                Message<byte[]> message = reader.readNext(SECONDS, TimeUnit.SECONDS);
                if (message == null) {
                    throw new IllegalStateException("no message within " + SECONDS + " s after " + i + " of " + messages);
                }
                bytes += message.size();
            }
            long nanos = System.nanoTime() - start;
            WorkerMain.end();
            return new Figures().with("mb", bytes * 1e3 / nanos).with("rate", messages * 1e9 / nanos)
                .with("seconds", nanos / 1e9).with("count", messages);
        }
    }
}
