package io.nereus.pulsar.bridge;

import java.util.List;
import java.util.Map;

/**
 * Everything that is known of a ledger at one moment.
 *
 * @param firstLedgerId first virtual ledger id of the incarnation
 * @param spanBits log2 of the entries in one virtual ledger
 * @param incarnation number of this life of the name
 * @param ownerEpoch epoch under which the ledger was opened, 0 if it was not opened for writing
 * @param creationMillis broker clock at creation
 * @param state state at that moment
 * @param properties properties of the ledger
 * @param spans live spans, ascending
 * @param cursors durable cursors
 */
public record LedgerDescription(long firstLedgerId, int spanBits, long incarnation, long ownerEpoch,
                                long creationMillis, StreamState state, Map<String, String> properties,
                                List<SpanInfo> spans, List<CursorState> cursors) {
}
