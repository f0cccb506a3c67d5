package io.nereus.tests.e2e;

import static org.awaitility.Awaitility.await;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;

import io.nereus.tests.broker.Ports;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
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

/** The lines of a broker's page /metrics, and of OpenTelemetry's, against what was produced, consumed and acknowledged. */
public class MetricsTest {

    private static final Duration SOON = Duration.ofSeconds(30);
    private static final int MESSAGES = 20;
    private static final int TEXT = 1000;

    private final HttpClient http = HttpClient.newHttpClient();
    private TestBroker broker;
    private URI telemetry;

    @BeforeClass
    public void startBroker() throws Exception {
        broker = TestBroker.prepare();
        // OpenTelemetry's own settings, as an operator gives them; its exporter has a page of its own
        int port = Ports.free().web();
        telemetry = URI.create("http://127.0.0.1:" + port + "/metrics");
        broker.process().withJvmArguments("-Dotel.sdk.disabled=false", "-Dotel.metrics.exporter=prometheus",
                "-Dotel.exporter.prometheus.host=127.0.0.1", "-Dotel.exporter.prometheus.port=" + port);
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
        return value(broker.process().get("/metrics/").body(), name, labels);
    }

    /** The same of OpenTelemetry's page. */
    private double telemetry(String name, String... labels) throws IOException, InterruptedException {
        return value(http.send(HttpRequest.newBuilder(telemetry).build(), HttpResponse.BodyHandlers.ofString()).body(), name, labels);
    }

    private static double value(String page, String name, String... labels) {
        List<String> found = page.lines().filter(line -> line.startsWith(name + "{"))
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
    public void linesOfLedgersSayWhatIsStoredAndWhatWasWritten() throws Exception {
        broker.admin().namespaces().createNamespace("public/ledgers");
        String topic = "persistent://public/ledgers/topic";
        String of = "namespace=\"public/ledgers"; // Pulsar writes what follows in its own way
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            Topics.send(broker.client(), topic, "m", MESSAGES);
            long stored = broker.admin().topics().getStats(topic).getStorageSize();
            expect(stored, "pulsar_ml_StoredMessagesSize", of);
            expect(MESSAGES, "pulsar_ml_NumberOfMessagesInBacklog", of);
            consumer.acknowledgeCumulative(Topics.receive(consumer, MESSAGES).get(MESSAGES - 1));
            expect(0, "pulsar_ml_NumberOfMessagesInBacklog", of);
        }
        String sized = "persistent://public/ledgers/busy";
        try (Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(sized).enableBatching(false).create()) {
            await("a rate of writes").atMost(SOON).until(() -> {
                producer.send("x".repeat(TEXT));
                return line("pulsar_ml_AddEntryMessagesRate", of) > 0 && line("pulsar_ml_AddEntryBytesRate", of) > TEXT
                        && line("pulsar_ml_AddEntryErrors", of) == 0;
            });
        }
    }

    @Test
    public void openTelemetryTellsWhatALedgerAndItsCursorDidAndWhatTheEngineDoes() throws Exception {
        String namespace = "public/observed";
        broker.admin().namespaces().createNamespace(namespace);
        String topic = "persistent://" + namespace + "/topic";
        String ledger = "pulsar_managed_ledger_name=\"" + namespace + "/persistent/topic\"";
        String success = "pulsar_managed_ledger_operation_status=\"success\"";
        double appends = telemetry("nereus_append_duration_seconds_count");
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            Topics.send(broker.client(), topic, "x".repeat(TEXT), MESSAGES);
            assertEquals(telemetry("pulsar_broker_managed_ledger_message_outgoing_count", ledger, success), (double) MESSAGES);
            assertEquals(telemetry("pulsar_broker_managed_ledger_message_outgoing_logical_size_bytes_total", ledger),
                    (double) broker.admin().topics().getStats(topic).getStorageSize());
            assertEquals(telemetry("pulsar_broker_managed_ledger_backlog_count", ledger), (double) MESSAGES);
            List<Message<String>> received = Topics.receive(consumer, MESSAGES);
            consumer.acknowledgeCumulative(received.get(9));
            consumer.acknowledge(received.get(12));
            assertEquals(telemetry("pulsar_broker_managed_ledger_backlog_count", ledger), (double) MESSAGES - 11);
            assertEquals(telemetry("pulsar_broker_managed_ledger_message_range_count", ledger), 1.0);
            assertTrue(telemetry("pulsar_broker_managed_ledger_mark_delete_count_total", ledger) >= 1, "mark-deletes");
            assertTrue(telemetry("nereus_append_duration_seconds_count") >= appends + MESSAGES, "appends that were timed");
            assertTrue(telemetry("nereus_streams_open") >= 1, "open streams");
            assertEquals(telemetry("nereus_journal_poisoned"), 0.0);
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
