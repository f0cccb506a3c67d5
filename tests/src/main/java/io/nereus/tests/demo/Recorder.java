package io.nereus.tests.demo;

import io.nereus.tests.history.Event;
import io.nereus.tests.history.HistoryWriter;
import io.nereus.tests.history.MsgId;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.impl.ChunkMessageIdImpl;

/**
 * Writes the producers' side into the history and remembers a sample of the message ids in their serialised form, as an
 * application that stores them would. Thread-safe.
 */
final class Recorder {

    /** A remembered id: the bytes an application would have stored, and what they stand for; {@code exact} as in the receipt. */
    record Remembered(String topic, byte[] serialized, MsgId id, boolean exact) { }

    private static final int REMEMBERED_OF_EACH_TOPIC = 8;

    private final HistoryWriter history;
    private final SplittableRandom random;
    private final Map<String, List<Remembered>> sample = new HashMap<>();
    private final Map<String, Long> receipts = new HashMap<>();

    Recorder(HistoryWriter history, long seed) {
        this.history = history;
        this.random = new SplittableRandom(seed);
    }

    HistoryWriter history() {
        return history;
    }

    void sent(String topic, String producer, long sequence, byte[] content) {
        String hash = Content.hash(content);
        history.append(t -> new Event.Sent(t, topic, producer, sequence, hash, content.length));
    }

    void receipt(String topic, String producer, long sequence, MessageId id) {
        MsgId place = MsgId.of(id);
        boolean exact = !(id instanceof ChunkMessageIdImpl);
        history.append(t -> new Event.Receipt(t, topic, producer, sequence, place, exact));
        if (place.isKnown()) {
            remember(topic, id, place, exact);
        }
    }

    void sendFailed(String topic, String producer, long sequence, Throwable reason) {
        history.append(t -> new Event.SendFailed(t, topic, producer, sequence, reason.toString()));
    }

    /** A uniform sample of the ids of each topic: the first ones stay with falling probability. */
    private synchronized void remember(String topic, MessageId id, MsgId place, boolean exact) {
        long count = receipts.merge(topic, 1L, Long::sum);
        List<Remembered> kept = sample.computeIfAbsent(topic, t -> new ArrayList<>());
        Remembered remembered = new Remembered(topic, id.toByteArray(), place, exact);
        if (kept.size() < REMEMBERED_OF_EACH_TOPIC) {
            kept.add(remembered);
            return;
        }
        long slot = random.nextLong(count);
        if (slot < REMEMBERED_OF_EACH_TOPIC) {
            kept.set((int) slot, remembered);
        }
    }

    synchronized List<Remembered> remembered() {
        return sample.values().stream().flatMap(List::stream).toList();
    }
}
