package io.nereus.bench;

import io.nereus.tests.broker.Ports;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** One ZooKeeper server, the metadata store of both sides; each has a root of its own in it. */
final class ZooKeeperProcess implements AutoCloseable {

    private final int port;
    private final JavaProcess process;

    /** Starts it and waits until it answers. */
    ZooKeeperProcess(Site site) throws IOException, InterruptedException {
        port = Ports.free().binary();
        Path home = site.directory().resolve("zookeeper");
        Files.createDirectories(home);
        // Sessions may be long: a side that waits for its turn is stopped, and must not lose its session meanwhile.
        Path configuration = Files.write(home.resolve("zoo.cfg"), List.of("tickTime=2000", "clientPort=" + port,
            "clientPortAddress=127.0.0.1", "dataDir=" + home.resolve("data"), "maxClientCnxns=0",
            "maxSessionTimeout=3600000", "admin.enableServer=false", "standaloneEnabled=true"));
        process = JavaProcess.server("zookeeper", home, site.installation().brokerClassPath(),
            List.of("-Xms256m", "-Xmx512m"),
            List.of("org.apache.zookeeper.server.quorum.QuorumPeerMain", configuration.toString()));
        process.awaitPort(port, 90);
    }

    /** As Pulsar writes it. */
    String pulsarUrl(Side side) {
        return "zk:127.0.0.1:" + port + "/" + side.id();
    }

    /** As a bookie writes it: the same nodes that stock's broker takes for its own. */
    String bookieUri() {
        return "zk+hierarchical://127.0.0.1:" + port + "/" + Side.STOCK.id() + "/ledgers";
    }

    long pid() {
        return process.pid();
    }

    @Override
    public void close() {
        process.close();
    }
}
