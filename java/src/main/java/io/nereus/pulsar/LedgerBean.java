package io.nereus.pulsar;

import io.nereus.pulsar.LedgerStats.Kind;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerMBeanImpl;
import org.apache.bookkeeper.mledger.util.StatsBuckets;

/**
 * The counters and rates of one ledger as Pulsar sees them: a view of its {@link LedgerStats}, always up to date.
 *
 * <p>Extends stock's bean because the broker's metrics page casts to it without a guard. That makes it the largest object of
 * a ledger, counters that are never used and all; so it is made for whoever asks, and nobody keeps it. Stock's ledger inside
 * is null: every member that would touch it is overridden, and so is every one whose counter moves. Those that stay with
 * stock's own counters are 0: there are no BookKeeper operations, no switches of ledgers, and no cache that a read could
 * miss. Stored and written bytes count one copy of each byte: replication is not the facade's business. Thread-safe.
 */
final class LedgerBean extends ManagedLedgerMBeanImpl {

    private final String ledgerName;
    private final LedgerStats stats;
    private final LongSupplier storedBytes;
    private final LongSupplier backlogEntries;

    /**
     * @param storedBytes    live bytes of the ledger
     * @param backlogEntries unacknowledged entries, summed over all cursors
     */
    LedgerBean(String ledgerName, LedgerStats stats, LongSupplier storedBytes, LongSupplier backlogEntries) {
        super(null);
        this.ledgerName = ledgerName;
        this.stats = stats;
        this.storedBytes = storedBytes;
        this.backlogEntries = backlogEntries;
    }

    @Override
    public String getName() {
        return ledgerName;
    }

    @Override
    public long getStoredMessagesSize() {
        return storedBytes.getAsLong();
    }

    @Override
    public long getStoredMessagesLogicalSize() {
        return storedBytes.getAsLong();
    }

    @Override
    public long getNumberOfMessagesInBacklog() {
        return backlogEntries.getAsLong();
    }

    // ---- recording

    @Override
    public void refreshStats(long period, TimeUnit unit) {
        stats.refreshStats(period, unit);
    }

    @Override
    public void addAddEntrySample(long size) {
        stats.addAddEntrySample(size);
    }

    @Override
    public void addAddEntryLatencySample(long latency, TimeUnit unit) {
        stats.addAddEntryLatencySample(latency, unit);
    }

    @Override
    public void addLedgerAddEntryLatencySample(long latency, TimeUnit unit) {
        stats.addAddEntryLatencySample(latency, unit);
    }

    /** Spans follow each other without a pause, and nothing reports one. */
    @Override
    public void addLedgerSwitchLatencySample(long latency, TimeUnit unit) {
        // nothing is switched
    }

    @Override
    public void recordAddEntryError() {
        stats.recordAddEntryError();
    }

    @Override
    public void addReadEntriesSample(int count, long totalSize) {
        stats.addReadEntriesSample(count, totalSize);
    }

    @Override
    public void addEntriesRead(int count) {
        stats.addEntriesRead(count);
    }

    @Override
    public void recordReadEntriesError() {
        stats.recordReadEntriesError();
    }

    @Override
    public void addMarkDeleteOp() {
        stats.addMarkDeleteOp();
    }

    // ---- appends

    @Override
    public double getAddEntryMessagesRate() {
        return stats.of(Kind.ADDS).rate();
    }

    @Override
    public double getAddEntryBytesRate() {
        return stats.of(Kind.ADDS).valueRate();
    }

    @Override
    public long getAddEntryBytesTotal() {
        return stats.of(Kind.ADDS).totalValue();
    }

    @Override
    public double getAddEntryWithReplicasBytesRate() {
        return getAddEntryBytesRate();
    }

    @Override
    public long getAddEntryWithReplicasBytesTotal() {
        return getAddEntryBytesTotal();
    }

    @Override
    public long getAddEntrySucceed() {
        return stats.of(Kind.ADDS).inPeriod();
    }

    @Override
    public long getAddEntrySucceedTotal() {
        return stats.of(Kind.ADDS).total();
    }

    @Override
    public long getAddEntryErrors() {
        return stats.of(Kind.ADD_ERRORS).inPeriod();
    }

    @Override
    public long getAddEntryErrorsTotal() {
        return stats.of(Kind.ADD_ERRORS).total();
    }

    // ---- reads and mark-deletes

    @Override
    public double getReadEntriesRate() {
        return stats.of(Kind.READS).rate();
    }

    @Override
    public double getReadEntriesBytesRate() {
        return stats.of(Kind.READS).valueRate();
    }

    @Override
    public long getReadEntriesBytesTotal() {
        return stats.of(Kind.READS).totalValue();
    }

    @Override
    public long getReadEntriesSucceeded() {
        return stats.of(Kind.READS).inPeriod();
    }

    @Override
    public long getReadEntriesSucceededTotal() {
        return stats.of(Kind.READS).total();
    }

    @Override
    public long getReadEntriesErrors() {
        return stats.of(Kind.READ_ERRORS).inPeriod();
    }

    @Override
    public long getReadEntriesErrorsTotal() {
        return stats.of(Kind.READ_ERRORS).total();
    }

    @Override
    public long getEntriesReadTotalCount() {
        return stats.of(Kind.ENTRIES_READ).total();
    }

    @Override
    public double getMarkDeleteRate() {
        return stats.of(Kind.MARK_DELETES).rate();
    }

    @Override
    public long getMarkDeleteTotal() {
        return stats.of(Kind.MARK_DELETES).total();
    }

    // ---- buckets; stock's own recording of latencies asks its ledger for OpenTelemetry instruments from Pulsar 4.2 on

    @Override
    public StatsBuckets getInternalEntrySizeBuckets() {
        return stats.entrySizes().orElse(super.getInternalEntrySizeBuckets());
    }

    @Override
    public double getEntrySizeAverage() {
        return getInternalEntrySizeBuckets().getAvg();
    }

    @Override
    public long[] getEntrySizeBuckets() {
        return getInternalEntrySizeBuckets().getBuckets();
    }

    @Override
    public StatsBuckets getInternalAddEntryLatencyBuckets() {
        return stats.latencies().orElse(super.getInternalAddEntryLatencyBuckets());
    }

    @Override
    public double getAddEntryLatencyAverageUsec() {
        return getInternalAddEntryLatencyBuckets().getAvg();
    }

    @Override
    public long[] getAddEntryLatencyBuckets() {
        return getInternalAddEntryLatencyBuckets().getBuckets();
    }

    @Override
    public StatsBuckets getInternalLedgerAddEntryLatencyBuckets() {
        return getInternalAddEntryLatencyBuckets();
    }

    @Override
    public double getLedgerAddEntryLatencyAverageUsec() {
        return getAddEntryLatencyAverageUsec();
    }

    @Override
    public long[] getLedgerAddEntryLatencyBuckets() {
        return getAddEntryLatencyBuckets();
    }
}
