package io.nereus.pulsar;

import io.nereus.pulsar.compat.LedgerInfos;
import java.util.ArrayList;
import java.util.HashMap;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.proto.MLDataFormats.ManagedLedgerInfo.LedgerInfo;
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
        stats.lastLedgerCreatedTimestamp = DateFormatter.format(ledger.opened().creationMillis());
        stats.waitingCursorsCount = ledger.waitingCursors();
        stats.pendingAddEntriesCount = ledger.getPendingAddEntriesCount();
        stats.lastConfirmedEntry = ledger.getLastConfirmedEntry().toString();
        stats.state = ledger.state().stockName();
        stats.ledgers = new ArrayList<>();
        for (LedgerInfo span : ledger.getLedgersInfo().values()) {
            ManagedLedgerInternalStats.LedgerInfo info = new ManagedLedgerInternalStats.LedgerInfo();
            info.ledgerId = LedgerInfos.ledgerId(span);
            info.entries = LedgerInfos.entries(span);
            info.size = LedgerInfos.size(span);
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
