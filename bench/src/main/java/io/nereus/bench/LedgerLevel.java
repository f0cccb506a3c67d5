package io.nereus.bench;

import io.nereus.bench.ledger.LedgerWorker;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The measurements on managed ledgers: both sides' factories in one JVM, the bookie and ZooKeeper as real processes. */
final class LedgerLevel implements AutoCloseable {

    private static final int BARE_OUTSTANDING = 64;
    private static final int CURVE_OUTSTANDING = 512;
    private static final int LEDGERS = 1000;

    private final Site site;
    private final Scale scale;
    private final Scoreboard board;
    private final Profiler profiler;
    private final Cluster cluster;
    private Worker worker;

    /** Starts ZooKeeper and the bookie below the site's directory, which must be empty. */
    LedgerLevel(Site site, Scale scale, Scoreboard board, Profiler profiler) throws IOException, InterruptedException {
        this.site = site;
        this.scale = scale;
        this.board = board;
        this.profiler = profiler;
        cluster = new Cluster(site, Cluster.LONG_SESSION_MILLIS);
    }

    private void startWorker() throws IOException, InterruptedException {
        if (worker == null) {
            worker = worker("ledger-worker", List.of("-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=1g"));
            warm();
        }
    }

    /** Whoever begins must not pay for the compiler, in this JVM and in the bookie's. */
    private void warm() throws IOException, InterruptedException {
        for (int pass = 0; pass < 2; pass++) {
            for (Side side : Side.values()) {
                cluster.turnTo(side);
                for (int outstanding : new int[] {512, 64, 1}) {
                    worker.ask("append " + side.id() + " " + outstanding + " 1 0 " + scale.warmSeconds(), 120);
                }
            }
        }
    }

    private Worker worker(String name, List<String> memory) throws IOException {
        Path data = Files.createDirectories(site.directory().resolve("data"));
        List<String> jvm = new ArrayList<>(memory);
        jvm.addAll(profiler.jvmArguments());
        jvm.add("-Dbench.data=" + data);
        for (Side side : Side.values()) {
            jvm.add("-Dbench.metadata." + side.id() + "=" + cluster.metadataUrl(side));
        }
        return new Worker(name, site.directory(), site.own(), jvm, LedgerWorker.class);
    }

    private long syncs(Worker of, Side side) throws IOException, InterruptedException {
        return side == Side.NEREUS ? (long) of.ask("syncs", 30).get("syncs") : cluster.bookie().syncs();
    }

    private Meter meter(String label, Side side, Worker watched) {
        Meter meter = new Meter(label.replaceAll("[^A-Za-z0-9]+", "-") + "-" + side.id(), profiler).watch("worker", watched.pid());
        return side == Side.NEREUS ? meter : meter.watch("bookie", cluster.bookie().pid());
    }

    /** One measurement of appends: asks, counts, says, and refuses it if the side did not sync. */
    private Figures appends(Side side, String label, String command, int outstanding) throws IOException, InterruptedException {
        cluster.turnTo(side);
        boolean many = !command.contains(" 1 " + times());
        if (many) {
            worker.ask(command.replace(times(), "0 1"), 600);   // opens its ledgers, so that their syncs do not count
        }
        Meter meter = meter(label, side, worker);
        long before = syncs(worker, side);
        long flushes = Proc.diskFlushes();
        Figures figures = worker.ask(command, 300, meter);
        long syncs = syncs(worker, side) - before;
        SyncCheck.require(label, side, figures.get("all"), outstanding, syncs, Proc.diskFlushes() - flushes);
        board.say("%-28s %-6s %,10.0f entries/s  p50 %,7.0f us  p99 %,8.0f us  %,7d syncs (%,.1f entries each; the disk "
            + "flushed %,d times)  for each: CPU %.1f us, %.2f wake-ups, %,.0f bytes of the caller's heap", label, side.id(),
            figures.get("rate"), figures.get("p50"), figures.get("p99"), syncs, figures.get("all") / syncs,
            meter.diskFlushes(), meter.cpuSeconds() * 1e6 / figures.get("count"),
            meter.wakeUps() / figures.get("count"), figures.get("allocated"));
        if (many) {
            worker.ask("drop " + side.id(), 600);
        }
        return figures;
    }

    /** Throughput and latency of appends. */
    void append() throws IOException, InterruptedException {
        startWorker();
        String times = " " + times();
        for (int round = 0; round < scale.rounds(); round++) {
            for (Side side : Side.order(round)) {
                String on = "append " + side.id() + " ";
                double beside = 0;
                if (side == Side.NEREUS) {
                    cluster.turnTo(side);
                    beside = bare(times);
                }
                Figures figures = appends(side, "append 64 x 1 ledger", on + "64 1" + times, 64);
                board.put(Metric.APPEND_64, side, figures.get("rate"));
                if (side == Side.NEREUS) {
                    board.put(Metric.BARE, Side.NEREUS, figures.get("rate"));
                    board.put(Metric.BARE, Side.STOCK, beside);
                }
                board.put(Metric.APPEND_512, side, appends(side, "append 512 x 1 ledger", on + "512 1" + times, 512).get("rate"));
                board.put(Metric.APPEND_MANY, side,
                    appends(side, "append 1 x 1,000 ledgers", on + LEDGERS + " " + LEDGERS + times, LEDGERS).get("rate"));
                board.put(Metric.APPEND_LATENCY, side, appends(side, "append 1 x 1 ledger", on + "1 1" + times, 1).get("p50"));
            }
        }
    }

    private String times() {
        return scale.warmSeconds() + " " + scale.seconds();
    }

    private double bare(String times) throws IOException, InterruptedException {
        Figures figures = worker.ask("bare " + BARE_OUTSTANDING + times, 120);
        board.say("%-28s %-6s %,10.0f entries/s  p50 %,7.0f us  p99 %,8.0f us  %,7.0f syncs", "bare log 64", "bare",
            figures.get("rate"), figures.get("p50"), figures.get("p99"), figures.get("syncs"));
        return figures.get("rate");
    }

    /** Acks in random order and what they leave behind. */
    void acks() throws IOException, InterruptedException {
        startWorker();
        for (int round = 0; round < Math.max(1, scale.rounds() - 1); round++) {
            for (Side side : Side.order(round)) {
                cluster.turnTo(side);
                Meter meter = meter("acks", side, worker).watch("zookeeper", cluster.zooKeeperPid());
                long before = syncs(worker, side);
                Figures figures = worker.ask("acks " + side.id() + " " + scale.holes() + " " + scale.ackSeconds(), 600, meter);
                long syncs = syncs(worker, side) - before;
                SyncCheck.require("acks", side, 2.0 * scale.holes(), CURVE_OUTSTANDING, syncs, meter.diskFlushes());
                board.put(Metric.ACK_BYTES, side, figures.get("bytes"));
                board.put(Metric.ACK_RELOAD, side, figures.get("reload"));
                board.say("%-28s %-6s %,d holes in %.1f s: %,.0f persists, %,.0f bytes (the processes wrote %,d to the disk), "
                    + "reload %,.1f ms, %,d syncs, CPU %.1f s", "random acks", side.id(), scale.holes(), figures.get("seconds"),
                    figures.get("persists"), figures.get("bytes"), meter.writtenBytes(), figures.get("reload"), syncs,
                    meter.cpuSeconds());
            }
        }
    }

    /** The same load over more and more ledgers. */
    void curve() throws IOException, InterruptedException {
        startWorker();
        String times = " " + times();
        for (int topics : scale.curve()) {
            for (Side side : Side.order(topics)) {
                board.put(Metric.curve(topics), side, appends(side, "append 512 x %,d ledgers".formatted(topics),
                    "append " + side.id() + " " + CURVE_OUTSTANDING + " " + topics + times, CURVE_OUTSTANDING).get("rate"));
            }
        }
    }

    /** Many topics made, opened, idle; a JVM for each side, whose memory nothing else has touched. Not after the others. */
    void open(int round) throws IOException, InterruptedException {
        for (Side side : Side.order(round)) {
            cluster.turnTo(side);
            try (Worker fresh = worker("open-" + side.id(),
                    List.of("-Xms2g", "-Xmx2g", "-XX:+AlwaysPreTouch", "-XX:MaxDirectMemorySize=1g"))) {
                long bookieBefore = Proc.residentBytes(cluster.bookie().pid());
                fresh.ask("append " + side.id() + " 1 1 0 1", 120);
                long before = syncs(fresh, side);
                long flushes = Proc.diskFlushes();
                Figures made = fresh.ask("create " + side.id() + " " + scale.topics(), 900);
                SyncCheck.require("create topics", side, made.get("all"), 64, syncs(fresh, side) - before,
                    Proc.diskFlushes() - flushes);
                Meter meter = meter("open", side, fresh);
                Figures opened = fresh.ask("reopen " + side.id() + " " + scale.topics(), 900, meter);
                double bookie = side == Side.NEREUS ? 0
                    : (double) (Proc.residentBytes(cluster.bookie().pid()) - bookieBefore) / scale.topics();
                board.put(Metric.OPEN, side, opened.get("seconds"));
                board.put(Metric.IDLE_MEMORY, side, opened.get("heap") + opened.get("native"));
                board.say("%-28s %-6s %,d made in %.1f s, opened in %.1f s (CPU %.1f s); idle: heap %,.0f + native %,.0f bytes "
                    + "each%s", "many topics", side.id(), scale.topics(), made.get("seconds"), opened.get("seconds"),
                    meter.cpuSeconds(), opened.get("heap"), opened.get("native"), side == Side.NEREUS ? "" : " (and the bookie %,.0f)".formatted(bookie));
            }
        }
    }

    @Override
    public void close() {
        try {
            cluster.turnTo(Side.STOCK);   // the worker closes its ledgers there
        } catch (IOException | InterruptedException e) {
            board.say("the bookie did not go on: %s", e);
        }
        if (worker != null) {
            worker.close();
        }
        cluster.close();
    }
}
