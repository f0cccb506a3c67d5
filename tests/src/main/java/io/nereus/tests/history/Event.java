package io.nereus.tests.history;

/**
 * One thing that one party saw or did. Every event has {@code millis}: milliseconds of the machine's monotonic clock,
 * so events of several processes of one machine can be put in one order.
 *
 * <p>A message is named by its producer and the sequence id that the producer gave it; producer names are unique in a
 * history. {@code topic} is always one partition's full name, except in {@link Sent}: a producer of a partitioned
 * topic learns the partition from the receipt.
 */
public sealed interface Event {

    long millis();

    /** How a subscription hands out messages; it decides which orders the checker may demand. */
    enum Delivery { EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED }

    /** Which messages an acknowledgement covers: the one named, or it and all before it. */
    enum Reach { ONE, UP_TO }

    /** How a broker, or a topic on it, went away. */
    enum Outage {
        /** Killed without warning: an ack counts as persisted only if its receipt is old enough. */
        KILLED,
        /** Closed or unloaded in good order: every ack with a receipt from before it is persisted. */
        CLOSED
    }

    /** The topic exists from here on; {@code deduplicated}: the broker drops a sequence id that it already has. */
    record Topic(long millis, String topic, boolean deduplicated) implements Event { }

    /** A message was handed to the client library. {@code hash} and {@code size} (bytes) are of its content. */
    record Sent(long millis, String topic, String producer, long sequence, String hash, int size) implements Event { }

    /**
     * The broker's receipt: the message is stored at {@code id}, or stored and its place not told. {@code exact}: a
     * reader must find it at that very place. False for a message in chunks: a resend after a lost receipt may store
     * its last chunk twice, and the receipt then names the second copy while readers complete it with the first.
     */
    record Receipt(long millis, String topic, String producer, long sequence, MsgId id, boolean exact)
            implements Event { }

    /** The client library gave up on the message. Whether it is stored is open. */
    record SendFailed(long millis, String topic, String producer, long sequence, String reason) implements Event { }

    /** The subscription exists, from the topic's beginning, before the first message was sent. */
    record Subscribed(long millis, String topic, String subscription, Delivery delivery) implements Event { }

    /**
     * A consumer of a subscription handed a message to its user; {@code key} is empty for a message without one,
     * {@code redeliveries} what the broker says about earlier deliveries.
     */
    record Received(long millis, String topic, String subscription, String consumer, MsgId id, String producer,
                    long sequence, String key, int redeliveries, String hash) implements Event { }

    /** The consumer noticed that its connection had been lost, or asked for redelivery: the next message may be an earlier one. */
    record Interrupted(long millis, String topic, String subscription, String consumer) implements Event { }

    /** About to ask for an acknowledgement. */
    record AckRequested(long millis, String topic, String subscription, MsgId id, Reach reach) implements Event { }

    /** The broker confirmed the acknowledgement. */
    record AckReceipt(long millis, String topic, String subscription, MsgId id, Reach reach) implements Event { }

    /** The subscription has nothing more to hand out: all that it must ever deliver, it delivered before this. */
    record Drained(long millis, String topic, String subscription) implements Event { }

    /** A reader started at the topic's beginning. {@code scan} is unique in the history. */
    record ScanStarted(long millis, String topic, String scan) implements Event { }

    /** The reader's next message. */
    record Scanned(long millis, String topic, String scan, MsgId id, String producer, long sequence, String hash)
            implements Event { }

    /** The reader was told that the topic has no more messages. */
    record ScanEnded(long millis, String topic, String scan) implements Event { }

    /**
     * A reader was started at a message id remembered from a receipt; {@code got} and what follows it describe the
     * first message it was given ({@link MsgId#UNKNOWN}, empty and -1 if none came).
     */
    record Fetched(long millis, String topic, MsgId wanted, MsgId got, String producer, long sequence, String hash)
            implements Event { }

    /**
     * A broker (empty {@code topic}) or one topic went away; {@code startMillis}: from when on it may not have served
     * any more. Written when it is certainly gone, so {@code millis} is after the last thing it did.
     */
    record Gone(long millis, long startMillis, Outage outage, String topic) implements Event { }
}
