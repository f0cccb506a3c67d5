package io.nereus.tests.e2e;

import static org.awaitility.Awaitility.await;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/** What an operator's retention and rollover settings free on a broker with small ones, without a restart or new traffic. */
public class RetentionTest {

    private static final Duration SOON = Duration.ofSeconds(20);

    private TestBroker broker;

    @BeforeClass
    public void startBroker() throws Exception {
        broker = TestBroker.prepare();
        broker.process().start(Map.of("managedLedgerMinLedgerRolloverTimeMinutes", "0", "managedLedgerMaxEntriesPerLedger", "5",
                "managedLedgerInactiveLedgerRolloverTimeSeconds", "2", "retentionCheckIntervalInSeconds", "1"));
    }

    @AfterClass(alwaysRun = true)
    public void stopBroker() throws Exception {
        if (broker != null) {
            broker.close();
        }
    }

    private String topic(String namespace, RetentionPolicies retention) throws Exception {
        broker.admin().namespaces().createNamespace(namespace);
        if (retention != null) {
            broker.admin().namespaces().setRetention(namespace, retention);
        }
        return "persistent://" + namespace + "/topic";
    }

    private long storageSize(String topic) throws Exception {
        return broker.admin().topics().getStats(topic).getStorageSize();
    }

    @Test
    public void consumedQuietTopicIsFreedAndKeepsItsLastMessageId_case_050() throws Exception {
        String topic = topic("public/quiet", null);                    // retention: none
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            List<MessageId> ids = Topics.send(broker.client(), topic, "m", 12);
            assertTrue(storageSize(topic) > 0, "nothing is freed before it is consumed");
            consumer.acknowledgeCumulative(Topics.receive(consumer, 12).get(11));
            await().atMost(SOON).until(() -> storageSize(topic) == 0);
            assertEquals(broker.admin().topics().getLastMessageId(topic).toString(), ids.get(11).toString());
            List<MessageId> next = Topics.send(broker.client(), topic, "n", 1);
            assertTrue(next.get(0).compareTo(ids.get(11)) > 0, next + " after " + ids);
            assertEquals(Topics.values(Topics.receive(consumer, 1)), List.of("n0"));
        }
    }

    @Test
    public void retentionSizeKeepsTheNewestOfWhatIsConsumed() throws Exception {
        String topic = topic("public/sized", new RetentionPolicies(-1, 1));
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe();
             Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).enableBatching(false).create()) {
            for (int i = 0; i < 40; i++) {
                producer.send("x".repeat(100_000));
            }
            assertTrue(storageSize(topic) > 4_000_000, "nothing is freed before it is consumed");
            consumer.acknowledgeCumulative(Topics.receive(consumer, 40).get(39));
            await().atMost(SOON).until(() -> storageSize(topic) < 1_600_000);
            // Parts of five, and 1 MB stays full: the newest fifteen are kept.
            assertTrue(storageSize(topic) >= 1 << 20, "kept: " + storageSize(topic));
            assertEquals(Topics.readAll(broker.client(), topic, MessageId.earliest).size(), 15);
        }
    }

    @Test
    public void whatNobodyConsumedIsKept() throws Exception {
        String topic = topic("public/backlog", null);
        broker.admin().topics().createNonPartitionedTopic(topic);
        broker.admin().topics().createSubscription(topic, "s", MessageId.earliest);
        Topics.send(broker.client(), topic, "m", 12);
        broker.admin().topics().trimTopic(topic);
        assertEquals(Topics.readAll(broker.client(), topic, MessageId.earliest), Topics.expected("m", 0, 12));
    }
}
