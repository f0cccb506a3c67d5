package io.nereus.tests.e2e;

import io.nereus.tests.broker.BrokerFiles;
import io.nereus.tests.broker.BrokerProcess;
import io.nereus.tests.broker.Installation;
import io.nereus.tests.broker.Ports;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;

/**
 * A broker process in a directory of its own with a client and an admin client to it. The cluster's first metadata is
 * set up once per JVM and copied. Closing it kills what runs and removes the directory.
 */
final class TestBroker implements AutoCloseable {

    static final String CLUSTER = "e2e";

    private static Path clusterTemplate;

    private final Path directory;
    private final BrokerProcess process;
    private PulsarClient client;
    private PulsarAdmin admin;

    private TestBroker(Path directory, BrokerProcess process) {
        this.directory = directory;
        this.process = process;
    }

    /** A broker that has not been started, of a cluster of its own. */
    static TestBroker prepare() throws IOException, InterruptedException {
        return prepare(Installation.built());
    }

    /** A broker of that installation that has not been started, of a cluster of its own. */
    static TestBroker prepare(Installation installation) throws IOException, InterruptedException {
        Path directory = Files.createTempDirectory("nereus-e2e-");
        Path metadata = directory.resolve("metadata");
        copy(clusterTemplate(), metadata);
        return prepare(directory, CLUSTER, metadata, installation);
    }

    /** A broker that has not been started, over the given metadata store; the caller removes what it put elsewhere. */
    static TestBroker prepare(Path directory, String cluster, Path metadata, Installation installation) throws IOException {
        BrokerFiles files = new BrokerFiles(directory.resolve("broker"), cluster, metadata, Ports.free());
        return new TestBroker(directory, new BrokerProcess(installation, files));
    }

    /** A started, healthy broker. */
    static TestBroker start() throws IOException, InterruptedException {
        TestBroker broker = prepare();
        try {
            broker.process.start();
        } catch (IOException | InterruptedException e) {
            broker.close();
            throw e;
        }
        return broker;
    }

    Path directory() {
        return directory;
    }

    BrokerProcess process() {
        return process;
    }

    /** The client of this broker; reconnects by itself over restarts. */
    PulsarClient client() throws PulsarClientException {
        if (client == null) {
            client = PulsarClient.builder().serviceUrl(process.serviceUrl()).operationTimeout(30, TimeUnit.SECONDS)
                    .startingBackoffInterval(50, TimeUnit.MILLISECONDS).maxBackoffInterval(500, TimeUnit.MILLISECONDS).build();
        }
        return client;
    }

    PulsarAdmin admin() throws PulsarClientException {
        if (admin == null) {
            admin = PulsarAdmin.builder().serviceHttpUrl(process.adminUrl()).build();
        }
        return admin;
    }

    /** Closes the clients, so that the next ones know nothing of what these did. */
    void forgetClients() throws PulsarClientException {
        if (client != null) {
            client.shutdown();
            client = null;
        }
        if (admin != null) {
            admin.close();
            admin = null;
        }
    }

    @Override
    public void close() throws IOException {
        try {
            forgetClients();
        } finally {
            process.close();
            remove(directory);
        }
    }

    /** Copies a directory with all that is in it. */
    static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> files = Files.walk(from)) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(from.relativize(file).toString()), StandardCopyOption.COPY_ATTRIBUTES);
            }
        }
    }

    /** Removes a directory with all that is in it. */
    static void remove(Path directory) throws IOException {
        if (!Files.exists(directory, LinkOption.NOFOLLOW_LINKS)) {
            return;
        }
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    /** The metadata store of a fresh cluster named {@link #CLUSTER}. */
    private static synchronized Path clusterTemplate() throws IOException, InterruptedException {
        if (clusterTemplate == null) {
            Path directory = Files.createTempDirectory("nereus-cluster-");
            try (TestBroker first = prepare(directory, CLUSTER, directory.resolve("metadata"), Installation.built())) {
                first.process.setUpCluster();
                Path kept = Files.createTempDirectory("nereus-cluster-").resolve("metadata");
                copy(first.process.files().metadata(), kept);
                clusterTemplate = kept;
                Runtime.getRuntime().addShutdownHook(new Thread(() -> removeQuietly(kept.getParent())));
            }
        }
        return clusterTemplate;
    }

    private static void removeQuietly(Path directory) {
        try {
            remove(directory);
        } catch (IOException e) {
            System.err.println("could not remove " + directory + ": " + e);
        }
    }
}
