package io.nereus.pulsar;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerMBeanImpl;
import org.apache.bookkeeper.mledger.util.StatsBuckets;
import org.apache.pulsar.common.stats.Rate;

/**
 * Counters and rates of one ledger.
 *
 * <p>Extends stock's bean because the broker's metrics page casts to it without a guard. Stock's ledger inside is null,
 * so every member that would touch it is overridden, with own counters where stock's are private. Stored and written
 * bytes count one copy of each byte: replication is not the facade's business. Pending BookKeeper operations stay 0,
 * because there are none. The factory calls {@link #refreshStats} every {@code statsPeriodSeconds}. Thread-safe.
 */
final class LedgerStats extends ManagedLedgerMBeanImpl {

    private final String ledgerName;
    private final LongSupplier storedBytes;
    private final LongSupplier backlogEntries;
    private final Durations durations;
    private final Rate added = new Rate();
    private final StatsBuckets entrySizes = new StatsBuckets(ENTRY_SIZE_BUCKETS_BYTES);
    /** Microseconds. An append is handed on without a queue, so that Pulsar's two latencies are one. */
    private final StatsBuckets latencies = new StatsBuckets(ENTRY_LATENCY_BUCKETS_USEC);

    /**
     * @param storedBytes    live bytes of the ledger
     * @param backlogEntries unacknowledged entries, summed over all cursors
     * @param durations      hears of every append and read, too
     */
    LedgerStats(String ledgerName, LongSupplier storedBytes, LongSupplier backlogEntries, Durations durations) {
        super(null);
        this.ledgerName = ledgerName;
        this.storedBytes = storedBytes;
        this.backlogEntries = backlogEntries;
        this.durations = durations;
    }

    /**
     * An append was committed.
     *
     * @param bytes        stored bytes
     * @param latencyNanos from the call until now
     */
    void addCompleted(int bytes, long latencyNanos) {
        addAddEntrySample(bytes);
        addAddEntryLatencySample(latencyNanos, TimeUnit.NANOSECONDS);
        durations.appended(latencyNanos);
    }

    /** A read was answered; {@code nanos} from its call of the native side until now. */
    void readAnswered(long nanos) {
        durations.read(nanos);
    }

    @Override
    public void refreshStats(long period, TimeUnit unit) {
        super.refreshStats(period, unit);
        double seconds = unit.toMillis(period) / 1000.0;
        if (seconds > 0) {
            added.calculateRate(seconds);
            entrySizes.refresh();
            latencies.refresh();
        }
    }

    @Override
    public void addAddEntrySample(long size) {
        added.recordEvent(size);
        entrySizes.addValue(size);
    }

    @Override
    public String getName() {
        return ledgerName;
    }

    @Override
    public double getAddEntryMessagesRate() {
        return added.getRate();
    }

    @Override
    public double getAddEntryBytesRate() {
        return added.getValueRate();
    }

    @Override
    public long getAddEntryBytesTotal() {
        return added.getTotalValue();
    }

    @Override
    public double getAddEntryWithReplicasBytesRate() {
        return added.getValueRate();
    }

    @Override
    public long getAddEntryWithReplicasBytesTotal() {
        return added.getTotalValue();
    }

    @Override
    public long getAddEntrySucceed() {
        return added.getCount();
    }

    @Override
    public long getAddEntrySucceedTotal() {
        return added.getTotalCount();
    }

    @Override
    public double getEntrySizeAverage() {
        return entrySizes.getAvg();
    }

    @Override
    public long[] getEntrySizeBuckets() {
        return entrySizes.getBuckets();
    }

    @Override
    public StatsBuckets getInternalEntrySizeBuckets() {
        return entrySizes;
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

    // ---- latencies: stock's own recording asks its ledger for OpenTelemetry instruments from Pulsar 4.2 on

    @Override
    public void addAddEntryLatencySample(long latency, TimeUnit unit) {
        latencies.addValue(unit.toMicros(latency));
    }

    @Override
    public void addLedgerAddEntryLatencySample(long latency, TimeUnit unit) {
        latencies.addValue(unit.toMicros(latency));
    }

    /** Spans follow each other without a pause, and nothing reports one. */
    @Override
    public void addLedgerSwitchLatencySample(long latency, TimeUnit unit) {
        // nothing is switched
    }

    @Override
    public double getAddEntryLatencyAverageUsec() {
        return latencies.getAvg();
    }

    @Override
    public long[] getAddEntryLatencyBuckets() {
        return latencies.getBuckets();
    }

    @Override
    public StatsBuckets getInternalAddEntryLatencyBuckets() {
        return latencies;
    }

    @Override
    public double getLedgerAddEntryLatencyAverageUsec() {
        return latencies.getAvg();
    }

    @Override
    public long[] getLedgerAddEntryLatencyBuckets() {
        return latencies.getBuckets();
    }

    @Override
    public StatsBuckets getInternalLedgerAddEntryLatencyBuckets() {
        return latencies;
    }
}
