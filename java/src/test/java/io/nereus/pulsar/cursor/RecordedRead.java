package io.nereus.pulsar.cursor;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;

/** Remembers how a read ended, and that it ended once. */
final class RecordedRead implements ReadEntriesCallback {

    volatile List<Entry> entries;
    volatile ManagedLedgerException failure;
    volatile int calls;

    ReadRequest request(int maxEntries) {
        return request(maxEntries, Long.MAX_VALUE, CursorLedger.BEYOND, null);
    }

    ReadRequest request(int maxEntries, long maxBytes, long limit, Predicate<Position> skip) {
        return new ReadRequest(maxEntries, maxBytes, limit, skip, this, "ctx");
    }

    List<Long> offsets() {
        List<Long> offsets = new ArrayList<>();
        for (Entry entry : entries) {
            offsets.add(entry.getEntryId());
        }
        return offsets;
    }

    @Override
    public synchronized void readEntriesComplete(List<Entry> read, Object ctx) {
        entries = read;
        calls++;
    }

    @Override
    public synchronized void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
        failure = exception;
        calls++;
    }
}
