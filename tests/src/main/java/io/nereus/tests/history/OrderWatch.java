package io.nereus.tests.history;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * Follows what one scan or one subscription was shown of one topic partition and reports steps against an order.
 *
 * <p>Two orders are known. Of places: each message that one consumer is given is at a later place than the one before;
 * an interruption permits one step back, because a broker starts again at the first unacknowledged message. Of first
 * occurrences: the first time a message of a line (a producer, or a producer's key) is seen by anyone, no later message
 * of that line was seen before.
 */
final class OrderWatch {

    private final String who;
    private final Findings reordered;
    private final Map<String, Long> newestOfLine = new HashMap<>();
    private final Set<MessageKey> seen = new HashSet<>();
    private final Map<String, MsgId> lastOfConsumer = new HashMap<>();
    private final Set<String> mayStepBack = new HashSet<>();

    OrderWatch(String who, Findings reordered) {
        this.who = who;
        this.reordered = reordered;
    }

    void interrupted(String consumer) {
        mayStepBack.add(consumer);
    }

    /** The same place twice is not a step back; it is counted where duplicates are. */
    void place(String consumer, MsgId id) {
        MsgId last = lastOfConsumer.put(consumer, id);
        if (last != null && id.compareTo(last) < 0 && !mayStepBack.remove(consumer)) {
            reordered.add(who + " " + last + " " + id, who + " went back from " + last + " to " + id);
        }
    }

    void occurrence(String line, MessageKey message) {
        if (!seen.add(message)) {
            return;
        }
        Long newest = newestOfLine.get(line);
        if (newest != null && message.sequence() < newest) {
            reordered.add(who + " " + message,
                    who + " showed " + message + " for the first time after " + newest + " of the same line " + line);
        } else {
            newestOfLine.put(line, message.sequence());
        }
    }
}
