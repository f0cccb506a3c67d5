package io.nereus.pulsar.bridge;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.LongToIntFunction;
import org.apache.pulsar.metadata.api.MetadataStore;

/**
 * One broker's share of the engine of a data directory.
 *
 * <p>Owns: the streams opened through it. Promises: {@link #release()} closes these and no others; the last release of
 * a data directory closes its engine. Futures complete on the executor given with the call.
 */
public final class NativeEngine {

    private final SharedEngine engine;
    private final MetadataStore store;
    private final Set<NativeStream> streams = new HashSet<>();
    private CompletableFuture<Void> releasing;

    NativeEngine(SharedEngine engine, MetadataStore store) {
        this.engine = engine;
        this.store = store;
    }

    /**
     * Opens the engine of {@code settings}' data directory, or joins the one that is open. Loads the native library at
     * the first call of a JVM.
     *
     * @param store the broker's metadata store; asked from then on until the release
     * @return fails with {@link NativeException}: {@code INVALID} if the directory is open with other settings
     */
    public static CompletableFuture<NativeEngine> acquire(EngineSettings settings, MetadataStore store) {
        return SharedEngine.acquire(settings, store);
    }

    /** Opens a ledger for writing. {@code properties} are those of a new ledger. */
    public CompletableFuture<OpenedLedger> openLedger(String name, boolean createIfMissing,
            Map<String, String> properties, Executor executor) {
        byte[] request = Messages.openLedger(name, createIfMissing, properties);
        return open("open ledger", name, executor, op -> NativeCalls.openLedger(engine.handle(), op, request));
    }

    /** Opens a ledger for reading only: takes nothing from its owner, creates nothing. */
    public CompletableFuture<OpenedLedger> openReadOnly(String name, Executor executor) {
        byte[] request = Messages.text(name);
        return open("open read-only ledger", name, executor,
                op -> NativeCalls.openReadOnly(engine.handle(), op, request));
    }

    /** Describes a ledger without opening it; fails with {@code NOT_FOUND} if there is none. */
    public CompletableFuture<LedgerDescription> describeLedger(String name, Executor executor) {
        byte[] request = Messages.text(name);
        return start("describe ledger " + name, executor,
                op -> NativeCalls.describeLedger(engine.handle(), op, request),
                (a, blob, length) -> Messages.description(NativeMemory.copyMessage(blob, length)));
    }

    /** What the engine says about itself; it looks at its directory for that, so this is for whoever asks now and then. */
    public CompletableFuture<EngineState> state(Executor executor) {
        return start("state of the engine", executor, op -> NativeCalls.engineState(engine.handle(), op),
                (a, blob, length) -> Messages.engineState(NativeMemory.copyMessage(blob, length)));
    }

    /** Deletes a ledger; fails with {@code NOT_FOUND} if there is none. An open stream of it is closed first. */
    public CompletableFuture<Void> deleteLedger(String name, Executor executor) {
        byte[] request = Messages.text(name);
        return start("delete ledger " + name, executor,
                op -> NativeCalls.deleteLedger(engine.handle(), op, request), (a, b, c) -> null);
    }

    /**
     * Closes the streams opened through this share and gives it back; the last one closes the engine. Idempotent. The
     * future completes when nothing of this share is left to be answered.
     */
    public CompletableFuture<Void> release() {
        List<NativeStream> open;
        synchronized (this) {
            if (releasing != null) {
                return releasing;
            }
            releasing = new CompletableFuture<>();
            open = new ArrayList<>(streams);
        }
        // The ledgers' executors may be gone by now: the engine's own thread takes the answers.
        CompletableFuture<?>[] closes = open.stream().map(stream -> stream.close(engine.control()))
                .toArray(CompletableFuture<?>[]::new);
        CompletableFuture.allOf(closes).handle((done, failure) -> failure)
                .thenCompose(failure -> engine.leave(this).handle((done, e) -> e != null ? e : failure))
                .whenComplete((failure, unexpected) -> {
                    Throwable cause = NativeErrors.unwrap(failure != null ? failure : unexpected);
                    if (cause == null) {
                        releasing.complete(null);
                    } else {
                        releasing.completeExceptionally(cause);
                    }
                });
        return releasing;
    }

    /** The metadata store of the broker that this share was made for. */
    public MetadataStore metadataStore() {
        return store;
    }

    private CompletableFuture<OpenedLedger> open(String what, String name, Executor executor, LongToIntFunction call) {
        return start(what + " " + name, executor, call, (handle, blob, length) -> opened(handle, blob, length, name,
                executor));
    }

    private OpenedLedger opened(long handle, long blob, long length, String name, Executor executor)
            throws NativeException {
        LedgerDescription description;
        try {
            description = Messages.description(NativeMemory.copyMessage(blob, length));
        } catch (NativeException e) {
            new NativeStream(handle, name, engine.reactor(), executor, null, () -> { }).close();
            throw e;
        }
        StreamHolder holder = new StreamHolder();
        NativeStream stream = new NativeStream(handle, name, engine.reactor(), executor, description.state(),
                () -> forget(holder.stream));
        holder.stream = stream;
        synchronized (this) {
            if (releasing == null) {
                streams.add(stream);
                return new OpenedLedger(stream, description);
            }
        }
        // The share was given back while the ledger was being opened: nobody would ever close it.
        stream.close();
        throw NativeErrors.toException(NativeErrors.CLOSED, "open ledger " + name);
    }

    private synchronized void forget(NativeStream stream) {
        streams.remove(stream);
    }

    private <T> CompletableFuture<T> start(String what, Executor executor, LongToIntFunction call,
            FutureOperation.Outcome<T> outcome) {
        synchronized (this) {
            if (releasing != null) {
                return CompletableFuture.failedFuture(NativeErrors.toException(NativeErrors.CLOSED, what));
            }
        }
        FutureOperation<T> operation = new FutureOperation<>(executor, what, outcome);
        engine.reactor().submit(operation, call);
        return operation.future();
    }

    /** Lets a stream's close action name the stream that is being made. */
    private static final class StreamHolder {
        private NativeStream stream;
    }
}
