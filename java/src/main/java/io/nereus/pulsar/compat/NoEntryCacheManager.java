package io.nereus.pulsar.compat;

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
        throw new UnsupportedOperationException("Nereus keeps no entry cache in Java; it was asked for one by "
            + ledger.getName());
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
