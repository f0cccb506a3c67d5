package io.nereus.pulsar.cursor;

import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Position;

/**
 * What the broker asked for in one read.
 *
 * @param maxEntries most entries to deliver, at least 1
 * @param maxBytes   soft limit in bytes, at least 1; {@code Long.MAX_VALUE} for none
 * @param limit      exclusive bound of the offsets
 * @param skip       positions for which it answers true are passed over; null for none. If it throws, the read fails
 * @param callback   called exactly once, on the ledger's executor, with no lock held
 * @param ctx        handed through
 */
public record ReadRequest(int maxEntries, long maxBytes, long limit, Predicate<Position> skip,
                          ReadEntriesCallback callback, Object ctx) {

    /** Refuses a read of nothing. */
    public ReadRequest {
        if (maxEntries < 1) {
            throw new IllegalArgumentException("a read of " + maxEntries + " entries");
        }
    }
}
