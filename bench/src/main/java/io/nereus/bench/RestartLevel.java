package io.nereus.bench;

import io.nereus.bench.client.ClientWorker;
import java.io.IOException;
import java.util.List;

/**
 * From {@code kill -9} of all of a side's processes with thousands of topics to the first publish. Nereus has one process
 * to kill, stock two, and both of those start at the same time. Sessions with ZooKeeper last as long as stock's do, because
 * a killed process leaves its session behind.
 */
final class RestartLevel implements AutoCloseable {

    private static final int STOCK_BROKER_SESSION_MILLIS = 30_000;
    private static final int MESSAGE_BYTES = 1024;

    private final Scale scale;
    private final Scoreboard board;
    private final Cluster cluster;
    private final Worker client;

    /** Starts what both sides need below the site's directory, which must be empty. */
    RestartLevel(Site site, Scale scale, Scoreboard board) throws IOException, InterruptedException {
        this.scale = scale;
        this.board = board;
        cluster = new Cluster(site, Cluster.STOCK_SESSION_MILLIS);
        client = new Worker("client", site.directory(), site.own(), List.of("-Xms512m", "-Xmx1g"), ClientWorker.class);
        for (Side side : Side.values()) {
            BrokerPair.equip(cluster.broker(side));
        }
    }

    /** Fills, kills and restarts one side, so many times as the scale says; then stops it. Stock first: then its bookie ends too. */
    void restart(Side side) throws IOException, InterruptedException {
        String url = " " + cluster.broker(side).serviceUrl() + " ";
        BrokerPair.start(cluster, side, STOCK_BROKER_SESSION_MILLIS);
        long syncs = BrokerPair.syncs(cluster, side);
        long flushes = Proc.diskFlushes();
        Figures made = client.ask("create" + url + "many- " + scale.topics(), 1800);
        SyncCheck.require("topics of the restart", side, made.get("all"), 64, BrokerPair.syncs(cluster, side) - syncs,
            Proc.diskFlushes() - flushes);
        Figures filled = client.ask("fill-batched" + url + "bulk " + scale.restartBytes() / MESSAGE_BYTES, 1800);
        board.say("%-28s %-6s %,d topics in %.1f s, then %,d MiB at %,.0f msg/s", "before the restart", side.id(), scale.topics(),
            made.get("seconds"), scale.restartBytes() >> 20, filled.get("rate"));
        for (int i = 0; i < scale.restarts(); i++) {
            cluster.broker(side).kill();
            if (side == Side.STOCK) {
                cluster.bookie().kill();
            }
            Machine.settle();
            long start = System.nanoTime();
            if (side == Side.STOCK) {
                cluster.bookie().launch();
            }
            BrokerPair.launch(cluster, side, STOCK_BROKER_SESSION_MILLIS);
            client.ask("first" + url + "many-" + (7 + i), 600);
            double seconds = (System.nanoTime() - start) / 1e9;
            board.put(Metric.RESTART, side, seconds);
            board.say("%-28s %-6s first publish %.1f s after the start; CPU of the broker %.1f s", "restart after kill -9", side.id(),
                seconds, Proc.cpuSeconds(cluster.broker(side).pid()));
        }
        cluster.broker(side).kill();
        if (side == Side.STOCK) {
            cluster.bookie().kill();
        }
    }

    @Override
    public void close() {
        client.close();
        cluster.close();
    }
}
