package io.nereus.tests.demo;

import io.nereus.tests.broker.BrokerFiles;
import io.nereus.tests.broker.BrokerProcess;
import io.nereus.tests.broker.Installation;
import io.nereus.tests.broker.Ports;
import io.nereus.tests.history.Event;
import io.nereus.tests.history.History;
import io.nereus.tests.history.HistoryChecker;
import io.nereus.tests.history.HistoryWriter;
import io.nereus.tests.history.Verdict;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;

/**
 * The demonstration: a stock broker on Nereus, a client in a process of its own, {@code kill -9} of the broker while
 * messages flow, a restart on the same directory, and the history checker's verdict over all that the client saw.
 *
 * <p>Says what it does as it does it; the last line is the verdict. Ends with 0 only if that is clean.
 */
public final class Demo {

    /** Default of nereusAckFlushMillis. */
    private static final long ACK_FLUSH_MILLIS = 50;

    private final Path directory;
    private final long seed;
    private final long startNanos = System.nanoTime();

    private Demo(Path directory, long seed) {
        this.directory = directory;
        this.seed = seed;
    }

    /** @param args directory (emptied first), seed (optional) */
    public static void main(String[] args) throws Exception {
        Path directory = Path.of(args[0]).toAbsolutePath().normalize();
        long seed = args.length > 1 ? Long.parseLong(args[1]) : System.currentTimeMillis();
        clear(directory);
        Verdict verdict = new Demo(directory, seed).run();
        verdict.evidence().forEach(System.out::println);
        System.out.println("demo: " + verdict);
        System.exit(verdict.isClean() ? 0 : 1);
    }

    private Verdict run() throws Exception {
        Path brokerHistory = directory.resolve("broker-history.log");
        Installation installation = Installation.built();
        BrokerFiles files = new BrokerFiles(directory.resolve("broker"), "demo", directory.resolve("metadata"), Ports.free());
        Runtime runtime = Runtime.getRuntime();
        try (HistoryWriter history = HistoryWriter.open(brokerHistory);
             BrokerProcess broker = new BrokerProcess(installation, files)) {
            runtime.addShutdownHook(new Thread(broker::close, "end-broker"));
            say("seed " + seed + "; everything is below " + directory);
            say("writing the cluster's first metadata");
            broker.setUpCluster();
            say("starting the broker; broker.conf has one Nereus line: " + nereusLine(files));
            broker.start();
            say("broker " + broker.pid() + " is healthy; starting the client");
            try (ClientProcess client = new ClientProcess(broker.serviceUrl(), broker.adminUrl(), seed, directory)) {
                runtime.addShutdownHook(new Thread(client::close, "end-client"));
                client.await("flowing", 120);
                long millis = 1_000 + new SplittableRandom(seed).nextLong(2_000);
                say("messages flow and are consumed on all topics; killing the broker in " + millis + " ms");
                Thread.sleep(millis);     // the moment of the kill is the experiment's random input
                kill(broker, history);
                say("kill -9 of broker " + broker.pid() + "; the client goes on; restarting on the same directory");
                broker.start();
                say("broker " + broker.pid() + " is healthy; waiting until the client's traffic flows again and all has a receipt");
                client.tell("finish");
                client.await("produced", 130);
                say("consuming what the subscriptions have left");
                client.tell("drain");
                client.await("drained", 120);
                say("reading everything back");
                client.tell("read");
                say(client.await("read", 90));
                client.awaitEnd(30);
                client.remarks().forEach(remark -> say("the client's JVM remarked: " + remark));
            }
            say("stopping the broker");
            broker.stop();
        }
        say("checking the history");
        Verdict verdict = HistoryChecker.check(History.read(List.of(ClientProcess.history(directory), brokerHistory)),
                ACK_FLUSH_MILLIS);
        say("done");
        return verdict;
    }

    private static void kill(BrokerProcess broker, HistoryWriter history) {
        long start = HistoryWriter.now();
        broker.kill();
        history.append(t -> new Event.Gone(t, start, Event.Outage.KILLED, ""));
    }

    private static String nereusLine(BrokerFiles files) throws IOException {
        return Files.readAllLines(files.configuration()).stream().filter(line -> line.contains("io.nereus") || line.startsWith("nereus"))
                .reduce((a, b) -> a + " AND " + b).orElse("none");
    }

    private void say(String what) {
        System.out.printf("[%5.1f s] %s%n", (System.nanoTime() - startNanos) / 1e9, what);
    }

    private static void clear(Path directory) throws IOException {
        if (Files.exists(directory)) {
            try (Stream<Path> old = Files.walk(directory)) {
                for (Path path : old.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(path);
                }
            }
        }
        Files.createDirectories(directory);
    }
}
