package io.nereus.tests.demo;

import io.nereus.tests.history.Event;
import io.nereus.tests.history.HistoryWriter;
import io.nereus.tests.history.MsgId;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.ReaderBuilder;
import org.apache.pulsar.client.api.Schema;

/** Reads topics back with readers, from the beginning and from remembered message ids, and records what they show. */
final class ReadBack {

    private static final int READ_TIMEOUT_SECONDS = 20;

    private final PulsarClient client;
    private final HistoryWriter history;

    ReadBack(PulsarClient client, HistoryWriter history) {
        this.client = client;
        this.history = history;
    }

    /**
     * A reader from earliest, to the end. A reader that is promised a message and does not get it within 20 s leaves
     * the scan without its end; the checker then counts what is missing.
     *
     * @return how many messages it showed
     */
    long scan(String part, String scan) throws IOException {
        long shown = 0;
        try (Reader<?> reader = builder().topic(part).startMessageId(MessageId.earliest).create()) {
            history.append(t -> new Event.ScanStarted(t, part, scan));
            while (reader.hasMessageAvailable()) {
                Message<?> message = reader.readNext(READ_TIMEOUT_SECONDS, TimeUnit.SECONDS);
                if (message == null) {
                    return shown;
                }
                String hash = Content.hash(message.getData());
                MsgId id = MsgId.of(message.getMessageId());
                history.append(t -> new Event.Scanned(t, part, scan, id, message.getProducerName(),
                        message.getSequenceId(), hash));
                shown++;
            }
            history.append(t -> new Event.ScanEnded(t, part, scan));
        }
        return shown;
    }

    /**
     * A reader started at the remembered id itself; its first message is what the id stands for. The id of a message in
     * chunks starts the reader at the first chunk, so whole messages that lie between its chunks come before it.
     */
    void fetch(Recorder.Remembered remembered) throws IOException {
        MessageId id = MessageId.fromByteArray(remembered.serialized());
        String topic = remembered.topic();
        try (Reader<?> reader = builder().topic(topic).startMessageId(id).startMessageIdInclusive().create()) {
            Message<?> message = reader.readNext(READ_TIMEOUT_SECONDS, TimeUnit.SECONDS);
            while (message != null && !remembered.exact() && MsgId.of(message.getMessageId()).compareTo(remembered.id()) < 0) {
                message = reader.readNext(READ_TIMEOUT_SECONDS, TimeUnit.SECONDS);
            }
            MsgId got = message == null ? MsgId.UNKNOWN : MsgId.of(message.getMessageId());
            String producer = message == null ? "" : message.getProducerName();
            long sequence = message == null ? -1 : message.getSequenceId();
            String hash = message == null ? "" : Content.hash(message.getData());
            history.append(t -> new Event.Fetched(t, topic, remembered.id(), got, producer, sequence, hash));
        }
    }

    /** Raw bytes whatever the topic's schema is, and a queue that stays small with the largest messages. */
    private ReaderBuilder<byte[]> builder() {
        return client.newReader(Schema.BYTES).receiverQueueSize(20);
    }
}
