package io.nereus.tests.e2e;

import static org.testng.Assert.fail;

import io.nereus.tests.broker.BrokerProcess;
import io.nereus.tests.demo.Plan;
import io.nereus.tests.demo.Workload;
import io.nereus.tests.history.Event;
import io.nereus.tests.history.Event.Outage;
import io.nereus.tests.history.History;
import io.nereus.tests.history.HistoryChecker;
import io.nereus.tests.history.HistoryWriter;
import io.nereus.tests.history.Verdict;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import org.testng.annotations.DataProvider;
import org.testng.annotations.Test;

/**
 * A workload over a broker that goes away while messages flow, judged by the history checker. More seeds:
 * {@code -Dnereus.seeds=1,2,3}; a seed decides when the broker is killed.
 */
public class KillTest {

    /** Default of nereusAckFlushMillis. */
    private static final long ACK_FLUSH_MILLIS = 50;

    @DataProvider
    public Object[][] seeds() {
        return Arrays.stream(System.getProperty("nereus.seeds", "7").split(",")).map(s -> new Object[] {Long.parseLong(s)})
                .toArray(Object[][]::new);
    }

    @Test(dataProvider = "seeds")
    public void l01_l15_nothingAcknowledgedIsLostOverUnloadAndTwoKills(long seed) throws Exception {
        SplittableRandom random = new SplittableRandom(seed);
        try (TestBroker broker = TestBroker.start()) {
            Path file = broker.directory().resolve("history.log");
            Verdict verdict;
            try (HistoryWriter history = HistoryWriter.open(file)) {
                BrokerProcess process = broker.process();
                try (Workload workload = new Workload(Plan.small(), process.serviceUrl(), process.adminUrl(), history, seed)) {
                    workload.setUp();
                    workload.awaitFlow(100);
                    goAway(history, Outage.CLOSED, () -> {
                        for (String namespace : List.of("public/demo", "public/demo-dedup")) {
                            broker.admin().namespaces().unload(namespace);
                        }
                    });
                    for (int kill = 0; kill < 2; kill++) {
                        workload.awaitFlow(50);
                        LockSupport.parkNanos(random.nextLong(1_500_000_000));    // the random input is the moment of the kill
                        goAway(history, Outage.KILLED, process::kill);
                        process.start();
                    }
                    workload.awaitFlow(50);
                    workload.finishProducing();
                    workload.drainSubscriptions();
                    workload.readBack();
                }
            }
            verdict = HistoryChecker.check(History.read(List.of(file)), ACK_FLUSH_MILLIS);
            if (!verdict.isClean()) {
                Path kept = Files.createTempDirectory("history-").resolve("seed-" + seed + ".log");
                Files.copy(file, kept);
                fail("seed " + seed + ": " + verdict + ", history kept as " + kept + "\n" + String.join("\n", verdict.evidence()));
            }
        }
    }

    private interface Step {
        void run() throws Exception;
    }

    private static void goAway(HistoryWriter history, Outage outage, Step step) throws Exception {
        long start = HistoryWriter.now();
        step.run();
        history.append(t -> new Event.Gone(t, start, outage, ""));
    }
}
