package io.nereus.pulsar;

import io.nereus.pulsar.bridge.LedgerDescription;
import io.nereus.pulsar.bridge.NativeStream;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerInterceptException;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;

/**
 * Makes an opened stream ready for use: recovers the durable cursors and lets the interceptor see the properties and
 * the last entry.
 *
 * <p>Promises: nobody sees the ledger before both have happened; when one of them fails, the stream is closed before the
 * failure is told. Completes on the ledger's executor.
 */
final class LedgerOpening {

    private final String name;
    private final LedgerDescription opened;
    private final NativeStream stream;
    private final LedgerExtent extent;
    private final LedgerCursors cursors;
    private final EntryReader reader;
    /** Null if the ledger has none. */
    private final ManagedLedgerInterceptor interceptor;

    LedgerOpening(String name, LedgerDescription opened, NativeStream stream, LedgerExtent extent,
                  LedgerCursors cursors, EntryReader reader, ManagedLedgerInterceptor interceptor) {
        this.name = name;
        this.opened = opened;
        this.stream = stream;
        this.extent = extent;
        this.cursors = cursors;
        this.reader = reader;
        this.interceptor = interceptor;
    }

    CompletableFuture<Void> initialize() {
        CompletableFuture<Void> ready;
        try {
            cursors.recover(opened.cursors());
            ready = interceptor == null ? CompletableFuture.completedFuture(null) : intercept();
        } catch (RuntimeException e) {
            ready = CompletableFuture.failedFuture(
                new ManagedLedgerException("ledger " + name + " cannot be opened: " + e.getMessage(), e));
        }
        return ready.handle((ignored, failure) -> failure == null ? CompletableFuture.<Void>completedFuture(null)
            : stream.close().handle((done, closeFailure) -> failure)
                .thenCompose(CompletableFuture::<Void>failedFuture)).thenCompose(outcome -> outcome);
    }

    private CompletableFuture<Void> intercept() {
        CompletableFuture<Void> intercepted;
        try {
            interceptor.onManagedLedgerPropertiesInitialize(LedgerProperties.visible(opened.properties()));
            intercepted = interceptor.onManagedLedgerLastLedgerInitialize(name, this::readLastEntry);
        } catch (RuntimeException e) {
            intercepted = CompletableFuture.failedFuture(e);
        }
        return intercepted.exceptionallyCompose(failure -> CompletableFuture.failedFuture(
            new ManagedLedgerInterceptException(
                new Exception("the interceptor refused to initialize ledger " + name, failure))));
    }

    private CompletableFuture<Optional<Entry>> readLastEntry() {
        long end = extent.committedEnd();
        if (end == 0) {
            return CompletableFuture.completedFuture(Optional.empty());
        }
        CompletableFuture<Optional<Entry>> entry = new CompletableFuture<>();
        reader.readOne(end - 1, end, Callbacks.<Optional<Entry>>entry(entry, Optional::of), null);
        return entry;
    }
}
