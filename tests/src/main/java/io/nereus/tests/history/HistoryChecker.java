package io.nereus.tests.history;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Judges a history: a pure function from what clients recorded to the {@link Verdict}. It never asks a broker.
 *
 * <p>What it counts:
 * <ul>
 * <li>lost: acknowledged to the producer, and then not readable. Not shown, or shown with other content, by a scan
 *     of its topic that started after its receipt; not given back for its remembered id; or kept from a subscription
 *     that had not asked to acknowledge it, after the last time the broker or the topic went away.
 *     A topic that no scan read after that, or a scan that did not end, has lost everything it did not show.
 * <li>duplicated: one place twice (in one scan, or in two receipts); one sequence id at two places of a deduplicated
 *     topic (elsewhere a resend after a lost receipt is legal); a message that nobody sent, or not to that topic.
 * <li>reordered: see {@link OrderWatch}. Scans and exclusive and failover subscriptions keep both orders,
 *     key-shared subscriptions the order of first occurrences of each producer's key, shared ones none.
 * <li>acked-again: delivered to a subscription although its acknowledgement was persisted: confirmed before the topic
 *     was closed, or confirmed long enough before the broker was killed (the flush interval and one flush).
 * </ul>
 *
 * <p>A history that contradicts itself (a receipt for a message that was not sent, a delivery to an undeclared
 * subscription) is a defect of the recording party: {@link IllegalArgumentException}.
 */
public final class HistoryChecker {

    private record Acknowledged(String topic, MsgId id, boolean exact, long millis) { }

    private record SubscriptionKey(String topic, String subscription) { }

    private static final class Scan {
        final String topic;
        final String name;
        final long startMillis;
        final OrderWatch order;
        final Map<MsgId, MessageKey> places = new HashMap<>();
        final Map<MessageKey, MsgId> messages = new HashMap<>();
        boolean ended;

        Scan(Event.ScanStarted started, Findings reordered) {
            topic = started.topic();
            name = "scan " + started.scan() + " of " + topic;
            startMillis = started.millis();
            order = new OrderWatch(name, reordered);
        }
    }

    private static final class Subscription {
        final String topic;
        final String name;
        final Event.Delivery delivery;
        final OrderWatch order;
        final AckWatch acks = new AckWatch();
        final Map<MsgId, Long> lastDelivery = new HashMap<>();
        final Map<MessageKey, MsgId> places = new HashMap<>();
        boolean drained;

        Subscription(Event.Subscribed subscribed, Findings reordered) {
            topic = subscribed.topic();
            name = "subscription " + subscribed.subscription() + " of " + topic;
            delivery = subscribed.delivery();
            order = new OrderWatch(name, reordered);
        }
    }

    private final long ackFlushMillis;
    private final FlushWatch flushes = new FlushWatch();
    private final Findings lost = new Findings("lost");
    private final Findings unread = new Findings("not read");
    private final Findings duplicated = new Findings("duplicated");
    private final Findings reordered = new Findings("reordered");
    private final Findings ackedAgain = new Findings("acked-again");

    private final Map<String, Boolean> deduplicated = new HashMap<>();
    private final Map<MessageKey, Event.Sent> sent = new LinkedHashMap<>();
    private final Map<MessageKey, Acknowledged> acknowledged = new LinkedHashMap<>();
    private final Map<String, Map<MsgId, MessageKey>> receiptPlaces = new HashMap<>();
    private final Map<String, Scan> scans = new LinkedHashMap<>();
    private final Map<SubscriptionKey, Subscription> subscriptions = new LinkedHashMap<>();
    private final List<Event.Gone> outages = new ArrayList<>();
    private final List<Event.Fetched> fetches = new ArrayList<>();

    private HistoryChecker(long ackFlushMillis) {
        this.ackFlushMillis = ackFlushMillis;
    }

    /**
     * @param history        all events, in the order of their times
     * @param ackFlushMillis how long the broker may keep an acknowledgement before it begins to persist it
     *                       ({@code nereusAckFlushMillis}); how long a flush takes is taken from the history itself, see
     *                       {@link FlushWatch}
     */
    public static Verdict check(List<Event> history, long ackFlushMillis) {
        HistoryChecker checker = new HistoryChecker(ackFlushMillis);
        for (Event event : history) {
            checker.take(event);
        }
        return checker.verdict();
    }

    private void take(Event event) {
        if (event instanceof Event.Topic e) {
            deduplicated.put(e.topic(), e.deduplicated());
        } else if (event instanceof Event.Sent e) {
            require(sent.put(new MessageKey(e.producer(), e.sequence()), e) == null, "sent twice", e);
        } else if (event instanceof Event.Receipt e) {
            receipt(e);
        } else if (event instanceof Event.SendFailed e) {
            require(sent.containsKey(new MessageKey(e.producer(), e.sequence())), "failed without being sent", e);
        } else if (event instanceof Event.Subscribed e) {
            requireTopic(e.topic(), e);
            require(subscriptions.put(new SubscriptionKey(e.topic(), e.subscription()),
                    new Subscription(e, reordered)) == null, "subscribed twice", e);
        } else if (event instanceof Event.Received e) {
            received(e);
        } else if (event instanceof Event.Interrupted e) {
            subscription(e.topic(), e.subscription(), e).order.interrupted(e.consumer());
        } else if (event instanceof Event.AckRequested e) {
            subscription(e.topic(), e.subscription(), e).acks.requested(e.id(), e.reach());
        } else if (event instanceof Event.AckReceipt e) {
            subscription(e.topic(), e.subscription(), e).acks.confirmed(e.millis(), e.id(), e.reach());
        } else if (event instanceof Event.Drained e) {
            subscription(e.topic(), e.subscription(), e).drained = true;
        } else if (event instanceof Event.ScanStarted e) {
            requireTopic(e.topic(), e);
            require(scans.put(e.scan(), new Scan(e, reordered)) == null, "a scan of that name was there before", e);
        } else if (event instanceof Event.Scanned e) {
            scanned(e);
        } else if (event instanceof Event.ScanEnded e) {
            scan(e.scan(), e).ended = true;
        } else if (event instanceof Event.Fetched e) {
            fetches.add(e);
        } else if (event instanceof Event.Gone e) {
            gone(e);
        } else {
            throw new IllegalArgumentException("the checker does not know this kind of event: " + event);
        }
    }

    private void receipt(Event.Receipt e) {
        requireTopic(e.topic(), e);
        MessageKey message = new MessageKey(e.producer(), e.sequence());
        require(sent.containsKey(message), "a receipt for a message that was not sent", e);
        require(acknowledged.put(message, new Acknowledged(e.topic(), e.id(), e.exact(), e.millis())) == null,
                "a second receipt", e);
        if (e.id().isKnown()) {
            flushes.receipt(sent.get(message).millis(), e.millis());
            MessageKey other = receiptPlaces.computeIfAbsent(e.topic(), t -> new HashMap<>()).put(e.id(), message);
            if (other != null) {
                duplicated.add(e.topic() + " receipt " + e.id() + " " + message,
                        "the receipts of " + other + " and " + message + " name the same place " + e.id() + " of " + e.topic());
            }
        }
    }

    private void received(Event.Received e) {
        Subscription subscription = subscription(e.topic(), e.subscription(), e);
        MessageKey message = new MessageKey(e.producer(), e.sequence());
        if (!isGenuine(subscription.name, e.topic(), message, e.id(), e.hash())) {
            return;
        }
        switch (subscription.delivery) {
            case EXCLUSIVE, FAILOVER -> {
                subscription.order.place(e.consumer(), e.id());
                subscription.order.occurrence(e.producer(), message);
            }
            case KEY_SHARED -> subscription.order.occurrence(e.producer() + " key " + e.key(), message);
            case SHARED -> { }
        }
        if (subscription.acks.isPersisted(e.id())) {
            ackedAgain.add(subscription.name + e.id(), subscription.name + " was given " + message + " at " + e.id()
                    + " again (redelivery count " + e.redeliveries() + ") after its acknowledgement was persisted");
        }
        subscription.lastDelivery.put(e.id(), e.millis());
        subscription.places.put(message, e.id());
    }

    private void scanned(Event.Scanned e) {
        Scan scan = scan(e.scan(), e);
        MessageKey message = new MessageKey(e.producer(), e.sequence());
        if (!isGenuine(scan.name, e.topic(), message, e.id(), e.hash())) {
            return;
        }
        scan.order.place(e.scan(), e.id());
        scan.order.occurrence(e.producer(), message);
        MessageKey before = scan.places.put(e.id(), message);
        if (before != null) {
            duplicated.add(e.topic() + " place " + e.id() + " " + message,
                    scan.name + " showed the place " + e.id() + " twice: " + before + " and " + message);
        }
        MsgId first = scan.messages.get(message);
        if (first != null && before == null && deduplicated.get(e.topic())) {
            duplicated.add(e.topic() + " " + e.id() + " " + message,
                    scan.name + " showed " + message + " at " + first + " and at " + e.id() + " although it deduplicates");
        }
        Acknowledged receipt = acknowledged.get(message);
        boolean atItsPlace = receipt != null && receipt.id.equals(e.id());
        if (first == null || atItsPlace) {
            scan.messages.put(message, e.id());
        }
    }

    private void gone(Event.Gone e) {
        outages.add(e);
        long persistedUntil = e.outage() == Event.Outage.CLOSED ? e.startMillis()
                : flushes.flushedAllBefore(e.startMillis()) - ackFlushMillis;
        for (Subscription subscription : subscriptions.values()) {
            if (concerns(e, subscription.topic)) {
                subscription.acks.gone(persistedUntil);
            }
        }
    }

    /** Whether the message was sent to this topic with this content; reports it if not. */
    private boolean isGenuine(String who, String topic, MessageKey message, MsgId id, String hash) {
        Event.Sent original = sent.get(message);
        if (original == null || !isPartOf(topic, original.topic())) {
            duplicated.add(topic + " stranger " + id,
                    who + " showed " + message + " at " + id + ", which nobody sent there");
            return false;
        }
        if (!original.hash().equals(hash)) {
            lost.add(message, who + " showed " + message + " at " + id + " with content " + hash + ", sent was "
                    + original.hash() + " (" + original.size() + " bytes)");
            return false;
        }
        return true;
    }

    private Verdict verdict() {
        acknowledged.forEach((message, receipt) -> {
            judgeScans(message, receipt);
            subscriptions.values().stream().filter(s -> s.topic.equals(receipt.topic))
                    .forEach(s -> judgeDelivery(s, message, receipt));
        });
        fetches.forEach(this::judgeFetch);
        List<String> evidence = new ArrayList<>();
        for (Findings findings : List.of(lost, duplicated, reordered, ackedAgain)) {
            evidence.addAll(findings.lines());
        }
        return new Verdict(acknowledged.size(), acknowledged.size() - unread.count(), lost.count(), duplicated.count(),
                reordered.count(), ackedAgain.count(), evidence);
    }

    private void judgeScans(MessageKey message, Acknowledged receipt) {
        boolean scanned = false;
        for (Scan scan : scans.values()) {
            if (!scan.topic.equals(receipt.topic) || scan.startMillis < receipt.millis
                    || scan.startMillis < lastGone(receipt.topic)) {
                continue;
            }
            scanned = true;
            MsgId shown = scan.messages.get(message);
            if (shown == null) {
                unread(message, scan.name + " did not show " + message + ", acknowledged at " + receipt.id
                        + (scan.ended ? "" : " (the scan did not come to its end)"));
            } else if (receipt.exact && receipt.id.isKnown() && !shown.equals(receipt.id)) {
                unread(message, scan.name + " showed " + message + " at " + shown + ", its receipt says " + receipt.id);
            }
        }
        if (!scanned) {
            unread(message, "no scan of " + receipt.topic + " was started after " + message + " was acknowledged and the"
                    + " topic was last gone");
        }
    }

    private void unread(MessageKey message, String explanation) {
        unread.add(message, explanation);
        lost.add(message, explanation);
    }

    private void judgeDelivery(Subscription subscription, MessageKey message, Acknowledged receipt) {
        MsgId place = receipt.exact && receipt.id.isKnown() ? receipt.id : subscription.places.get(message);
        Long delivered = place == null ? null : subscription.lastDelivery.get(place);
        if (delivered == null) {
            lost.add(message, subscription.name + " was never given " + message + ", acknowledged at " + receipt.id
                    + (subscription.drained ? "" : " (it was not drained)"));
        } else if (delivered < lastGone(subscription.topic) && !subscription.acks.isRequested(place)) {
            lost.add(message, subscription.name + " was not given " + message + " at " + place + " again after the topic"
                    + " was gone, although it had not been acknowledged");
        }
    }

    private void judgeFetch(Event.Fetched e) {
        Map<MsgId, MessageKey> places = receiptPlaces.getOrDefault(e.topic(), Map.of());
        MessageKey wanted = places.get(e.wanted());
        require(wanted != null, "an id was read that no receipt had named", e);
        MessageKey got = new MessageKey(e.producer(), e.sequence());
        if (!wanted.equals(got) || !sent.get(wanted).hash().equals(e.hash())) {
            lost.add(wanted, "reading " + e.topic() + " at the remembered id " + e.wanted() + " of " + wanted + " gave "
                    + (e.got().isKnown() ? got + " at " + e.got() + " with content " + e.hash() : "nothing"));
        }
    }

    /** When the topic was last certainly gone; {@link Long#MIN_VALUE} if it always served. */
    private long lastGone(String topic) {
        return outages.stream().filter(gone -> concerns(gone, topic)).mapToLong(Event.Gone::millis).max()
                .orElse(Long.MIN_VALUE);
    }

    private static boolean concerns(Event.Gone gone, String topic) {
        return gone.topic().isEmpty() || isPartOf(topic, gone.topic());
    }

    private static boolean isPartOf(String partition, String topic) {
        return partition.equals(topic) || partition.startsWith(topic + "-partition-");
    }

    private Subscription subscription(String topic, String name, Event event) {
        Subscription subscription = subscriptions.get(new SubscriptionKey(topic, name));
        require(subscription != null, "no such subscription was declared", event);
        return subscription;
    }

    private Scan scan(String name, Event event) {
        Scan scan = scans.get(name);
        require(scan != null, "no such scan was started", event);
        return scan;
    }

    private void requireTopic(String topic, Event event) {
        require(deduplicated.containsKey(topic), "the topic was not declared", event);
    }

    private static void require(boolean holds, String what, Event event) {
        if (!holds) {
            throw new IllegalArgumentException("the history contradicts itself: " + what + ": " + event);
        }
    }
}
