package io.nereus.pulsar.cursor;

import java.util.concurrent.atomic.LongAdder;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursorMXBean;

/**
 * Counters of one cursor under the names that Pulsar's metrics know.
 *
 * <p>"Ledger" stands for the place where a cursor's state is persisted, which here is the engine. Two members are
 * always 0 because nothing of a cursor is written to the metadata store. Logical and physical size are the same: the
 * engine stores one copy. Thread-safe.
 */
public final class CursorStats implements ManagedCursorMXBean {

    private final ManagedCursor cursor;
    private final LongAdder persisted = new LongAdder();
    private final LongAdder persistErrors = new LongAdder();
    private final LongAdder metadataPersisted = new LongAdder();
    private final LongAdder metadataErrors = new LongAdder();
    private final LongAdder bytesWritten = new LongAdder();
    private final LongAdder bytesRead = new LongAdder();

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
    public void persistToLedger(boolean success) {
        (success ? persisted : persistErrors).increment();
    }

    @Override
    public void persistToZookeeper(boolean success) {
        (success ? metadataPersisted : metadataErrors).increment();
    }

    @Override
    public long getPersistLedgerSucceed() {
        return persisted.sum();
    }

    @Override
    public long getPersistLedgerErrors() {
        return persistErrors.sum();
    }

    @Override
    public long getPersistZookeeperSucceed() {
        return metadataPersisted.sum();
    }

    @Override
    public long getPersistZookeeperErrors() {
        return metadataErrors.sum();
    }

    @Override
    public void addWriteCursorLedgerSize(long size) {
        bytesWritten.add(size);
    }

    @Override
    public void addReadCursorLedgerSize(long size) {
        bytesRead.add(size);
    }

    @Override
    public long getWriteCursorLedgerSize() {
        return bytesWritten.sum();
    }

    @Override
    public long getWriteCursorLedgerLogicalSize() {
        return bytesWritten.sum();
    }

    @Override
    public long getReadCursorLedgerSize() {
        return bytesRead.sum();
    }
}
