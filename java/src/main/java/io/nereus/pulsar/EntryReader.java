package io.nereus.pulsar;

import io.netty.buffer.ByteBuf;
import io.netty.util.ReferenceCountUtil;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.NativeException;
import io.nereus.pulsar.bridge.NativeStream;
import io.nereus.pulsar.bridge.ReadBatch;
import io.nereus.pulsar.cursor.CursorLedger;
import java.util.ArrayList;
import java.util.List;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerInterceptException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.EntryImpl;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Turns batches of the native side into the entries that Pulsar holds.
 *
 * <p>Promises: a read ends exactly once, on the ledger's executor; entries are consecutive from the offset asked for,
 * carry positions in normal form and one reference each, and have passed the interceptor's payload processor; when
 * turning one of them fails, none is left unreleased. Does not: decide what may be read, or wait for entries.
 */
final class EntryReader {

    private static final Logger log = LoggerFactory.getLogger(EntryReader.class);

    private final String ledgerName;
    private final NativeStream stream;
    private final Projection projection;
    private final LedgerStats stats;
    /** Null if the ledger has none. */
    private final ManagedLedgerInterceptor interceptor;

    EntryReader(String ledgerName, NativeStream stream, Projection projection, LedgerStats stats,
                ManagedLedgerInterceptor interceptor) {
        this.ledgerName = ledgerName;
        this.stream = stream;
        this.projection = projection;
        this.stats = stats;
        this.interceptor = interceptor;
    }

    /**
     * Reads from exactly {@code start}.
     *
     * @param maxEntries at least 1
     * @param maxBytes   soft limit: at least one entry comes, however large
     * @param upTo       exclusive bound of the offsets
     */
    void read(long start, int maxEntries, long maxBytes, long upTo, CursorLedger.EntriesResult result) {
        long startNanos = System.nanoTime();
        stream.read(start, maxEntries, maxBytes, upTo, new NativeStream.ReadCallback() {
            @Override
            public void entries(ReadBatch batch) {
                stats.readAnswered(System.nanoTime() - startNanos);
                List<Entry> entries;
                try {
                    entries = toEntries(batch);
                } catch (ManagedLedgerException e) {
                    stats.recordReadEntriesError();
                    result.failed(e);
                    return;
                } finally {
                    batch.release();
                }
                result.entries(entries);
            }

            @Override
            public void failed(NativeException e) {
                stats.recordReadEntriesError();
                result.failed(NativeErrors.toManagedLedgerException(e));
            }
        });
    }

    /** Reads the one entry at {@code offset}; an offset at or past {@code end} fails. */
    void readOne(long offset, long end, ReadEntryCallback callback, Object ctx) {
        if (offset < 0 || offset >= end) {
            callback.readEntryFailed(new ManagedLedgerException("ledger " + ledgerName + " has no entry at offset "
                + offset + "; its entries end before " + end), ctx);
            return;
        }
        read(offset, 1, Long.MAX_VALUE, offset + 1, new CursorLedger.EntriesResult() {
            @Override
            public void entries(List<Entry> entries) {
                if (entries.isEmpty()) {
                    callback.readEntryFailed(new ManagedLedgerException("ledger " + ledgerName
                        + " answered no entry at offset " + offset + " although its entries end at " + end), ctx);
                } else {
                    callback.readEntryComplete(entries.get(0), ctx);
                }
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                callback.readEntryFailed(exception, ctx);
            }
        });
    }

    private List<Entry> toEntries(ReadBatch batch) throws ManagedLedgerException {
        List<Entry> entries = new ArrayList<>(batch.size());
        long bytes = 0;
        try {
            for (int i = 0; i < batch.size(); i++) {
                Entry entry = toEntry(projection.position(batch.offset(i)), batch.entry(i));
                entries.add(entry);
                bytes += entry.getLength();
            }
        } catch (RuntimeException | Error e) { // also for want of direct memory: whoever reads is owed an answer
            entries.forEach(Entry::release);
            log.error("[{}] could not prepare entries that were read", ledgerName, e);
            throw new ManagedLedgerInterceptException(e);
        }
        stats.addReadEntriesSample(entries.size(), bytes);
        stats.addEntriesRead(entries.size());
        return entries;
    }

    /**
     * Takes over the reference of {@code stored}. A payload processor that answers other bytes has consumed ours and
     * hands over two references: one is released here like our own, the other by its handle.
     */
    private Entry toEntry(Position position, ByteBuf stored) {
        ByteBuf data = stored;
        ManagedLedgerInterceptor.PayloadProcessorHandle handle = null;
        try {
            if (interceptor != null) {
                handle = interceptor.processPayloadBeforeEntryCache(stored);
                if (handle != null) {
                    data = handle.getProcessedPayload();
                }
            }
            return EntryImpl.create(position.getLedgerId(), position.getEntryId(), data);   // the form that all releases have
        } finally {
            ReferenceCountUtil.safeRelease(data);
            if (handle != null) {
                handle.release();
            }
        }
    }
}
