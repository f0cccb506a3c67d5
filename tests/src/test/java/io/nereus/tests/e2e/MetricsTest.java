package io.nereus.tests.e2e;

import static org.awaitility.Awaitility.await;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.common.policies.data.TopicStats;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/** The lines of a broker's page /metrics against what was produced, consumed and acknowledged. */
public class MetricsTest {

    private static final Duration SOON = Duration.ofSeconds(30);
    private static final int MESSAGES = 20;
    private static final int TEXT = 1000;

    private TestBroker broker;

    @BeforeClass
    public void startBroker() throws Exception {
        broker = TestBroker.prepare();
        broker.process().start(Map.of("managedLedgerStatsPeriodSeconds", "1", "statsUpdateFrequencyInSecs", "1"));
    }

    @AfterClass(alwaysRun = true)
    public void stopBroker() throws Exception {
        if (broker != null) {
            broker.close();
        }
    }

    /** The value of the one line of that name whose labels contain all of {@code labels}; -1 if there is none. */
    private double line(String name, String... labels) throws IOException, InterruptedException {
        List<String> found = broker.process().get("/metrics/").body().lines().filter(line -> line.startsWith(name + "{"))
                .filter(line -> List.of(labels).stream().allMatch(line::contains)).toList();
        assertTrue(found.size() <= 1, found.toString());
        if (found.isEmpty()) {
            return -1;
        }
        String[] words = found.get(0).substring(found.get(0).lastIndexOf('}') + 1).trim().split(" ");
        return Double.parseDouble(words[0]);
    }

    private void expect(double value, String name, String... labels) {
        await(name + " to be " + value).atMost(SOON).untilAsserted(() -> assertEquals(line(name, labels), value, name));
    }

    private static String label(String name, String value) {
        return name + "=\"" + value + "\"";
    }

    @Test
    public void linesOfATopicSayWhatWasProducedConsumedAndKept() throws Exception {
        String topic = "persistent://public/metered/topic";
        broker.admin().namespaces().createNamespace("public/metered");
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe();
             Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).enableBatching(false).create()) {
            for (int i = 0; i < MESSAGES; i++) {
                producer.send("x".repeat(TEXT));
            }
            List<Message<String>> received = Topics.receive(consumer, MESSAGES);
            consumer.acknowledgeCumulative(received.get(4));
            consumer.acknowledge(received.get(9));

            String of = label("topic", topic);
            String subscription = label("subscription", "s");
            expect(MESSAGES, "pulsar_in_messages_total", of);
            expect(MESSAGES, "pulsar_out_messages_total", of, subscription);
            expect(MESSAGES - 6, "pulsar_subscription_back_log", of, subscription);
            expect(MESSAGES - 6, "pulsar_msg_backlog", of);

            TopicStats stats = broker.admin().topics().getStats(topic, true);
            assertTrue(stats.getStorageSize() >= MESSAGES * TEXT && stats.getStorageSize() < MESSAGES * (TEXT + 200),
                    "stored: " + stats.getStorageSize());
            expect(stats.getStorageSize(), "pulsar_storage_size", of);
            expect(stats.getStorageSize(), "pulsar_storage_logical_size", of);
            double kept = stats.getStorageSize() * (MESSAGES - 5.0) / MESSAGES;
            assertEquals(line("pulsar_storage_backlog_size", of), kept, MESSAGES * 10, "what is behind the mark-delete position");
            expect(0, "pulsar_storage_offloaded_size", of);
        }
    }

    @Test
    public void linesOfTheEngineRiseWithItsWork() throws Exception {
        double syncs = line("nereus_journal_syncs_total");
        double seconds = line("nereus_journal_sync_seconds_total");
        double written = line("nereus_journal_written_bytes_total");
        double streams = line("nereus_streams_open");
        double tail = line("nereus_cache_tail_reads_total");
        String topic = Topics.name("engine-lines");
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            Topics.send(broker.client(), topic, "x".repeat(TEXT), MESSAGES);
            Topics.receive(consumer, MESSAGES);
            assertTrue(line("nereus_journal_syncs_total") > syncs, "syncs");
            assertTrue(line("nereus_journal_sync_seconds_total") > seconds, "time of syncs");
            assertTrue(line("nereus_journal_written_bytes_total") >= written + MESSAGES * TEXT, "bytes written");
            assertTrue(line("nereus_streams_open") > streams, "streams");
            assertTrue(line("nereus_cache_tail_reads_total") > tail, "reads that the tail answered");
            assertEquals(line("nereus_journal_poisoned"), 0.0);
        }
    }
}
