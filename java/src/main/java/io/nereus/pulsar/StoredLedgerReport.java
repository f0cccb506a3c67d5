package io.nereus.pulsar;

import io.nereus.pulsar.bridge.CursorState;
import io.nereus.pulsar.bridge.LedgerDescription;
import io.nereus.pulsar.compat.LedgerDetails;
import io.nereus.pulsar.cursor.AckState;
import java.util.ArrayList;
import java.util.TreeMap;
import org.apache.bookkeeper.mledger.ManagedLedgerInfo;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.policies.data.PersistentOfflineTopicStats;
import org.apache.pulsar.common.util.DateFormatter;
import org.apache.pulsar.metadata.api.Stat;

/**
 * Reports on a ledger that need not be open, from its description: Pulsar's managed-ledger info and the offline
 * backlog. Where Pulsar reports the version of a metadata node, the incarnation of the topic is reported.
 */
final class StoredLedgerReport {

    private static final int RANGES_REPORTED = 1000;

    private final LedgerDescription description;
    private final Projection projection;
    private final SpanTable spans;

    StoredLedgerReport(LedgerDescription description) {
        this.description = description;
        this.projection = new Projection(description.firstLedgerId(), description.spanBits());
        this.spans = new SpanTable(projection, description.spans(), description.state().trim(),
            description.state().end());
    }

    /** The report of a topic that has a registry node and was never opened. */
    static ManagedLedgerInfo announced(Stat node) {
        ManagedLedgerInfo info = new ManagedLedgerInfo();
        info.version = node.getVersion();
        info.creationDate = DateFormatter.format(node.getCreationTimestamp());
        info.modificationDate = DateFormatter.format(node.getModificationTimestamp());
        info.ledgers = new ArrayList<>();
        info.cursors = new TreeMap<>();
        return info;
    }

    /** The report of {@code pulsar-admin topics info-internal}; at most 1,000 ranges per cursor. */
    ManagedLedgerInfo managedLedgerInfo() {
        ManagedLedgerInfo info = new ManagedLedgerInfo();
        info.version = description.incarnation();
        info.creationDate = DateFormatter.format(description.creationMillis());
        info.modificationDate =
            DateFormatter.format(Math.max(description.creationMillis(), description.state().lastAppendMillis()));
        info.ledgers = new ArrayList<>();
        for (LedgerDetails span : spans.details().values()) {
            ManagedLedgerInfo.LedgerInfo ledger = new ManagedLedgerInfo.LedgerInfo();
            ledger.ledgerId = span.ledgerId();
            ledger.entries = span.entries();
            ledger.size = span.bytes();
            ledger.timestamp = span.closedMillis();
            ledger.isOffloaded = false;
            info.ledgers.add(ledger);
        }
        if (description.state().terminated()) {
            info.terminatedPosition = positionInfo(projection.position(description.state().end() - 1));
        }
        TreeMap<String, String> properties = new TreeMap<>(LedgerProperties.visible(description.properties()));
        if (!properties.isEmpty()) {
            info.properties = properties;
        }
        info.cursors = new TreeMap<>();
        for (CursorState cursor : description.cursors()) {
            info.cursors.put(cursor.name(), cursorInfo(cursor));
        }
        return info;
    }

    private ManagedLedgerInfo.CursorInfo cursorInfo(CursorState cursor) {
        ManagedLedgerInfo.CursorInfo info = new ManagedLedgerInfo.CursorInfo();
        info.version = description.incarnation();
        info.creationDate = DateFormatter.format(description.creationMillis());
        info.modificationDate = info.creationDate;
        info.cursorsLedgerId = -1; // stock's mark for "the position is right here"
        info.markDelete = positionInfo(projection.markDeletePosition(cursor.markDeleteEnd()));
        if (!cursor.positionProperties().isEmpty()) {
            info.properties = new TreeMap<>(cursor.positionProperties());
        }
        for (AckState.Range range : acks(cursor).firstRanges(RANGES_REPORTED)) {
            ManagedLedgerInfo.MessageRangeInfo reported = new ManagedLedgerInfo.MessageRangeInfo();
            reported.from = positionInfo(projection.position(range.start() - 1));
            reported.to = positionInfo(projection.position(range.end() - 1));
            if (info.individualDeletedMessages == null) {
                info.individualDeletedMessages = new ArrayList<>();
            }
            info.individualDeletedMessages.add(reported);
        }
        return info;
    }

    /** Fills the offline statistics; {@code perLedger} adds a line for each span. */
    void addTo(PersistentOfflineTopicStats stats, boolean perLedger) {
        stats.totalMessages = description.state().entries();
        stats.storageSize = description.state().bytes();
        if (perLedger) {
            for (LedgerDetails span : spans.details().values()) {
                stats.addLedgerDetails(span.entries(), span.closedMillis(),
                    span.bytes(), span.ledgerId());
            }
        }
        long end = description.state().end();
        for (CursorState cursor : description.cursors()) {
            AckState acks = acks(cursor);
            long start = Math.max(acks.markDeleteEnd(), description.state().trim());
            long backlog = Math.max(0, end - start - acks.ackedIn(start, end));
            stats.messageBacklog += backlog;
            stats.addCursorDetails(cursor.name(), backlog, projection.ledgerId(start));
        }
    }

    private static AckState acks(CursorState cursor) {
        return AckState.recovered(cursor.markDeleteEnd(), cursor.pages());
    }

    private static ManagedLedgerInfo.PositionInfo positionInfo(Position position) {
        ManagedLedgerInfo.PositionInfo info = new ManagedLedgerInfo.PositionInfo();
        info.ledgerId = position.getLedgerId();
        info.entryId = position.getEntryId();
        return info;
    }
}
