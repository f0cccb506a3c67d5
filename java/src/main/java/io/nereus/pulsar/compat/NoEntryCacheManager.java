package io.nereus.pulsar.compat;

import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerImpl;
import org.apache.bookkeeper.mledger.impl.cache.EntryCache;
import org.apache.bookkeeper.mledger.impl.cache.EntryCacheManager;

/**
 * The entry cache manager of a broker whose caches are native: it caches nothing in Java, so its size is truly 0. It
 * remembers the two dynamic settings that the broker hands it, so that they read back as set. Thread-safe.
 */
public final class NoEntryCacheManager implements EntryCacheManager {

    private volatile long maxSizeBytes;
    private volatile double evictionWatermark;

    /** Starts with the configured values. */
    public NoEntryCacheManager(long maxSizeBytes, double evictionWatermark) {
        this.maxSizeBytes = maxSizeBytes;
        this.evictionWatermark = evictionWatermark;
    }

    /** Only stock's own ledger asks for a Java entry cache, and that one never lives in this factory. */
    @Override
    public EntryCache getEntryCache(ManagedLedgerImpl ledger) {
        throw noCache(ledger.getName());
    }

    /** As it is asked from Pulsar 4.1 on. */
    public EntryCache getEntryCache(ManagedLedger ledger) {
        throw noCache(ledger.getName());
    }

    private static UnsupportedOperationException noCache(String ledger) {
        return new UnsupportedOperationException("Nereus keeps no entry cache in Java; it was asked for one by " + ledger);
    }

    /** Asked from Pulsar 4.1 on. */
    public void doCacheEviction() {
        // nothing is cached in Java
    }

    /** Asked from Pulsar 4.1 on; says how long a Java cache keeps entries that are still to be read. */
    public void updateCacheEvictionExtendTTLOfEntriesWithRemainingExpectedReadsMaxTimes(int maxTimes) {
        // nothing is cached in Java
    }

    /** Asked from Pulsar 4.1 on; says whether a Java cache keeps entries longer that were just read. */
    public void updateCacheEvictionExtendTTLOfRecentlyAccessed(boolean extend) {
        // nothing is cached in Java
    }

    @Override
    public void removeEntryCache(String name) {
        // nothing is cached in Java
    }

    @Override
    public long getSize() {
        return 0;
    }

    @Override
    public long getMaxSize() {
        return maxSizeBytes;
    }

    @Override
    public void clear() {
        // nothing is cached in Java
    }

    @Override
    public void updateCacheSizeAndThreshold(long maxSize) {
        maxSizeBytes = maxSize;
    }

    @Override
    public void updateCacheEvictionWatermark(double cacheEvictionWatermark) {
        evictionWatermark = cacheEvictionWatermark;
    }

    @Override
    public double getCacheEvictionWatermark() {
        return evictionWatermark;
    }
}
