package io.nereus.pulsar.contract;

import io.opentelemetry.api.OpenTelemetry;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFactoryClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.storage.ManagedLedgerStorage;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/** Nereus over a directory of its own, loaded as a broker loads it. */
final class NereusBackend implements Backend {

    private static final int COPY_ATTEMPTS = 10;
    private static final int MEMORY_MEGABYTES = 256;
    private static final int PUBLISH_BUFFER_MEGABYTES = 64;
    private static final int SEGMENT_MEGABYTES = 32;

    private final List<Path> directories = new ArrayList<>();
    private final List<Broker> running = new ArrayList<>();
    private final List<Broker> killed = new ArrayList<>();
    private Path directory;

    NereusBackend() throws IOException {
        directory = newDirectory();
    }

    private Path newDirectory() throws IOException {
        Path made = Files.createTempDirectory("nereus-contract");
        directories.add(made);
        return made;
    }

    @Override
    public Broker start(MetadataStoreExtended store) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("nereusDataDirectory", directory.toString());
        properties.setProperty("nereusMemoryLimitMB", Integer.toString(MEMORY_MEGABYTES));
        properties.setProperty("nereusJournalSegmentMB", Integer.toString(SEGMENT_MEGABYTES));
        ServiceConfiguration conf = new ServiceConfiguration();
        conf.setProperties(properties);
        conf.setClusterName("contract");
        conf.setMaxMessagePublishBufferSizeInMB(PUBLISH_BUFFER_MEGABYTES);
        conf.setManagedLedgerNumSchedulerThreads(2);
        conf.setManagedLedgerStatsPeriodSeconds(World.STATS_PERIOD_SECONDS);
        conf.setManagedLedgerStorageClassName("io.nereus.pulsar.NereusManagedLedgerStorage");
        ManagedLedgerStorage storage =
            ManagedLedgerStorage.create(conf, store, null, null, OpenTelemetry.noop());
        ManagedLedgerFactory factory = storage.getDefaultStorageClass().getManagedLedgerFactory();
        Broker broker = new Broker() {
            @Override
            public ManagedLedgerFactory factory() {
                return factory;
            }

            @Override
            public void stop() throws Exception {
                running.remove(this);
                try {
                    storage.close();
                } catch (IOException e) {
                    if (!(e.getCause() instanceof ManagedLedgerFactoryClosedException)) { // the test closed it
                        throw e;
                    }
                }
            }
        };
        running.add(broker);
        return broker;
    }

    /** What the old brokers still write goes to files that nobody reads any more. */
    @Override
    public void kill() throws Exception {
        Path old = directory;
        directory = newDirectory();
        copy(old, directory);
        killed.addAll(running);
        running.clear();
    }

    /** A file that the engine removes while we copy belongs to no moment: then all of it is copied again. */
    private static void copy(Path from, Path to) throws IOException {
        for (int attempt = 1;; attempt++) {
            try (Stream<Path> files = Files.walk(from)) {
                for (Path file : files.sorted().toList()) {
                    Path copied = to.resolve(from.relativize(file));
                    if (!Files.isDirectory(file)) {
                        Files.copy(file, copied, StandardCopyOption.REPLACE_EXISTING);
                    } else {
                        Files.createDirectories(copied);
                    }
                }
                return;
            } catch (NoSuchFileException e) {
                if (attempt == COPY_ATTEMPTS) {
                    throw e;
                }
                remove(to);
                Files.createDirectories(to);
            }
        }
    }

    @Override
    public void close() throws Exception {
        for (Broker broker : killed) {
            try {
                broker.stop();
            } catch (IOException e) {
                // a killed broker reaches no metadata store: it cannot close cleanly
            }
        }
        for (Path made : directories) {
            remove(made);
        }
    }

    private static void remove(Path directory) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(file);
            }
        }
    }
}
