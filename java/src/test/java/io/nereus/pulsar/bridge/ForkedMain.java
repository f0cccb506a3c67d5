package io.nereus.pulsar.bridge;

import static io.nereus.pulsar.bridge.Engines.get;

import io.netty.buffer.ByteBuf;
import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.pulsar.common.allocator.PulsarByteBufAllocator;
import org.apache.pulsar.metadata.api.MetadataStore;

/** The scenarios that need a JVM of their own. Prints what happened; the test judges. */
public final class ForkedMain {

    private static final int EXIT_UNDER_LOAD = 7;

    private ForkedMain() {
    }

    /** Runs the scenario that the first argument names. */
    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "load" -> load(arguments.length > 1 ? arguments[1] : null);
            case "second-loader" -> secondLoader();
            case "child-loader" -> childLoader(arguments[1]);
            case "work" -> work(Engines.directory("forked"));
            case "work-and-leak" -> {
                work(Engines.directory("forked"));
                allocate();
                reportLeaks();
            }
            case "leave-open" -> leaveOpen();
            case "exit-under-load" -> exitUnderLoad();
            case "silent-store" -> silentStore();
            case "hung-topic" -> hungTopic();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void load(String directory) {
        try {
            NativeLibrary.load(directory);
            System.out.println("loaded " + NativeCalls.buildId());
        } catch (NativeException e) {
            System.out.println("refused " + NativeErrors.name(e.code()) + ": " + e.getMessage());
        }
    }

    private static void secondLoader() throws Exception {
        load(null);
        try (URLClassLoader second = newLoader()) {
            Method load = second.loadClass(NativeLibrary.class.getName()).getDeclaredMethod("load", String.class);
            load.setAccessible(true);
            try {
                load.invoke(null, (Object) null);
                System.out.println("second copy loaded");
            } catch (InvocationTargetException e) {
                System.out.println("second copy: " + e.getCause().getMessage());
            }
        }
    }

    /** Everything of ours in a child loader: nothing on the native side may look a class up by name. */
    private static void childLoader(String scenario) throws Exception {
        try (URLClassLoader child = newLoader()) {
            // As a container would: libraries that look services up must not mix the two loaders.
            Thread.currentThread().setContextClassLoader(child);
            child.loadClass(ForkedMain.class.getName()).getMethod("main", String[].class)
                    .invoke(null, (Object) new String[] {scenario});
        }
    }

    private static URLClassLoader newLoader() throws Exception {
        List<URL> urls = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            urls.add(new File(entry).toURI().toURL());
        }
        return new URLClassLoader(urls.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
    }

    /** A bit of everything, all closed at the end. */
    private static void work(Path directory) throws Exception {
        ExecutorService executor = daemon();
        MetadataStore store = Stores.memory();
        try {
            NativeEngine engine = Engines.open(directory, store);
            NativeStream stream = get(engine.openLedger("t/n/persistent/forked", true, Map.of("k", "v"), executor))
                    .stream();
            List<CompletableFuture<Long>> appends = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                appends.add(append(stream, 1 + i * 7));
            }
            for (CompletableFuture<Long> append : appends) {
                get(append);
            }
            long entries = 0;
            while (entries < appends.size()) {
                entries += get(StreamCalls.read(stream, entries, 50, 100_000)).size();
            }
            get(stream.persistCursor(new CursorUpdate("sub", true, true, 10, Map.of(), Map.of(), List.of())));
            get(stream.trim(5));
            Engines.failure(StreamCalls.read(stream, 0, 1, 1));
            Engines.failure(engine.openLedger("t/n/persistent/absent", false, Map.of(), executor));
            stream.state();
            get(engine.describeLedger("t/n/persistent/forked", executor));
            get(stream.close());
            get(engine.deleteLedger("t/n/persistent/forked", executor));
            get(engine.release());
        } finally {
            store.close();
        }
        reportLeaks();
        System.out.println("worked, live blobs: " + NativeCalls.liveBlobs());
    }

    private static void leaveOpen() throws Exception {
        NativeStream stream;
        MetadataStore store = Stores.memory();
        try {
            NativeEngine engine = Engines.open(Engines.directory("open"), store);
            stream = get(engine.openLedger("t/n/persistent/open", true, Map.of(), daemon())).stream();
        } finally {
            store.close();
        }
        for (int i = 0; i < 100; i++) {
            append(stream, 100);
        }
        System.out.println("main returns");
    }

    private static void exitUnderLoad() throws Exception {
        MetadataStore store = Stores.memory();
        NativeEngine engine = Engines.open(Engines.directory("load"), store);
        CountDownLatch running = new CountDownLatch(2);
        for (int worker = 0; worker < 2; worker++) {
            String name = "t/n/persistent/load-" + worker;
            NativeStream stream = get(engine.openLedger(name, true, Map.of(), daemon())).stream();
            Thread thread = new Thread(() -> {
                for (int i = 0; true; i++) {
                    try {
                        CompletableFuture<Long> append = append(stream, 1000);
                        StreamCalls.read(stream, Math.max(0, i - 10), 10, 10_000);
                        if (i % 50 == 0) {
                            get(append);
                            running.countDown();
                        }
                    } catch (Exception e) {
                        throw new IllegalStateException(e);
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        running.await();
        System.out.println("exiting");
        System.exit(EXIT_UNDER_LOAD);
    }

    private static void silentStore() throws Exception {
        Path directory = Engines.directory("silent");
        CompletableFuture<NativeEngine> opening = NativeEngine.acquire(
                new EngineSettings(Engines.settings(directory)), Stores.silent());
        System.out.println("answer: " + Engines.failure(opening));
        // Nothing of the attempt is in the way of the next one.
        MetadataStore store = Stores.memory();
        try {
            get(Engines.open(directory, store).release());
        } finally {
            store.close();
        }
        System.out.println("opened afterwards, live blobs: " + NativeCalls.liveBlobs());
    }

    /** The store falls silent about one topic and comes back. */
    private static void hungTopic() throws Exception {
        MetadataStore memory = Stores.memory();
        AtomicBoolean silent = new AtomicBoolean(true);
        NativeEngine engine = Engines.open(Engines.directory("hung"), Stores.watched(memory, (method, args) ->
                silent.get() && args[0] instanceof String path && path.endsWith("/hung") ? new CompletableFuture<>()
                    : null));
        System.out.println("answer: " + Engines.failure(open(engine, "a/hung")));
        get(open(engine, "a/other").thenCompose(opened -> opened.stream().close()));
        silent.set(false);
        get(open(engine, "a/hung").thenCompose(opened -> opened.stream().close()));
        get(engine.release());
        memory.close();
        System.out.println("opened afterwards, live blobs: " + NativeCalls.liveBlobs());
    }

    private static CompletableFuture<OpenedLedger> open(NativeEngine engine, String name) {
        return engine.openLedger(name, true, Map.of(), Runnable::run);
    }

    private static CompletableFuture<Long> append(NativeStream stream, int bytes) {
        ByteBuf entry = PulsarByteBufAllocator.DEFAULT.directBuffer(bytes).writeZero(bytes);
        try {
            return StreamCalls.append(stream, entry);
        } finally {
            entry.release();
        }
    }

    private static void allocate() {
        for (int i = 0; i < 10; i++) {
            PulsarByteBufAllocator.DEFAULT.directBuffer(16).writeZero(16);
        }
    }

    /** Netty reports a leaked buffer at an allocation that follows its collection. */
    private static void reportLeaks() {
        for (int round = 0; round < 20; round++) {
            System.gc();
            PulsarByteBufAllocator.DEFAULT.directBuffer(16).release();
        }
    }

    private static ExecutorService daemon() {
        return Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, "ledger");
            thread.setDaemon(true);
            return thread;
        });
    }
}
