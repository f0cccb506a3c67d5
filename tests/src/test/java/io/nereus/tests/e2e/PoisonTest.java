package io.nereus.tests.e2e;

import static org.awaitility.Awaitility.await;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;

import java.net.http.HttpTimeoutException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/** A journal that cannot go on: the broker must show it, and lose nothing. */
public class PoisonTest {

    private static final Map<String, String> SMALL_SEGMENTS = Map.of("nereusJournalSegmentMB", "16");
    /** More than the segments that are there already can hold. */
    private static final int LARGE_MESSAGES = 60;

    private TestBroker broker;

    @BeforeClass
    public void prepareBroker() throws Exception {
        broker = TestBroker.prepare();
    }

    @AfterClass(alwaysRun = true)
    public void stopBroker() throws Exception {
        if (broker != null) {
            broker.close();
        }
    }

    @Test
    public void aPoisonedJournalShowsInHealthCheckAndMetricsAndLosesNothing() throws Exception {
        broker.process().start(SMALL_SEGMENTS);
        String topic = Topics.name("before");
        Topics.send(broker.client(), topic, "m", 10);
        assertTrue(isHealthy());

        // the next segment cannot be made, which is no matter of space
        Path journal = broker.process().files().data().resolve("journal");
        Path away = journal.resolveSibling("journal.away");
        Files.move(journal, away);
        try {
            fillUntilRefused(Topics.name("large"));
            await("the health check fails").atMost(Duration.ofSeconds(120)).until(() -> !isHealthy());
            String metrics = broker.process().get("/metrics/").body();
            assertTrue(metrics.lines().anyMatch(line -> line.matches("nereus_journal_poisoned\\{.*} 1\\.0")), "poisoned");
            assertTrue(metrics.lines().anyMatch(line -> line.startsWith("nereus_journal_segments{")), "the rest as seen last");
        } finally {
            broker.process().kill();
            Files.move(away, journal);
        }
        broker.process().start(SMALL_SEGMENTS);
        assertEquals(Topics.readAll(broker.client(), topic, MessageId.earliest), Topics.expected("m", 0, 10));
        assertTrue(isHealthy());
    }

    /** The check writes a message and reads it; one that waits in vain for longer than anybody asks is no good news. */
    private boolean isHealthy() throws Exception {
        try {
            return broker.process().get("/admin/v2/brokers/health").statusCode() == 200;
        } catch (HttpTimeoutException unanswered) {
            return false;
        }
    }

    private void fillUntilRefused(String topic) throws PulsarClientException {
        byte[] content = new byte[1024 * 1024];
        try (Producer<byte[]> producer = broker.client().newProducer().topic(topic).enableBatching(false)
                .sendTimeout(3, TimeUnit.SECONDS).create()) {
            for (int i = 0; i < LARGE_MESSAGES; i++) {
                producer.send(content);
            }
        } catch (PulsarClientException refused) {
            return;
        }
        throw new AssertionError("the journal went on without its directory");
    }
}
