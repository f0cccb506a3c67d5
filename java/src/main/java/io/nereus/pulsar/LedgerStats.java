package io.nereus.pulsar;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerMBeanImpl;

/**
 * What happened to one ledger, counted; {@link LedgerBean} shows it to Pulsar.
 *
 * <p>Promises: an event is counted before its recording returns; of what never happened nothing is kept, so that a ledger
 * which is only open costs no counters. The factory ends a period every {@code statsPeriodSeconds}. Thread-safe; takes one
 * short lock at a time.
 */
final class LedgerStats {

    /** What is counted, and its value. */
    enum Kind {
        /** Committed appends; stored bytes. */
        ADDS,
        /** Appends that failed or were refused. */
        ADD_ERRORS,
        /** Entries that were read; bytes. */
        READS,
        READ_ERRORS,
        /** Reads that brought entries; entries. Pulsar shows the reads as "entries read". */
        ENTRIES_READ,
        MARK_DELETES
    }

    private static final int KINDS = Kind.values().length;

    private final Durations durations;
    /** By kind; null where nothing happened yet. */
    private final AtomicReferenceArray<Tally> tallies = new AtomicReferenceArray<>(KINDS);
    private final Distribution entrySizes = new Distribution(ManagedLedgerMBeanImpl.ENTRY_SIZE_BUCKETS_BYTES);
    /** Microseconds. An append is handed on without a queue, so that Pulsar's two latencies are one. */
    private final Distribution latencies = new Distribution(ManagedLedgerMBeanImpl.ENTRY_LATENCY_BUCKETS_USEC);

    /** @param durations hears of every append and read, too */
    LedgerStats(Durations durations) {
        this.durations = durations;
    }

    // ---- recording

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

    void addAddEntrySample(long bytes) {
        record(Kind.ADDS, 1, bytes);
        entrySizes.add(bytes);
    }

    void addAddEntryLatencySample(long latency, TimeUnit unit) {
        latencies.add(unit.toMicros(latency));
    }

    void recordAddEntryError() {
        record(Kind.ADD_ERRORS, 1, 0);
    }

    /** A read was answered; {@code nanos} from its call of the native side until now. */
    void readAnswered(long nanos) {
        durations.read(nanos);
    }

    void addReadEntriesSample(int entries, long bytes) {
        record(Kind.READS, entries, bytes);
    }

    void addEntriesRead(int entries) {
        record(Kind.ENTRIES_READ, 1, entries);
    }

    void recordReadEntriesError() {
        record(Kind.READ_ERRORS, 1, 0);
    }

    void addMarkDeleteOp() {
        record(Kind.MARK_DELETES, 1, 0);
    }

    private void record(Kind kind, long events, long value) {
        int index = kind.ordinal();
        Tally tally = tallies.get(index);
        if (tally == null) {
            Tally fresh = new Tally();
            Tally first = tallies.compareAndExchange(index, null, fresh);
            tally = first == null ? fresh : first;
        }
        tally.record(events, value);
    }

    /** A period ends. One without length is none. */
    void refreshStats(long period, TimeUnit unit) {
        long nanos = unit.toNanos(period);
        if (nanos <= 0) {
            return;
        }
        for (int i = 0; i < KINDS; i++) {
            Tally tally = tallies.get(i);
            if (tally != null) {
                tally.endPeriod(nanos);
            }
        }
        entrySizes.endPeriod();
        latencies.endPeriod();
    }

    // ---- what was recorded

    /** To look at only. */
    Tally of(Kind kind) {
        Tally tally = tallies.get(kind.ordinal());
        return tally == null ? Tally.NONE : tally;
    }

    Distribution entrySizes() {
        return entrySizes;
    }

    Distribution latencies() {
        return latencies;
    }
}
