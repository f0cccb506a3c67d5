package io.nereus.pulsar.bridge;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.LongToIntFunction;
import org.apache.pulsar.metadata.api.MetadataStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The engine of one data directory in this JVM, with its reactor, shared by the brokers that asked for it.
 *
 * <p>Owns: the engine handle, the reactor's thread and a control thread. Promises: one engine per data directory; the
 * last sharer to leave closes it; whoever asks while it closes gets a new one afterwards; a second sharer with other
 * settings is refused naming the setting. The metadata store of the sharer that joined last answers native requests.
 */
final class SharedEngine {

    private static final Logger log = LoggerFactory.getLogger(SharedEngine.class);

    /** Texts about the sharer or the JVM, not about the data: they may differ. */
    private static final Set<String> NOT_COMPARED = Set.of(EngineSettings.BROKER_ID, EngineSettings.NATIVE_DIRECTORY);
    private static final long JOIN_MILLIS = 10_000;
    private static final long IDLE_SECONDS = 10;

    /** Engines by data directory; its lock guards every engine's {@code sharers} and {@code closed} too. */
    private static final Map<Path, SharedEngine> OPEN = new HashMap<>();

    private final Path directory;
    private final EngineSettings settings;
    private final CompletableFuture<Void> opened = new CompletableFuture<>();
    private final List<NativeEngine> sharers = new ArrayList<>();
    /** Runs outcomes nobody else runs, and the blocking steps of opening and closing. */
    private final ExecutorService control;
    private final ExecutorService metadata;
    private CompletableFuture<Void> closed;
    private CompletionReactor reactor;
    private volatile long handle;
    private volatile MetadataStore store;

    private SharedEngine(Path directory, EngineSettings settings, MetadataStore store) {
        this.directory = directory;
        this.settings = settings;
        this.store = store;
        this.control = daemon("nereus-control");
        this.metadata = daemon("nereus-metadata");
    }

    /** As {@link NativeEngine#acquire}. */
    static CompletableFuture<NativeEngine> acquire(EngineSettings settings, MetadataStore store) {
        Path directory;
        try {
            NativeLibrary.load(settings.values().get(EngineSettings.NATIVE_DIRECTORY));
            directory = Path.of(settings.required(EngineSettings.DATA_DIRECTORY)).toAbsolutePath().normalize();
        } catch (NativeException e) {
            return CompletableFuture.failedFuture(e);
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(new NativeException(NativeErrors.INVALID, e.getMessage(), e));
        }
        SharedEngine engine;
        NativeEngine share;
        boolean first = false;
        CompletableFuture<Void> closing = null;
        synchronized (OPEN) {
            engine = OPEN.get(directory);
            if (engine == null) {
                engine = new SharedEngine(directory, settings, store);
                OPEN.put(directory, engine);
                first = true;
            } else if (engine.closed != null) {
                closing = engine.closed;
            } else {
                String difference = difference(engine.settings, settings);
                if (difference != null) {
                    return CompletableFuture.failedFuture(new NativeException(NativeErrors.INVALID, "the data"
                            + " directory " + directory + " is open in this JVM with another " + difference));
                }
            }
            share = new NativeEngine(engine, store);
            if (closing == null) {
                engine.sharers.add(share);
                engine.store = store;
            }
        }
        if (closing != null) {
            return closing.handle((done, e) -> null).thenCompose(done -> acquire(settings, store));
        }
        if (first) {
            engine.open();
        }
        return engine.opened.thenApply(done -> share);
    }

    long handle() {
        return handle;
    }

    CompletionReactor reactor() {
        return reactor;
    }

    /** A thread of the engine's own that never refuses work. */
    Executor control() {
        return control;
    }

    /** Takes a share back; the future completes when the engine is closed, if it was the last one. */
    CompletableFuture<Void> leave(NativeEngine share) {
        synchronized (OPEN) {
            if (!sharers.remove(share)) {
                return CompletableFuture.completedFuture(null);
            }
            if (!sharers.isEmpty()) {
                store = sharers.get(sharers.size() - 1).metadataStore();
                return CompletableFuture.completedFuture(null);
            }
            closed = new CompletableFuture<>();
        }
        close();
        return closed;
    }

    private void open() {
        Map<String, String> values = new TreeMap<>(settings.values());
        values.remove(EngineSettings.NATIVE_DIRECTORY);
        try {
            handle = NativeCalls.createEngine(Messages.settings(values));
        } catch (RuntimeException | Error e) {
            log.error("The engine of {} could not be created", directory, e);
        }
        if (handle == 0) {
            failOpen(new NativeException(NativeErrors.INTERNAL, "the native threads of the engine of " + directory
                    + " could not be started; the log says why"));
            return;
        }
        long engine = handle;
        MetadataRequests requests = new MetadataRequests(() -> store,
                (id, status, version, value) -> NativeCalls.answer(engine, id, status, version, value), metadata);
        reactor = new CompletionReactor("nereus-completions", (records, capacity, park) ->
                NativeCalls.poll(engine, records.address, capacity, park), new Records(requests), control);
        reactor.start();
        run("open " + directory, op -> NativeCalls.openEngine(engine, op)).whenComplete((done, e) -> {
            if (e == null) {
                opened.complete(null);
            } else {
                failOpen(NativeErrors.unwrap(e));
            }
        });
    }

    /** Whoever waits for this engine fails; the next one who asks tries again. */
    private void failOpen(Throwable cause) {
        CompletableFuture<Void> gone = new CompletableFuture<>();
        synchronized (OPEN) {
            sharers.clear();
            closed = gone;
        }
        shutDown();
        synchronized (OPEN) {
            OPEN.remove(directory, this);
        }
        gone.complete(null);
        opened.completeExceptionally(cause);
    }

    private void close() {
        run("close " + directory, op -> NativeCalls.closeEngine(handle, op)).whenComplete((done, e) -> {
            shutDown();
            synchronized (OPEN) {
                OPEN.remove(directory, this);
            }
            if (e == null) {
                closed.complete(null);
            } else {
                closed.completeExceptionally(NativeErrors.unwrap(e));
            }
        });
    }

    /** Runs on the control thread or, after a failed creation, on the caller's; never on the reactor's. */
    private void shutDown() {
        if (handle != 0) {
            NativeCalls.destroyEngine(handle);
        }
        if (reactor != null) {
            reactor.stop();
            try {
                if (!reactor.join(JOIN_MILLIS)) {
                    log.warn("The completion thread of {} did not end", directory);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        metadata.shutdown();
        // The control thread stays for outcomes that come late; it ends by itself when idle.
    }

    private CompletableFuture<Void> run(String what, LongToIntFunction call) {
        FutureOperation<Void> operation = new FutureOperation<>(control, what, (a, b, c) -> null);
        reactor.submit(operation, call);
        return operation.future();
    }

    /** Names the first setting that differs with both values, or null. */
    private static String difference(EngineSettings open, EngineSettings asked) {
        Set<String> keys = new TreeSet<>(open.values().keySet());
        keys.addAll(asked.values().keySet());
        keys.removeAll(NOT_COMPARED);
        keys.remove(EngineSettings.DATA_DIRECTORY);
        for (String key : keys) {
            String there = open.values().get(key);
            String here = asked.values().get(key);
            if (there == null || !there.equals(here)) {
                return key + ": " + there + ", asked for " + here;
            }
        }
        return null;
    }

    /** One daemon thread that ends when idle, with an unbounded queue: it never refuses before it is shut down. */
    private static ExecutorService daemon(String name) {
        ThreadPoolExecutor executor = new ThreadPoolExecutor(1, 1, IDLE_SECONDS, TimeUnit.SECONDS,
                new LinkedBlockingQueue<>(), task -> {
                    Thread thread = new Thread(task, name);
                    thread.setDaemon(true);
                    return thread;
                });
        executor.allowCoreThreadTimeOut(true);
        return executor;
    }

    private record Records(MetadataRequests requests) implements CompletionReactor.Listener {
        @Override
        public void metadataRequest(long requestId, byte[] request) {
            requests.submit(requestId, request);
        }

        @Override
        public void logEvent(int level, long dropped, byte[] event) {
            try {
                NativeLog.write(level, dropped, event);
            } catch (NativeException e) {
                log.warn("A log event of the native side is lost: {}", e.getMessage());
            }
        }
    }
}
