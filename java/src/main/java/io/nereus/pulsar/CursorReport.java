package io.nereus.pulsar;

import io.nereus.pulsar.cursor.AckState;
import io.nereus.pulsar.cursor.CursorLedger;
import io.nereus.pulsar.cursor.CursorProgress;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats;
import org.apache.pulsar.common.util.DateFormatter;

/** Fills a cursor's part of the report of {@code pulsar-admin topics stats-internal}. */
final class CursorReport {

    private CursorReport() {
    }

    /**
     * @param rangesShown most ranges of acknowledged entries that are spelled out
     */
    static ManagedLedgerInternalStats.CursorStats of(NereusManagedCursor cursor, CursorProgress progress,
            int readsUnderWay, boolean waiting, String state, long openedMillis, int rangesShown) {
        ManagedLedgerInternalStats.CursorStats report = new ManagedLedgerInternalStats.CursorStats();
        report.markDeletePosition = cursor.getMarkDeletedPosition().toString();
        report.readPosition = cursor.getReadPosition().toString();
        report.waitingReadOp = waiting;
        report.pendingReadOps = readsUnderWay;
        report.messagesConsumedCounter = progress.ackedTotal();
        report.cursorLedger = -1;
        report.cursorLedgerLastEntry = -1;
        report.individuallyDeletedMessages = ranges(cursor.ledger, progress, rangesShown);
        report.lastLedgerSwitchTimestamp = DateFormatter.format(openedMillis);
        report.state = state;
        report.active = cursor.isActive();
        report.numberOfEntriesSinceFirstNotAckedMessage = cursor.getNumberOfEntriesSinceFirstNotAckedMessage();
        report.totalNonContiguousDeletedMessagesRange = cursor.getTotalNonContiguousDeletedMessagesRange();
        report.properties = cursor.getProperties();
        return report;
    }

    /** Pulsar's notation, each range with an exclusive lower and an inclusive upper end. */
    private static String ranges(CursorLedger ledger, CursorProgress progress, int limit) {
        StringBuilder text = new StringBuilder("[");
        String separator = "";
        for (AckState.Range range : progress.firstRanges(limit)) {
            text.append(separator).append('(').append(ledger.position(range.start() - 1)).append("..")
                    .append(ledger.position(range.end() - 1)).append(']');
            separator = ",";
        }
        int more = progress.ranges() - limit;
        if (more > 0) {
            text.append(", and ").append(more).append(" more");
        }
        return text.append(']').toString();
    }
}
