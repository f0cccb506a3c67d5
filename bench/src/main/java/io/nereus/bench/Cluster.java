package io.nereus.bench;

import io.nereus.tests.broker.BrokerFiles;
import io.nereus.tests.broker.BrokerProcess;
import io.nereus.tests.broker.Ports;
import java.io.IOException;
import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/** ZooKeeper, one bookie, and one broker for each side whose cluster is set up but which does not run yet. */
final class Cluster implements AutoCloseable {

    /** Of a side that waits for its turn, stopped. */
    static final int LONG_SESSION_MILLIS = 600_000;
    /** BookKeeper's own default. */
    static final int STOCK_SESSION_MILLIS = 10_000;

    private final ZooKeeperProcess zooKeeper;
    private final BookieProcess bookie;
    private final Map<Side, BrokerProcess> brokers = new EnumMap<>(Side.class);
    private boolean bookiePaused;

    /** Starts ZooKeeper and the bookie below the site's directory, and sets up both clusters. */
    Cluster(Site site, int bookieSessionMillis) throws IOException, InterruptedException {
        zooKeeper = new ZooKeeperProcess(site);
        for (Side side : Side.values()) {
            BrokerFiles files = new BrokerFiles(site.directory().resolve(side.id()), side.id(),
                site.directory().resolve("unused"), Ports.free());
            BrokerProcess broker = new BrokerProcess(site.installation(), files);
            brokers.put(side, broker);
        }
        setUp();
        bookie = new BookieProcess(site, zooKeeper.bookieUri(), bookieSessionMillis);
    }

    /** Both at the same time: each is a JVM that mostly loads classes. */
    private void setUp() throws IOException, InterruptedException {
        CompletableFuture<Void> other = CompletableFuture.runAsync(() -> {
            try {
                broker(Side.STOCK).setUpCluster(metadataUrl(Side.STOCK));
            } catch (IOException | InterruptedException e) {
                throw new CompletionException(e);
            }
        });
        broker(Side.NEREUS).setUpCluster(metadataUrl(Side.NEREUS));
        other.join();
    }

    BookieProcess bookie() {
        return bookie;
    }

    BrokerProcess broker(Side side) {
        return brokers.get(side);
    }

    long zooKeeperPid() {
        return zooKeeper.pid();
    }

    String metadataUrl(Side side) {
        return zooKeeper.pulsarUrl(side);
    }

    /** The bookie works in stock's time only: what it puts off until later must not be done in the other's. */
    void turnTo(Side side) throws IOException, InterruptedException {
        boolean pause = side == Side.NEREUS && bookie.isRunning();
        if (pause != bookiePaused) {
            if (pause) {
                Children.pause(bookie.pid());
            } else {
                Children.resume(bookie.pid());
            }
            bookiePaused = pause;
        }
        Machine.settle();
    }

    @Override
    public void close() {
        brokers.values().forEach(BrokerProcess::close);
        bookie.kill();   // its data go too, and stopped as it may be it would not hear SIGTERM
        zooKeeper.close();
    }
}
