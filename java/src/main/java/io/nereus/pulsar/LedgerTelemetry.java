package io.nereus.pulsar;

import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.metrics.BatchCallback;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.metrics.ObservableLongMeasurement;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursorAttributes;
import org.apache.bookkeeper.mledger.ManagedCursorMXBean;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerAttributes;
import org.apache.bookkeeper.mledger.ManagedLedgerMXBean;
import org.apache.pulsar.opentelemetry.Constants;

/**
 * The instruments of ledgers and cursors that dashboards of Pulsar know: Pulsar's names, units and attributes, which in
 * a stock broker come from the storage too.
 *
 * <p>Those of the entry cache are left out: there is none in Java; see {@code nereus.cache.*}. A collection reads counters
 * only, no entry and no native state.
 */
final class LedgerTelemetry implements AutoCloseable {

    private static final String PREFIX = "pulsar.broker.managed_ledger.";
    private static final String OPERATIONS = "{operation}";
    private static final String BYTES = "By";
    /** Pulsar writes the unit of bytes of cursors so. */
    private static final String CURSOR_BYTES = "{By}";

    private final ObservableLongMeasurement ledgers;
    private final ObservableLongMeasurement adds;
    private final ObservableLongMeasurement addedBytes;
    private final ObservableLongMeasurement addedBytesWithReplicas;
    private final ObservableLongMeasurement reads;
    private final ObservableLongMeasurement readBytes;
    private final ObservableLongMeasurement cacheMisses;
    private final ObservableLongMeasurement backlog;
    private final ObservableLongMeasurement markDeletes;
    private final ObservableLongMeasurement persists;
    private final ObservableLongMeasurement metadataPersists;
    private final ObservableLongMeasurement ackRanges;
    private final ObservableLongMeasurement cursorBytesOut;
    private final ObservableLongMeasurement cursorLogicalBytesOut;
    private final ObservableLongMeasurement cursorBytesIn;
    private final BatchCallback callback;

    LedgerTelemetry(OpenTelemetry openTelemetry, Supplier<Map<String, ManagedLedger>> open) {
        Meter meter = openTelemetry.getMeter(Constants.BROKER_INSTRUMENTATION_SCOPE_NAME);
        ledgers = upDown(meter, "count", "{managed_ledger}", "Managed ledgers");
        adds = upDown(meter, "message.outgoing.count", OPERATIONS, "Writes to this ledger");
        addedBytes = counter(meter, "message.outgoing.logical.size", BYTES, "Bytes written, excluding replicas");
        addedBytesWithReplicas =
            counter(meter, "message.outgoing.replicated.size", BYTES, "Bytes written, including replicas");
        reads = upDown(meter, "message.incoming.count", OPERATIONS, "Reads of this ledger");
        readBytes = counter(meter, "message.incoming.size", BYTES, "Bytes read from this ledger");
        cacheMisses = upDown(meter, "message.incoming.cache.miss.count", OPERATIONS, "Reads that missed the cache");
        backlog = upDown(meter, "backlog.count", "{message}", "Entries that cursors have not acknowledged");
        markDeletes = counter(meter, "mark_delete.count", OPERATIONS, "Mark-deletes");
        persists = counter(meter, "persist.operation.count", OPERATIONS, "Acknowledgement writes of a cursor");
        metadataPersists = counter(meter, "persist.mds.operation.count", OPERATIONS,
            "Acknowledgement writes of a cursor to the metadata store");
        ackRanges = upDown(meter, "message_range.count", "{range}", "Ranges acknowledged one by one");
        cursorBytesOut = counter(meter, "cursor.outgoing.size", CURSOR_BYTES, "Bytes written for a cursor");
        cursorLogicalBytesOut =
            counter(meter, "cursor.outgoing.logical.size", CURSOR_BYTES, "Bytes written for a cursor, without replicas");
        cursorBytesIn = counter(meter, "cursor.incoming.size", CURSOR_BYTES, "Bytes read for a cursor");
        callback = meter.batchCallback(() -> record(open.get()), ledgers, adds, addedBytes, addedBytesWithReplicas,
            reads, readBytes, cacheMisses, backlog, markDeletes, persists, metadataPersists, ackRanges, cursorBytesOut,
            cursorLogicalBytesOut, cursorBytesIn);
    }

    private static ObservableLongMeasurement upDown(Meter meter, String name, String unit, String help) {
        return meter.upDownCounterBuilder(PREFIX + name).setUnit(unit).setDescription(help).buildObserver();
    }

    private static ObservableLongMeasurement counter(Meter meter, String name, String unit, String help) {
        return meter.counterBuilder(PREFIX + name).setUnit(unit).setDescription(help).buildObserver();
    }

    private void record(Map<String, ManagedLedger> open) {
        ledgers.record(open.size());
        for (ManagedLedger ledger : open.values()) {
            record(ledger);
            for (ManagedCursor cursor : ledger.getCursors()) {
                record(cursor);
            }
        }
    }

    private void record(ManagedLedger ledger) {
        ManagedLedgerMXBean stats = ledger.getStats();
        ManagedLedgerAttributes attributes = ledger.getManagedLedgerAttributes();
        adds.record(stats.getAddEntrySucceedTotal(), attributes.getAttributesOperationSucceed());
        adds.record(stats.getAddEntryErrorsTotal(), attributes.getAttributesOperationFailure());
        addedBytes.record(stats.getAddEntryBytesTotal(), attributes.getAttributes());
        addedBytesWithReplicas.record(stats.getAddEntryWithReplicasBytesTotal(), attributes.getAttributes());
        reads.record(stats.getReadEntriesSucceededTotal(), attributes.getAttributesOperationSucceed());
        reads.record(stats.getReadEntriesErrorsTotal(), attributes.getAttributesOperationFailure());
        readBytes.record(stats.getReadEntriesBytesTotal(), attributes.getAttributes());
        cacheMisses.record(stats.getReadEntriesOpsCacheMissesTotal(), attributes.getAttributes());
        backlog.record(stats.getNumberOfMessagesInBacklog(), attributes.getAttributes());
        markDeletes.record(stats.getMarkDeleteTotal(), attributes.getAttributes());
    }

    private void record(ManagedCursor cursor) {
        ManagedCursorMXBean stats = cursor.getStats();
        ManagedCursorAttributes attributes = cursor.getManagedCursorAttributes();
        persists.record(stats.getPersistLedgerSucceed(), attributes.getAttributesOperationSucceed());
        persists.record(stats.getPersistLedgerErrors(), attributes.getAttributesOperationFailure());
        metadataPersists.record(stats.getPersistZookeeperSucceed(), attributes.getAttributesOperationSucceed());
        metadataPersists.record(stats.getPersistZookeeperErrors(), attributes.getAttributesOperationFailure());
        ackRanges.record(cursor.getTotalNonContiguousDeletedMessagesRange(), attributes.getAttributes());
        cursorBytesOut.record(stats.getWriteCursorLedgerSize(), attributes.getAttributes());
        cursorLogicalBytesOut.record(stats.getWriteCursorLedgerLogicalSize(), attributes.getAttributes());
        cursorBytesIn.record(stats.getReadCursorLedgerSize(), attributes.getAttributes());
    }

    /** Nothing is reported any more. */
    @Override
    public void close() {
        callback.close();
    }
}
