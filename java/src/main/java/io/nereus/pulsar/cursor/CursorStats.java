package io.nereus.pulsar.cursor;

import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursorMXBean;

/**
 * Counters of one cursor under the names that Pulsar's metrics know.
 *
 * <p>"Ledger" stands for the place where a cursor's state is persisted, which here is the engine. Two members are
 * always 0 because nothing of a cursor is written to the metadata store. Logical and physical size are the same: the
 * engine stores one copy. Thread-safe, by one short lock: a cursor has one write under way at most, so that nobody waits for
 * it, and there may be a hundred thousand cursors.
 */
public final class CursorStats implements ManagedCursorMXBean {

    private final ManagedCursor cursor;
    private long persisted;
    private long persistErrors;
    private long metadataPersisted;
    private long metadataErrors;
    private long bytesWritten;
    private long bytesRead;

    /** Starts all counters at 0. */
    public CursorStats(ManagedCursor cursor) {
        this.cursor = cursor;
    }

    @Override
    public String getName() {
        return cursor.getName();
    }

    @Override
    public String getLedgerName() {
        return cursor.getManagedLedger().getName();
    }

    @Override
    public synchronized void persistToLedger(boolean success) {
        if (success) {
            persisted++;
        } else {
            persistErrors++;
        }
    }

    @Override
    public synchronized void persistToZookeeper(boolean success) {
        if (success) {
            metadataPersisted++;
        } else {
            metadataErrors++;
        }
    }

    @Override
    public synchronized long getPersistLedgerSucceed() {
        return persisted;
    }

    @Override
    public synchronized long getPersistLedgerErrors() {
        return persistErrors;
    }

    @Override
    public synchronized long getPersistZookeeperSucceed() {
        return metadataPersisted;
    }

    @Override
    public synchronized long getPersistZookeeperErrors() {
        return metadataErrors;
    }

    @Override
    public synchronized void addWriteCursorLedgerSize(long size) {
        bytesWritten += size;
    }

    @Override
    public synchronized void addReadCursorLedgerSize(long size) {
        bytesRead += size;
    }

    @Override
    public synchronized long getWriteCursorLedgerSize() {
        return bytesWritten;
    }

    @Override
    public synchronized long getWriteCursorLedgerLogicalSize() {
        return bytesWritten;
    }

    @Override
    public synchronized long getReadCursorLedgerSize() {
        return bytesRead;
    }
}
