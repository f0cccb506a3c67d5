package io.nereus.tests.history;

import io.nereus.tests.history.Event.Reach;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * What one subscription asked to acknowledge in one topic partition, and which of it is persisted: known only when the
 * broker or the topic goes away, by the age of the receipts at that moment. Fed in order of time.
 *
 * <p>What is not known to be persisted then may be lost, as if it had never been asked for: its receipt proves nothing
 * about later outages, and a receipt that is written down after the outage for a request from before it proves nothing
 * at all.
 */
final class AckWatch {

    private record Ack(MsgId id, Reach reach) { }

    private final Covered requested = new Covered();
    private final Covered persisted = new Covered();
    /** Requests since the last outage. */
    private final Set<Ack> open = new HashSet<>();
    /** When those of them that were confirmed first were. */
    private final Map<Ack, Long> confirmed = new HashMap<>();

    void requested(MsgId id, Reach reach) {
        requested.add(id, reach);
        open.add(new Ack(id, reach));
    }

    void confirmed(long millis, MsgId id, Reach reach) {
        Ack ack = new Ack(id, reach);
        if (open.contains(ack)) {
            confirmed.putIfAbsent(ack, millis);
        }
    }

    /** An outage: what was confirmed at {@code persistedUntil} or before is persisted, everything else is in doubt. */
    void gone(long persistedUntil) {
        confirmed.forEach((ack, millis) -> {
            if (millis <= persistedUntil) {
                persisted.add(ack.id, ack.reach);
            }
        });
        confirmed.clear();
        open.clear();
    }

    boolean isRequested(MsgId id) {
        return requested.contains(id);
    }

    boolean isPersisted(MsgId id) {
        return persisted.contains(id);
    }

    /** Messages covered by acknowledgements of single messages and up to a message. */
    private static final class Covered {
        private final Set<MsgId> single = new HashSet<>();
        private MsgId upTo;

        void add(MsgId id, Reach reach) {
            if (reach == Reach.ONE) {
                single.add(id);
            } else if (upTo == null || upTo.compareTo(id) < 0) {
                upTo = id;
            }
        }

        boolean contains(MsgId id) {
            return single.contains(id) || (upTo != null && id.compareTo(upTo) <= 0);
        }
    }
}
