package io.nereus.pulsar;

import com.google.common.collect.Range;
import io.nereus.pulsar.bridge.LedgerDescription;
import io.nereus.pulsar.bridge.NativeStream;
import io.nereus.pulsar.bridge.OpenedLedger;
import io.nereus.pulsar.cursor.CursorLedger;
import java.lang.ref.Cleaner;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;
import org.apache.bookkeeper.mledger.ReadOnlyManagedLedger;

/**
 * A ledger opened to be read as it was at that moment: it never claims the topic and never sees later entries.
 *
 * <p>Owns a native handle. Pulsar's interface has no close, so the handle is given back when a cursor that came with
 * the ledger is closed, or when nothing refers to the ledger any more. Callbacks run on the thread of the topic's name.
 */
final class NereusReadOnlyManagedLedger implements ReadOnlyManagedLedger, CursorLedger {

    private static final Cleaner CLEANER = Cleaner.create();

    private final String name;
    private final LedgerDescription opened;
    private final Projection projection;
    private final PositionNavigator navigator;
    private final EntryReader reader;
    private final ScheduledExecutorService executor;
    private final Cleaner.Cleanable handle;

    NereusReadOnlyManagedLedger(String name, ManagedLedgerConfig config, OpenedLedger openedLedger,
                                ScheduledExecutorService executor, Durations durations) {
        this.name = name;
        this.opened = openedLedger.description();
        this.executor = executor;
        this.projection = new Projection(opened.firstLedgerId(), opened.spanBits());
        this.navigator = new PositionNavigator(projection, this::trimOffset, this::committedEnd);
        NativeStream stream = openedLedger.stream();
        this.reader = new EntryReader(name, stream, projection, new LedgerStats(durations),
            config.getManagedLedgerInterceptor());
        this.handle = CLEANER.register(this, stream::close);
    }

    /** Gives the native handle back; reads under way still end. Idempotent. */
    void close() {
        handle.clean();
    }

    String name() {
        return name;
    }

    @Override
    public void asyncReadEntry(Position position, ReadEntryCallback callback, Object ctx) {
        if (position.getEntryId() < 0 || !projection.owns(position)) {
            ManagedLedgerException refusal = new ManagedLedgerException("ledger " + name + " has no entry at "
                + position + "; its first virtual ledger is " + projection.firstLedgerId());
            executor.execute(() -> callback.readEntryFailed(refusal, ctx));
            return;
        }
        reader.readOne(projection.offset(position), committedEnd(), callback, ctx);
    }

    @Override
    public long getNumberOfEntries() {
        return opened.state().entries();
    }

    @Override
    public ReadOnlyCursor createReadOnlyCursor(Position position) {
        return new NereusReadOnlyCursor(this, startOf(position), () -> { });
    }

    /** A cursor that gives the ledger's handle back when it is closed. */
    ReadOnlyCursor createOwningCursor(Position position) {
        return new NereusReadOnlyCursor(this, startOf(position), this::close);
    }

    private long startOf(Position position) {
        return navigator.offsetAtOrAfter(position);
    }

    @Override
    public Map<String, String> getProperties() {
        return Collections.unmodifiableMap(LedgerProperties.visible(opened.properties()));
    }

    long entriesWithin(Range<Position> range) {
        return navigator.entriesWithin(range);
    }

    // ---- CursorLedger

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
        return opened.state().end();
    }

    @Override
    public long trimOffset() {
        return opened.state().trim();
    }

    /** For the reader nothing is ever added. */
    @Override
    public boolean isTerminated() {
        return true;
    }

    @Override
    public boolean isClosed() {
        return false;
    }

    @Override
    public Position position(long offset) {
        return projection.position(offset);
    }

    @Override
    public long offset(Position position) {
        return navigator.offset(position);
    }

    @Override
    public void read(long start, int maxEntries, long maxBytes, long upTo, EntriesResult result) {
        reader.read(start, maxEntries, maxBytes, Math.min(upTo, committedEnd()), result);
    }
}
