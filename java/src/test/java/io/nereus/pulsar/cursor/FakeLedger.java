package io.nereus.pulsar.cursor;

import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.NativeException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.EntryImpl;

/**
 * A ledger in memory whose executor runs only when told to, so that a test decides every interleaving. Entry
 * {@code n} holds {@code n} as text, padded to {@link #entryBytes}.
 */
final class FakeLedger implements CursorLedger, AutoCloseable {

    private static final int LEDGER = 77;

    final List<Entry> handedOut = new ArrayList<>();
    final List<Long> readStarts = new ArrayList<>();
    int entryBytes = 10;
    /** Reads wait in {@link #heldReads} instead of being answered. */
    boolean holdReads;
    final ArrayDeque<Runnable> heldReads = new ArrayDeque<>();
    /** If set, the next read fails with it. */
    ManagedLedgerException nextReadFails;
    /** Offsets whose bytes fail their check: every read that takes one in fails. */
    final TreeSet<Long> damaged = new TreeSet<>();
    boolean skipsDamaged;
    volatile long end;
    volatile long trim;
    volatile boolean terminated;
    volatile boolean closed;
    private final ArrayDeque<Runnable> tasks = new ArrayDeque<>();
    private final ScheduledExecutorService scheduler = Executors.newSingleThreadScheduledExecutor();

    FakeLedger(long end) {
        this.end = end;
    }

    /** Runs what is queued, and what that queues. */
    void drain() {
        while (true) {
            Runnable task;
            synchronized (tasks) {
                task = tasks.poll();
            }
            if (task == null) {
                return;
            }
            task.run();
        }
    }

    boolean isIdle() {
        synchronized (tasks) {
            return tasks.isEmpty();
        }
    }

    void releaseHeldReads() {
        while (!heldReads.isEmpty()) {
            heldReads.poll().run();
        }
    }

    long leaked() {
        return handedOut.stream().filter(entry -> ((EntryImpl) entry).refCnt() > 0).count();
    }

    @Override
    public Executor executor() {
        return task -> {
            synchronized (tasks) {
                tasks.add(task);
            }
        };
    }

    @Override
    public ScheduledExecutorService scheduler() {
        return scheduler;
    }

    @Override
    public long committedEnd() {
        return end;
    }

    @Override
    public long trimOffset() {
        return trim;
    }

    @Override
    public boolean isTerminated() {
        return terminated;
    }

    @Override
    public boolean isClosed() {
        return closed;
    }

    @Override
    public boolean skipsDamaged() {
        return skipsDamaged;
    }

    @Override
    public Position position(long offset) {
        return PositionFactory.create(LEDGER, offset);
    }

    @Override
    public long offset(Position position) {
        return position.getLedgerId() < LEDGER ? -1
            : position.getLedgerId() > LEDGER ? BEYOND : Math.max(-1, position.getEntryId());
    }

    @Override
    public void read(long start, int maxEntries, long maxBytes, long upTo, EntriesResult result) {
        readStarts.add(start);
        ManagedLedgerException failure = nextReadFails;
        nextReadFails = null;
        Runnable answer = () -> executor().execute(() -> answer(start, maxEntries, maxBytes, upTo, failure, result));
        if (holdReads) {
            heldReads.add(answer);
        } else {
            answer.run();
        }
    }

    private void answer(long start, int maxEntries, long maxBytes, long upTo, ManagedLedgerException failure,
                        EntriesResult result) {
        if (failure != null) {
            result.failed(failure);
        } else if (start < trim) {
            result.failed(new ManagedLedgerException("offset " + start + " is trimmed"));
        } else if (!damaged.subSet(start, Math.min(Math.min(end, upTo), start + maxEntries)).isEmpty()) {
            result.failed(NativeErrors.toManagedLedgerException(new NativeException(NativeErrors.CORRUPT, "damaged")));
        } else {
            List<Entry> entries = new ArrayList<>();
            long bytes = 0;
            for (long offset = start; offset < Math.min(end, upTo) && entries.size() < maxEntries; offset++) {
                bytes += entryBytes;
                if (bytes > maxBytes && !entries.isEmpty()) {
                    break;
                }
                entries.add(entry(offset));
            }
            handedOut.addAll(entries);
            result.entries(entries);
        }
    }

    private Entry entry(long offset) {
        byte[] data = String.format("%" + entryBytes + "d", offset).getBytes(StandardCharsets.US_ASCII);
        return EntryImpl.create(LEDGER, offset, data);
    }

    @Override
    public void close() {
        scheduler.shutdownNow();
    }
}
