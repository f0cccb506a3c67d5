package io.nereus.pulsar;

import io.nereus.pulsar.cursor.FlushPasses;
import java.util.function.IntSupplier;
import java.util.function.LongSupplier;
import org.apache.bookkeeper.mledger.ManagedLedgerFactoryMXBean;

/**
 * The factory's bean. Everything about the Java entry cache is 0 because there is none: caches are native, and a hit
 * there never reaches Java as one. Thread-safe.
 */
final class FactoryStats implements ManagedLedgerFactoryMXBean {

    private final IntSupplier ledgers;
    private final LongSupplier cacheMaxSize;
    private final FlushPasses flushPasses;

    /**
     * @param ledgers      open ledgers
     * @param cacheMaxSize the configured limit of the Java cache in bytes, which stays unused
     * @param flushPasses  the passes over the cursors of all ledgers
     */
    FactoryStats(IntSupplier ledgers, LongSupplier cacheMaxSize, FlushPasses flushPasses) {
        this.ledgers = ledgers;
        this.cacheMaxSize = cacheMaxSize;
        this.flushPasses = flushPasses;
    }

    /** Longest time from one pass over the dirty cursors to the next that is in force now, milliseconds. */
    long ackFlushBoundMillis() {
        return flushPasses.boundMillis();
    }

    /** Passes over the dirty cursors. */
    long ackFlushPasses() {
        return flushPasses.passes();
    }

    /** Changes of cursors that were persisted by passes. */
    long ackFlushPersists() {
        return flushPasses.persists();
    }

    @Override
    public int getNumberOfManagedLedgers() {
        return ledgers.getAsInt();
    }

    @Override
    public long getCacheUsedSize() {
        return 0;
    }

    @Override
    public long getCacheMaxSize() {
        return cacheMaxSize.getAsLong();
    }

    @Override
    public double getCacheHitsRate() {
        return 0;
    }

    @Override
    public long getCacheHitsTotal() {
        return 0;
    }

    @Override
    public double getCacheMissesRate() {
        return 0;
    }

    @Override
    public long getCacheMissesTotal() {
        return 0;
    }

    @Override
    public double getCacheHitsThroughput() {
        return 0;
    }

    @Override
    public long getCacheHitsBytesTotal() {
        return 0;
    }

    @Override
    public double getCacheMissesThroughput() {
        return 0;
    }

    @Override
    public long getCacheMissesBytesTotal() {
        return 0;
    }

    @Override
    public long getNumberOfCacheEvictions() {
        return 0;
    }

    @Override
    public long getNumberOfCacheEvictionsTotal() {
        return 0;
    }

    @Override
    public long getCacheInsertedEntriesCount() {
        return 0;
    }

    @Override
    public long getCacheEvictedEntriesCount() {
        return 0;
    }

    @Override
    public long getCacheEntriesCount() {
        return 0;
    }
}
