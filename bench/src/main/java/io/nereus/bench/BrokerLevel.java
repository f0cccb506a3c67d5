package io.nereus.bench;

import io.nereus.bench.client.ClientWorker;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The measurements through brokers and Pulsar's client. Both brokers live as long as the level does; the one that is not
 * measured is stopped (SIGSTOP), and stock's bookie with it, so that nothing of it runs in the other's time.
 */
final class BrokerLevel implements AutoCloseable {

    private static final double PACED_WARM_SECONDS = 5;
    private static final int PER_SECOND = 2000;
    /** A connection has no more publishes under way: Pulsar's default of maxPendingPublishRequestsPerConnection. */
    private static final int OUTSTANDING = 1000;
    private static final int BATCHED_OUTSTANDING = 4096;
    private static final int MESSAGE_BYTES = 1024;
    private static final int MANY = 50;
    private static final long DISPLACING_MESSAGES = 600_000;
    private static final Pattern FRESH_TOPIC = Pattern.compile("persistent://public/default/(t[0-9]+[^\"]*)\"");

    private final Scale scale;
    private final Scoreboard board;
    private final Profiler profiler;
    private final Cluster cluster;
    private final Worker client;
    private int topics;

    /** Starts everything below the site's directory, which must be empty. */
    BrokerLevel(Site site, Scale scale, Scoreboard board, Profiler profiler) throws IOException, InterruptedException {
        this.scale = scale;
        this.board = board;
        this.profiler = profiler;
        cluster = new Cluster(site, Cluster.LONG_SESSION_MILLIS);
        client = new Worker("client", site.directory(), site.own(), List.of("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g"),
            ClientWorker.class);
        for (Side side : Side.values()) {
            BrokerPair.equip(cluster.broker(side)).withJvmArguments(profiler.jvmArguments().toArray(String[]::new));
            BrokerPair.start(cluster, side, Cluster.LONG_SESSION_MILLIS);
        }
        warm();
    }

    /** Compiles what is measured, in both brokers, the bookie and the client. */
    private void warm() throws IOException, InterruptedException {
        for (int pass = 0; pass < 2; pass++) {
            for (Side side : Side.values()) {
                turnTo(side);
                ask("full", side, freshTopic() + " 1 " + OUTSTANDING + " 0 " + 2 * scale.warmSeconds());
                ask("arrival", side, freshTopic() + " " + PER_SECOND + " 0 " + scale.warmSeconds());
                ask("batched", side, freshTopic() + " " + BATCHED_OUTSTANDING + " 0 " + scale.warmSeconds());
                dropTopics(side);
            }
        }
    }

    private void turnTo(Side side) throws IOException, InterruptedException {
        for (Side other : Side.values()) {
            if (other != side) {
                Children.pause(cluster.broker(other).pid());
            }
        }
        Children.resume(cluster.broker(side).pid());
        cluster.turnTo(side);
    }

    private String freshTopic() {
        return "t" + topics++;
    }

    /** Deletes every topic but the backlog: what was measured must not fill the disk of what comes next. */
    private void dropTopics(Side side) throws IOException, InterruptedException {
        Matcher fresh = FRESH_TOPIC.matcher(cluster.broker(side).get("/admin/v2/persistent/public/default").body());
        while (fresh.find()) {
            HttpResponse<String> answer =
                cluster.broker(side).delete("/admin/v2/persistent/public/default/" + fresh.group(1) + "?force=true");
            if (answer.statusCode() / 100 != 2) {
                throw new IllegalStateException("topic " + fresh.group(1) + " could not be deleted: HTTP " + answer.statusCode() + " "
                    + answer.body());
            }
        }
    }

    private Figures ask(String command, Side side, String rest) throws IOException, InterruptedException {
        return client.ask(command + " " + cluster.broker(side).serviceUrl() + " " + rest, 900);
    }

    private Meter meter(String label, Side side) {
        Meter meter = new Meter(label + "-" + side.id(), profiler).watch("broker", cluster.broker(side).pid())
            .watch("client", client.pid());
        return side == Side.NEREUS ? meter : meter.watch("bookie", cluster.bookie().pid());
    }

    /** A measured load with publishes: counts the syncs and refuses it without them. */
    private Figures publishes(String label, String command, Side side, String rest, int outstanding, Meter meter)
            throws IOException, InterruptedException {
        turnTo(side);
        long before = BrokerPair.syncs(cluster, side);
        long flushes = Proc.diskFlushes();
        Figures figures = client.ask(command + " " + cluster.broker(side).serviceUrl() + " " + rest, 300, meter);
        flushes = Proc.diskFlushes() - flushes;
        long syncs = BrokerPair.syncs(cluster, side) - before;
        SyncCheck.require(label, side, figures.get("all"), outstanding, syncs, flushes);
        board.say("%-28s %-6s %s  %,d syncs (%.1f messages each; the disk flushed %,d times)  CPU us/message: broker %.1f%s, "
            + "client %.1f; wake-ups of all %.2f", label, side.id(), figures, syncs, figures.get("all") / syncs, flushes,
            perMessage(meter, "broker", figures),
            side == Side.STOCK ? " and bookie %.1f".formatted(perMessage(meter, "bookie", figures)) : "",
            perMessage(meter, "client", figures), meter.wakeUps() / figures.get("count"));
        dropTopics(side);
        return figures;
    }

    /** CPU seconds per million messages, which is microseconds for each. */
    private static double perMessage(Meter meter, String process, Figures figures) {
        return meter.cpuSeconds(process) * 1e6 / figures.get("count");
    }

    private String times() {
        return scale.warmSeconds() + " " + scale.seconds();
    }

    /** Latency of a publish at an even pace. At such a pace the compiler takes longer: it would make the 99th percentile. */
    void publish(Side side) throws IOException, InterruptedException {
        String paced = PER_SECOND + " " + Math.max(PACED_WARM_SECONDS, scale.warmSeconds()) + " " + scale.seconds();
        Figures figures = publishes("publish 2,000 msg/s", "receipt", side, freshTopic() + " " + paced, OUTSTANDING,
            meter("publish", side));
        board.put(Metric.PUBLISH_P50, side, figures.get("p50"));
        board.put(Metric.PUBLISH_P99, side, figures.get("p99"));
    }

    /** Latency from the producer to a consumer that tails it. */
    void tail(Side side) throws IOException, InterruptedException {
        Figures figures = publishes("tail 2,000 msg/s", "arrival", side, freshTopic() + " " + PER_SECOND + " " + times(),
            OUTSTANDING, meter("tail", side));
        board.put(Metric.TAIL_P50, side, figures.get("p50"));
    }

    /** The highest rates, and what they cost. */
    void rate(Side side) throws IOException, InterruptedException {
        Meter one = meter("rate-1", side);
        Figures figures = publishes("highest rate, 1 topic", "full", side, freshTopic() + " 1 " + OUTSTANDING + " " + times(),
            OUTSTANDING, one);
        board.put(Metric.RATE_1, side, figures.get("rate"));
        board.put(Metric.CPU_1, side, perMessage(one, "broker", figures));
        Meter many = meter("rate-50", side);
        figures = publishes("highest rate, 50 topics", "full", side, freshTopic() + " " + MANY + " " + OUTSTANDING + " " + times(),
            OUTSTANDING, many);
        board.put(Metric.RATE_50, side, figures.get("rate"));
        board.put(Metric.CPU_50, side, perMessage(many, "broker", figures));
    }

    /** Batches of 64 KiB. */
    void batch(Side side) throws IOException, InterruptedException {
        Figures figures = publishes("64 KiB batches", "batched", side,
            freshTopic() + " " + BATCHED_OUTSTANDING + " " + times(), BATCHED_OUTSTANDING, meter("batch", side));
        board.put(Metric.BATCHED, side, figures.get("mb"));
    }

    /** Makes the backlogs; what is measured after it pushes them out of the caches. */
    void fill() throws IOException, InterruptedException {
        for (Side side : Side.order(1)) {
            turnTo(side);
            Figures filled = ask("fill", side, "backlog " + backlogMessages());
            board.say("%-28s %-6s %,d messages at %,.0f msg/s", "filling the backlog", side.id(), backlogMessages(),
                filled.get("rate"));
        }
    }

    private long backlogMessages() {
        return scale.backlogBytes() / MESSAGE_BYTES;
    }

    /** Reads the backlog: from the disk, and again from memory. */
    void catchUp(Side side) throws IOException, InterruptedException {
        turnTo(side);
        ask("fill-batched", side, freshTopic() + " " + DISPLACING_MESSAGES);   // 600 MB: more than any cache of either side
        Machine.dropCaches();
        board.put(Metric.CATCH_UP_COLD, side, read("catch-up, cold", side));
        board.put(Metric.CATCH_UP_WARM, side, read("catch-up, warm", side));
        dropTopics(side);
    }

    private double read(String label, Side side) throws IOException, InterruptedException {
        Meter meter = meter(label.replaceAll("\\W+", "-"), side);
        Figures figures = client.ask("read " + cluster.broker(side).serviceUrl() + " backlog " + backlogMessages(), 600, meter);
        board.say("%-28s %-6s %s  CPU us/message: broker %.1f%s, client %.1f", label, side.id(), figures,
            perMessage(meter, "broker", figures),
            side == Side.STOCK ? " and bookie %.1f".formatted(perMessage(meter, "bookie", figures)) : "",
            perMessage(meter, "client", figures));
        return figures.get("mb");
    }

    @Override
    public void close() {
        client.close();
        cluster.close();   // kills the brokers, stopped or not
    }
}
