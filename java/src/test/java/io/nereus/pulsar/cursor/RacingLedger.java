package io.nereus.pulsar.cursor;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.EntryImpl;

/** A ledger in memory with a real executor, for tests with threads. */
final class RacingLedger implements CursorLedger {

    volatile long end;
    private final CursorLedger positions;
    private final ScheduledExecutorService executor;

    RacingLedger(CursorLedger positions, ScheduledExecutorService executor) {
        this.positions = positions;
        this.executor = executor;
    }

    @Override
    public Executor executor() {
        return executor;
    }

    @Override
    public ScheduledExecutorService scheduler() {
        return executor;
    }

    @Override
    public long committedEnd() {
        return end;
    }

    @Override
    public long trimOffset() {
        return 0;
    }

    @Override
    public boolean isTerminated() {
        return false;
    }

    @Override
    public boolean isClosed() {
        return false;
    }

    @Override
    public Position position(long offset) {
        return positions.position(offset);
    }

    @Override
    public long offset(Position position) {
        return positions.offset(position);
    }

    @Override
    public void read(long start, int maxEntries, long maxBytes, long upTo, EntriesResult result) {
        executor.execute(() -> {
            List<Entry> entries = new ArrayList<>();
            for (long offset = start; offset < Math.min(end, upTo) && entries.size() < maxEntries; offset++) {
                entries.add(EntryImpl.create(1, offset, new byte[8]));
            }
            result.entries(entries);
        });
    }
}
