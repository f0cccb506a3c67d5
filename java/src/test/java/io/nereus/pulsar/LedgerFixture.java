package io.nereus.pulsar;

import io.nereus.pulsar.bridge.EngineSettings;
import io.nereus.pulsar.bridge.NativeEngine;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerFactoryConfig;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/**
 * A factory over an engine of its own: fresh directory, fresh in-memory metadata store. {@link #restart()} closes and
 * opens everything over the same two, as a restarted broker would. Needs the native library.
 */
public final class LedgerFixture implements AutoCloseable {

    /** Largest entry of the fixture's ledgers in bytes. */
    public static final int MAX_ENTRY_BYTES = 6 * 1024 * 1024;
    /** The default of nereusAckFlushMillis. */
    private static final long ACK_FLUSH_MILLIS = 50;
    private static final long TIMEOUT_SECONDS = 60;

    /** Where the engine works; another one after a crash. */
    private Path directory;
    private final ShownLedgers shownLedgers;
    private final MetadataStoreExtended store;
    private NativeEngine engine;
    private NereusManagedLedgerFactory factory;

    /** Opens engine and factory, for a broker as it is. */
    public LedgerFixture() throws Exception {
        this(ShownLedgers.ofBroker());
    }

    /** Opens engine and factory. */
    LedgerFixture(ShownLedgers shownLedgers) throws Exception {
        this.shownLedgers = shownLedgers;
        directory = Files.createTempDirectory("nereus-ledger-test");
        store = MetadataStoreExtended.create("memory:" + UUID.randomUUID(), MetadataStoreConfig.builder().build());
        open();
    }

    private void open() throws Exception {
        Map<String, String> values = new HashMap<>();
        values.put(EngineSettings.DATA_DIRECTORY, directory.toString());
        values.put(EngineSettings.CLUSTER_NAME, "test");
        values.put(EngineSettings.BROKER_ID, "test broker");
        values.put("memoryLimitBytes", Long.toString(256L << 20));
        values.put("publishBufferBytes", Long.toString(64L << 20));
        values.put("segmentBytes", Long.toString(32L << 20));
        values.put("maxEntryBytes", Integer.toString(MAX_ENTRY_BYTES));
        values.put("acceptOlderCopy", "false");
        engine = NativeEngine.acquire(new EngineSettings(values), store).get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
        ManagedLedgerFactoryConfig config = new ManagedLedgerFactoryConfig();
        config.setNumManagedLedgerSchedulerThreads(2);
        config.setStatsPeriodSeconds(1);
        factory = new NereusManagedLedgerFactory(engine, config, MAX_ENTRY_BYTES, ACK_FLUSH_MILLIS,
            Durations.UNHEARD, shownLedgers);
    }

    private void shut() throws Exception {
        factory.shutdown();
        engine.release().get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    /** Closes every ledger and the engine, and opens them again over the same directory and metadata store. */
    public void restart() throws Exception {
        shut();
        open();
    }

    /**
     * Goes on from what a process that is killed now would leave: the files as they are, without a close. What the old
     * factory still does afterwards goes to files that nobody reads any more.
     */
    public void crash() throws Exception {
        Path killed = directory;
        NereusManagedLedgerFactory old = factory;
        NativeEngine oldEngine = engine;
        directory = Files.createTempDirectory("nereus-ledger-test");
        try (Stream<Path> files = Files.walk(killed)) {
            for (Path file : files.sorted().toList()) {
                Files.copy(file, directory.resolve(killed.relativize(file)), StandardCopyOption.REPLACE_EXISTING);
            }
        }
        try {
            open();
        } finally {
            old.shutdown();
            oldEngine.release().get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
            removeDirectory(killed);
        }
    }

    /** Where the engine works now. */
    Path directory() {
        return directory;
    }

    /** Another factory over the same engine, as a second broker in this JVM would have; the caller shuts it down. */
    NereusManagedLedgerFactory secondFactory() {
        return new NereusManagedLedgerFactory(engine, factory.getConfig(), MAX_ENTRY_BYTES, ACK_FLUSH_MILLIS,
            Durations.UNHEARD, shownLedgers);
    }

    NereusManagedLedgerFactory factory() {
        return factory;
    }

    /** The engine below the factory. */
    NativeEngine engine() {
        return engine;
    }

    /** The metadata store in which binding and registry nodes lie. */
    public MetadataStoreExtended store() {
        return store;
    }

    NereusManagedLedger ledger(String name) throws Exception {
        return ledger(name, new ManagedLedgerConfig());
    }

    NereusManagedLedger ledger(String name, ManagedLedgerConfig config) throws Exception {
        return (NereusManagedLedger) factory.open(name, config);
    }

    /** A ledger name of its own, in Pulsar's form. */
    public static String freshName() {
        return "public/default/persistent/t-" + UUID.randomUUID();
    }

    static Position add(NereusManagedLedger ledger, String text) throws Exception {
        return ledger.addEntry(text.getBytes(StandardCharsets.UTF_8));
    }

    /** The texts of {@code entries}, which are released. */
    public static List<String> texts(List<Entry> entries) {
        return entries.stream().map(LedgerFixture::text).toList();
    }

    /** The text of {@code entry}, which is released. */
    public static String text(Entry entry) {
        try {
            return new String(entry.getData(), StandardCharsets.UTF_8);
        } finally {
            entry.release();
        }
    }

    /** Closes everything and removes the directory; a failure to close is a failure of the test. */
    @Override
    public void close() {
        try {
            shut();
        } catch (Exception e) {
            throw new IllegalStateException("the fixture did not close", e);
        } finally {
            closeStore();
            removeDirectory(directory);
        }
    }

    private void closeStore() {
        try {
            store.close();
        } catch (Exception e) {
            throw new IllegalStateException("the metadata store did not close", e);
        }
    }

    private static void removeDirectory(Path directory) {
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).forEach(LedgerFixture::delete);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void delete(Path path) {
        try {
            Files.deleteIfExists(path);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
