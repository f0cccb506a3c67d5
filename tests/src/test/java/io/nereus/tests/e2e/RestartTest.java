package io.nereus.tests.e2e;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.awaitility.Awaitility;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.DataProvider;
import org.testng.annotations.Factory;
import org.testng.annotations.Test;

/**
 * What is there before a broker ends and must be there after it started again on the same directory: once after a clean
 * stop and once after {@code kill -9}. Everything is prepared before the end, each test looks at one thing after it.
 */
public class RestartTest {

    private enum End { STOP, KILL }

    private final End end;
    private TestBroker broker;
    private List<MessageId> plainIds;
    private List<MessageId> deletedIds;

    @Factory(dataProvider = "ends")
    public RestartTest(String end) {
        this.end = End.valueOf(end);
    }

    @DataProvider
    public static Object[][] ends() {
        return new Object[][] {{"STOP"}, {"KILL"}};
    }

    @BeforeClass
    public void prepareAndRestart() throws Exception {
        broker = TestBroker.start();
        broker.admin().namespaces().setRetention("public/default", new RetentionPolicies(-1, -1));
        plainIds = Topics.send(broker.client(), Topics.name("plain"), "m", 30);
        prepareAcks();
        prepareDeduplication();
        deletedIds = Topics.send(broker.client(), Topics.name("deleted"), "gone", 3);
        broker.admin().topics().delete(Topics.name("deleted"));
        broker.admin().topics().createPartitionedTopic(Topics.name("parts"), 2);
        broker.admin().topics().createSubscription(Topics.name("parts"), "s", MessageId.earliest);
        try (Producer<BrokerTest.Measured> producer = broker.client().newProducer(Schema.AVRO(BrokerTest.Measured.class))
                .topic(Topics.name("schema")).create()) {
            producer.send(new BrokerTest.Measured());
        }
        broker.admin().topicPolicies().setMaxConsumers(Topics.name("plain"), 17);
        Awaitility.await().until(() -> Integer.valueOf(17).equals(broker.admin().topicPolicies().getMaxConsumers(Topics.name("plain"))));
        Topics.send(broker.client(), Topics.name("terminated"), "m", 2);
        broker.admin().topics().terminateTopic(Topics.name("terminated"));
        broker.admin().topics().updateProperties(Topics.name("plain"), Map.of("owner", "tests"));
        broker.forgetClients();
        if (end == End.KILL) {
            broker.process().kill();
        } else {
            broker.process().stop();
        }
        broker.process().start();
    }

    private void prepareAcks() throws PulsarClientException {
        String topic = Topics.name("acks");
        try (Consumer<String> holes = Topics.consumer(broker.client(), topic, "holes").subscriptionType(SubscriptionType.Shared).subscribe();
             Consumer<String> half = Topics.consumer(broker.client(), topic, "half").subscribe()) {
            Topics.send(broker.client(), topic, "m", 20);
            for (Message<String> message : Topics.receive(holes, 20)) {
                if (Integer.parseInt(message.getValue().substring(1)) % 4 != 0) {
                    holes.acknowledge(message);
                }
            }
            half.acknowledgeCumulative(Topics.receive(half, 20).get(9));
        }
        // the promise: an acknowledgement is persisted within nereusAckFlushMillis (50) and one flush after its receipt
        long acknowledged = System.nanoTime();
        Awaitility.await().until(() -> System.nanoTime() - acknowledged > 100_000_000);
        Topics.send(broker.client(), Topics.name("flushed"), "m", 2);
    }

    private void prepareDeduplication() throws Exception {
        broker.admin().namespaces().createNamespace("public/dedup");
        broker.admin().namespaces().setDeduplicationStatus("public/dedup", true);
        try (Producer<String> producer = deduplicated()) {
            for (int i = 0; i < 10; i++) {
                producer.newMessage().sequenceId(i).value("m" + i).send();
            }
        }
    }

    private Producer<String> deduplicated() throws PulsarClientException {
        return broker.client().newProducer(Schema.STRING).topic("persistent://public/dedup/t").producerName("p")
                .enableBatching(false).create();
    }

    @AfterClass(alwaysRun = true)
    public void stopBroker() throws Exception {
        if (broker != null) {
            broker.close();
        }
    }

    @Test
    public void messagesAreThereUnderTheirIds() throws Exception {
        assertEquals(Topics.readAll(broker.client(), Topics.name("plain"), MessageId.earliest), Topics.expected("m", 0, 30));
        MessageId remembered = MessageId.fromByteArray(plainIds.get(19).toByteArray());
        assertEquals(Topics.readAll(broker.client(), Topics.name("plain"), remembered), Topics.expected("m", 20, 30));
        assertEquals(broker.admin().topics().getLastMessageId(Topics.name("plain")).toString(), plainIds.get(29).toString());
    }

    @Test
    public void acknowledgedMessagesStayAwayAndTheOthersCome() throws Exception {
        String topic = Topics.name("acks");
        try (Consumer<String> holes = Topics.consumer(broker.client(), topic, "holes").subscriptionType(SubscriptionType.Shared).subscribe();
             Consumer<String> half = Topics.consumer(broker.client(), topic, "half").subscribe()) {
            assertEquals(Topics.values(Topics.receive(holes, 5)), List.of("m0", "m4", "m8", "m12", "m16"));
            assertNull(holes.receive(300, TimeUnit.MILLISECONDS), "an acknowledged message came again");
            assertEquals(Topics.values(Topics.receive(half, 10)), Topics.expected("m", 10, 20));
        }
    }

    @Test
    public void deduplicationRemembersTheLastSequence() throws Exception {
        try (Producer<String> producer = deduplicated()) {
            assertEquals(producer.getLastSequenceId(), 9);
            producer.newMessage().sequenceId(5).value("again").send();
            producer.newMessage().sequenceId(10).value("m10").send();
        }
        assertEquals(Topics.readAll(broker.client(), "persistent://public/dedup/t", MessageId.earliest), Topics.expected("m", 0, 11));
    }

    @Test
    public void deletedTopicStaysDeletedAndComesBackAboveItsIds() throws Exception {
        assertTrue(broker.admin().topics().getList("public/default").stream().noneMatch(t -> t.endsWith("/deleted")));
        MessageIdAdv recreated = (MessageIdAdv) Topics.send(broker.client(), Topics.name("deleted"), "new", 1).get(0);
        assertTrue(recreated.getLedgerId() > ((MessageIdAdv) deletedIds.get(2)).getLedgerId(), recreated + " after " + deletedIds);
        assertEquals(Topics.readAll(broker.client(), Topics.name("deleted"), MessageId.earliest), List.of("new0"));
    }

    @Test
    public void partitionsSubscriptionsSchemasPoliciesAndPropertiesAreThere() throws Exception {
        assertEquals(broker.admin().topics().getPartitionedTopicMetadata(Topics.name("parts")).partitions, 2);
        assertEquals(broker.admin().topics().getSubscriptions(Topics.name("parts")), List.of("s"));
        assertEquals(broker.admin().schemas().getAllSchemas(Topics.name("schema")).size(), 1);
        assertEquals(broker.admin().topicPolicies().getMaxConsumers(Topics.name("plain")), Integer.valueOf(17));
        assertEquals(broker.admin().topics().getProperties(Topics.name("plain")).get("owner"), "tests");
    }

    @Test
    public void terminatedTopicStaysTerminated() throws Exception {
        expectThrows(PulsarClientException.class, () -> Topics.send(broker.client(), Topics.name("terminated"), "m", 1));
        assertEquals(Topics.readAll(broker.client(), Topics.name("terminated"), MessageId.earliest), Topics.expected("m", 0, 2));
    }
}
