package io.nereus.tests.history;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What one subscription asked to acknowledge in one topic partition, and which of it is persisted: known only when the
 * broker or the topic goes away, by the age of the receipts at that moment. Fed in order of time.
 */
final class AckWatch {

    private record Confirmed(long millis, MsgId id) { }

    private final Set<MsgId> requested = new HashSet<>();
    private MsgId requestedUpTo;
    private final Map<MsgId, Long> confirmed = new HashMap<>();
    private final List<Confirmed> confirmedUpTo = new ArrayList<>();
    private final Set<MsgId> persisted = new HashSet<>();
    private MsgId persistedUpTo;

    void requested(MsgId id, Event.Reach reach) {
        if (reach == Event.Reach.ONE) {
            requested.add(id);
        } else {
            requestedUpTo = later(requestedUpTo, id);
        }
    }

    void confirmed(long millis, MsgId id, Event.Reach reach) {
        if (reach == Event.Reach.ONE) {
            confirmed.putIfAbsent(id, millis);
        } else {
            confirmedUpTo.add(new Confirmed(millis, id));
        }
    }

    /** From now on every acknowledgement confirmed at {@code millis} or before counts as persisted. */
    void persistedUntil(long millis) {
        confirmed.forEach((id, at) -> {
            if (at <= millis) {
                persisted.add(id);
            }
        });
        for (Confirmed upTo : confirmedUpTo) {
            if (upTo.millis <= millis) {
                persistedUpTo = later(persistedUpTo, upTo.id);
            }
        }
    }

    boolean isRequested(MsgId id) {
        return requested.contains(id) || covers(requestedUpTo, id);
    }

    boolean isPersisted(MsgId id) {
        return persisted.contains(id) || covers(persistedUpTo, id);
    }

    private static boolean covers(MsgId upTo, MsgId id) {
        return upTo != null && id.compareTo(upTo) <= 0;
    }

    private static MsgId later(MsgId a, MsgId b) {
        return a == null || a.compareTo(b) < 0 ? b : a;
    }
}
