package io.nereus.tests.history;

import java.util.ArrayList;
import java.util.List;

/**
 * Learns from the producers' receipts up to when the broker had certainly flushed what it was given: a message that was
 * sent after something else and has its receipt proves a flush after that. An acknowledgement may have to wait for one
 * flush that is under way and then for its own, so two flushes, one after the other, must be proven; and because threads
 * of a busy machine may be late, none younger than {@link #AT_LEAST_MILLIS} is believed.
 */
final class FlushWatch {

    static final long AT_LEAST_MILLIS = 500;

    private record Flush(long sentMillis, long receiptMillis) { }

    private final List<Flush> flushes = new ArrayList<>();

    /** A message was sent and its receipt came. */
    void receipt(long sentMillis, long receiptMillis) {
        flushes.add(new Flush(sentMillis, receiptMillis));
    }

    /** The time before which everything that the broker had confirmed was durable when it was killed at {@code millis}. */
    long flushedAllBefore(long millis) {
        return Math.min(millis - AT_LEAST_MILLIS, sentBeforeReceiptOf(sentBeforeReceiptOf(millis)));
    }

    /** When the last message was sent whose receipt came by then. */
    private long sentBeforeReceiptOf(long millis) {
        return flushes.stream().filter(flush -> flush.receiptMillis <= millis).mapToLong(Flush::sentMillis).max()
                .orElse(Long.MIN_VALUE / 2);
    }
}
