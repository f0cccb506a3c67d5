package io.nereus.pulsar;

import io.nereus.pulsar.compat.LedgerDetails;
import java.util.ArrayList;
import java.util.HashMap;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats;
import org.apache.pulsar.common.util.DateFormatter;

/**
 * Fills the report of {@code pulsar-admin topics stats-internal}. Spans stand for ledgers; ledger metadata is left out,
 * because it describes BookKeeper ledgers and there are none.
 */
final class InternalStats {

    private InternalStats() {
    }

    static ManagedLedgerInternalStats of(NereusManagedLedger ledger) {
        ManagedLedgerInternalStats stats = new ManagedLedgerInternalStats();
        stats.entriesAddedCounter = ledger.committedEnd();
        stats.numberOfEntries = ledger.getNumberOfEntries();
        stats.totalSize = ledger.getTotalSize();
        stats.currentLedgerEntries = ledger.spans().openEntries();
        stats.currentLedgerSize = ledger.spans().openBytes();
        stats.lastLedgerCreatedTimestamp = DateFormatter.format(ledger.creationMillis());
        stats.waitingCursorsCount = ledger.waitingCursors();
        stats.pendingAddEntriesCount = ledger.getPendingAddEntriesCount();
        stats.lastConfirmedEntry = ledger.getLastConfirmedEntry().toString();
        stats.state = ledger.state().stockName();
        stats.ledgers = new ArrayList<>();
        for (LedgerDetails span : ledger.spans().details().values()) {
            ManagedLedgerInternalStats.LedgerInfo info = new ManagedLedgerInternalStats.LedgerInfo();
            info.ledgerId = span.ledgerId();
            info.entries = span.entries();
            info.size = span.bytes();
            info.offloaded = false;
            info.underReplicated = false;
            stats.ledgers.add(info);
        }
        stats.cursors = new HashMap<>();
        for (ManagedCursor cursor : ledger.getCursors()) {
            stats.cursors.put(cursor.getName(), ((NereusManagedCursor) cursor).internalStats());
        }
        return stats;
    }
}
