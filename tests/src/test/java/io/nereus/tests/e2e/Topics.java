package io.nereus.tests.e2e;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** The few things that nearly every test does with a topic of text messages. */
final class Topics {

    private static final int RECEIVE_SECONDS = 20;

    private Topics() { }

    static String name(String test) {
        return "persistent://public/default/" + test;
    }

    /** Sends {@code prefix0 .. prefix(count-1)} one by one, without batching. */
    static List<MessageId> send(PulsarClient client, String topic, String prefix, int count) throws PulsarClientException {
        List<MessageId> ids = new ArrayList<>();
        try (Producer<String> producer = client.newProducer(Schema.STRING).topic(topic).enableBatching(false).create()) {
            for (int i = 0; i < count; i++) {
                ids.add(producer.send(prefix + i));
            }
        }
        return ids;
    }

    static ConsumerBuilder<String> consumer(PulsarClient client, String topic, String subscription) {
        return client.newConsumer(Schema.STRING).topic(topic).subscriptionName(subscription).isAckReceiptEnabled(true)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).enableBatchIndexAcknowledgment(true)
                .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS);
    }

    /** Receives exactly {@code count} messages; fails if one does not come. */
    static List<Message<String>> receive(Consumer<String> consumer, int count) throws PulsarClientException {
        List<Message<String>> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message<String> message = consumer.receive(RECEIVE_SECONDS, TimeUnit.SECONDS);
            if (message == null) {
                throw new AssertionError("message " + i + " of " + count + " did not come; before it came " + values(messages));
            }
            messages.add(message);
        }
        return messages;
    }

    /** Everything a reader shows from the given id on (which is left out), to the end. */
    static List<String> readAll(PulsarClient client, String topic, MessageId start) throws Exception {
        try (Reader<String> reader = client.newReader(Schema.STRING).topic(topic).startMessageId(start).create()) {
            return readAll(reader);
        }
    }

    static List<String> readAll(Reader<String> reader) throws PulsarClientException {
        List<String> values = new ArrayList<>();
        while (reader.hasMessageAvailable()) {
            Message<String> message = reader.readNext(RECEIVE_SECONDS, TimeUnit.SECONDS);
            if (message == null) {
                throw new AssertionError("a promised message did not come; before it came " + values);
            }
            values.add(message.getValue());
        }
        return values;
    }

    static List<String> values(List<Message<String>> messages) {
        return messages.stream().map(Message::getValue).toList();
    }

    /** {@code prefix(from) .. prefix(to-1)}. */
    static List<String> expected(String prefix, int from, int to) {
        List<String> values = new ArrayList<>();
        for (int i = from; i < to; i++) {
            values.add(prefix + i);
        }
        return values;
    }
}
