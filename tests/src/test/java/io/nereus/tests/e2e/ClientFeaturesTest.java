package io.nereus.tests.e2e;

import static org.awaitility.Awaitility.await;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNotEquals;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.ConsumerCryptoFailureAction;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TableView;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/** What applications build on a broker beyond plain messages; one broker for all tests, topics of their own. */
public class ClientFeaturesTest {

    private static final Duration SOON = Duration.ofSeconds(20);

    /** Entries of one virtual ledger. */
    private static final int SPAN = 1 << 16;

    private TestBroker broker;

    @BeforeClass
    public void startBroker() throws Exception {
        broker = TestBroker.prepare();
        broker.process().start(Map.of("delayedDeliveryTickTimeMillis", "100"));
        broker.admin().namespaces().setRetention("public/default", new RetentionPolicies(-1, -1));
    }

    @AfterClass(alwaysRun = true)
    public void stopBroker() throws Exception {
        if (broker != null) {
            broker.close();
        }
    }

    @Test
    public void messageRejectedTooOftenGoesToTheDeadLetterTopicAndOnlyThere() throws Exception {
        String topic = Topics.name("rejecting");
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscriptionType(SubscriptionType.Shared)
                     .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS)
                     .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2).initialSubscriptionName("kept").build())
                     .subscribe()) {
            Topics.send(broker.client(), topic, "m", 6);
            int[] seen = new int[6];
            while (seen[1] + seen[4] < 6) {                       // 1 + 2 redeliveries each
                Message<String> message = Topics.receive(consumer, 1).get(0);
                int number = Integer.parseInt(message.getValue().substring(1));
                seen[number]++;
                if (number % 3 == 1) {
                    consumer.negativeAcknowledge(message);
                } else {
                    consumer.acknowledge(message);
                }
            }
            try (Consumer<String> dead = Topics.consumer(broker.client(), topic + "-s-DLQ", "kept").subscribe()) {
                List<Message<String>> letters = Topics.receive(dead, 2);
                assertEquals(new HashSet<>(Topics.values(letters)), new HashSet<>(List.of("m1", "m4")));
                assertTrue(letters.get(0).getProperties().containsKey("ORIGIN_MESSAGE_ID"), letters.get(0).getProperties().toString());
                assertNull(dead.receive(200, TimeUnit.MILLISECONDS), "each letter once");
            }
            for (int number = 0; number < 6; number++) {
                assertEquals(seen[number], number % 3 == 1 ? 3 : 1, "deliveries of m" + number);
            }
            await("the dead letters are acknowledged in their topic").atMost(SOON).until(() -> backlog(topic, "s") == 0);
        }
    }

    @Test
    public void messageToConsumeLaterComesFromTheRetryTopicAndEndsInTheDeadLetterTopic() throws Exception {
        String topic = Topics.name("retrying");
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscriptionType(SubscriptionType.Shared)
                     .enableRetry(true).deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2)
                             .retryLetterTopic(topic + "-later").deadLetterTopic(topic + "-dead").initialSubscriptionName("kept").build())
                     .subscribe()) {
            Topics.send(broker.client(), topic, "m", 2);
            List<String> seen = new ArrayList<>();
            for (int i = 0; i < 4; i++) {                         // m0 once, m1 first and two times from the retry topic
                Message<String> message = Topics.receive(consumer, 1).get(0);
                seen.add(message.getValue() + ":" + message.getProperty("RECONSUMETIMES"));
                if (message.getValue().equals("m0")) {
                    consumer.acknowledge(message);
                } else {
                    consumer.reconsumeLater(message, 200, TimeUnit.MILLISECONDS);
                }
            }
            assertEquals(new HashSet<>(seen), new HashSet<>(List.of("m0:null", "m1:null", "m1:1", "m1:2")));
        }
        try (Consumer<String> dead = Topics.consumer(broker.client(), topic + "-dead", "kept").subscribe()) {
            assertEquals(Topics.values(Topics.receive(dead, 1)), List.of("m1"));
        }
        assertEquals(backlog(topic, "s"), 0);
        assertEquals(backlog(topic + "-later", "s"), 0);
    }

    @Test
    public void delayedMessagesComeInTheOrderOfTheirTimesAndLetOthersPass() throws Exception {
        String topic = Topics.name("delayed");
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscriptionType(SubscriptionType.Shared).subscribe();
             Consumer<String> ordered = Topics.consumer(broker.client(), topic, "ordered").subscribe();
             Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).enableBatching(false).create()) {
            long base = System.currentTimeMillis();
            for (int i = 0; i < 5; i++) {
                producer.newMessage().value("late" + i).deliverAt(base + 2_500 - i * 200).send();
            }
            producer.send("now");
            List<Message<String>> received = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                Message<String> message = Topics.receive(consumer, 1).get(0);
                consumer.acknowledge(message);
                received.add(message);
                if (i == 0) {
                    assertEquals(broker.admin().topics().getStats(topic).getSubscriptions().get("s").getMsgDelayed(), 5);
                }
            }
            assertEquals(Topics.values(received), List.of("now", "late4", "late3", "late2", "late1", "late0"));
            // Pulsar rounds a time down to the tick and looks one tick ahead
            assertTrue(System.currentTimeMillis() >= base + 2_500 - 200, "not before its time, but for two ticks");
            // delays are for shared subscriptions; an exclusive one keeps the order of the topic
            assertEquals(Topics.values(Topics.receive(ordered, 6)), List.of("late0", "late1", "late2", "late3", "late4", "now"));
        }
    }

    @Test
    public void exclusiveProducerKeepsOthersOutAndAWaitingOneFollows() throws Exception {
        String topic = Topics.name("exclusive");
        Producer<String> first = producer(topic, ProducerAccessMode.Exclusive);
        CompletableFuture<Producer<String>> waiting = broker.client().newProducer(Schema.STRING).topic(topic)
                .accessMode(ProducerAccessMode.WaitForExclusive).createAsync();
        expectThrows(PulsarClientException.ProducerFencedException.class, () -> producer(topic, ProducerAccessMode.Exclusive));
        expectThrows(PulsarClientException.ProducerBusyException.class, () -> producer(topic, ProducerAccessMode.Shared));
        first.send("first");
        assertFalse(waiting.isDone());
        first.close();
        Producer<String> second = waiting.get(20, TimeUnit.SECONDS);
        second.send("second");
        assertEquals(second.getLastSequenceId(), 0);
        Producer<String> third = producer(topic, ProducerAccessMode.ExclusiveWithFencing);
        expectThrows(PulsarClientException.class, () -> second.send("fenced"));
        third.send("third");
        third.close();
        second.close();
        // the epoch of the exclusive producers is a property of the topic, and lives as long as it
        assertEquals(broker.admin().topics().getInternalStats(topic).numberOfEntries, 3);
        broker.admin().topics().unload(topic);
        try (Producer<String> fourth = producer(topic, ProducerAccessMode.Exclusive)) {
            fourth.send("fourth");
        }
        assertEquals(Topics.readAll(broker.client(), topic, MessageId.earliest), List.of("first", "second", "third", "fourth"));
    }

    private Producer<String> producer(String topic, ProducerAccessMode mode) throws PulsarClientException {
        return broker.client().newProducer(Schema.STRING).topic(topic).accessMode(mode).enableBatching(false).create();
    }

    @Test
    public void tableViewFollowsTheTopicOverAnUnload() throws Exception {
        String topic = Topics.name("table");
        try (Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).create()) {
            for (int i = 0; i < 20; i++) {
                producer.newMessage().key("k" + i % 5).value("v" + i).send();
            }
            try (TableView<String> table = broker.client().newTableView(Schema.STRING).topic(topic).create()) {
                assertEquals(new HashSet<>(table.entrySet()),
                        Map.of("k0", "v15", "k1", "v16", "k2", "v17", "k3", "v18", "k4", "v19").entrySet());
                broker.admin().topics().unload(topic);
                producer.newMessage().key("k0").value("new").send();
                producer.newMessage().key("k4").value(null).send();              // a tombstone
                await().atMost(SOON).until(() -> "new".equals(table.get("k0")) && !table.containsKey("k4"));
                assertEquals(table.size(), 4);
            }
        }
    }

    @Test
    public void encryptedMessagesAreReadWithTheKeyAndOpaqueWithoutIt() throws Exception {
        String topic = Topics.name("encrypted");
        RsaKeys keys = RsaKeys.generate();
        try (Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).addEncryptionKey("key")
                .cryptoKeyReader(keys).batchingMaxMessages(5).create()) {
            for (int i = 0; i < 10; i++) {
                producer.sendAsync("secret" + i);
            }
            producer.flush();
        }
        broker.admin().topics().unload(topic);
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").cryptoKeyReader(keys).subscribe()) {
            assertEquals(Topics.values(Topics.receive(consumer, 10)), Topics.expected("secret", 0, 10));
        }
        try (Consumer<byte[]> blind = broker.client().newConsumer().topic(topic).subscriptionName("blind")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .cryptoFailureAction(ConsumerCryptoFailureAction.CONSUME).subscribe()) {
            Message<byte[]> sealed = blind.receive(20, TimeUnit.SECONDS);
            assertTrue(sealed.getEncryptionCtx().isPresent(), "the broker keeps the key's metadata");
            assertFalse(new String(sealed.getData()).contains("secret"), "the broker never saw the text");
        }
    }

    @Test
    public void chunkedMessagesComeWholeAlsoBetweenOthersAndAfterASeek() throws Exception {
        String topic = Topics.name("chunked");
        byte[] large = pattern(3_000_000, 1);
        byte[] larger = pattern(12_000_000, 2);                                  // above the broker's limit of one message
        MessageId largerId;
        try (Producer<byte[]> producer = broker.client().newProducer().topic(topic).enableBatching(false).enableChunking(true)
                     .chunkMaxMessageSize(1_000_000).create();
             Producer<byte[]> other = broker.client().newProducer().topic(topic).enableBatching(false).create()) {
            CompletableFuture<MessageId> sent = producer.sendAsync(large);
            for (int i = 0; i < 5; i++) {
                other.send(new byte[] {(byte) i});
            }
            sent.get(20, TimeUnit.SECONDS);
            largerId = producer.send(larger);
        }
        try (Consumer<byte[]> consumer = broker.client().newConsumer().topic(topic).subscriptionName("s").isAckReceiptEnabled(true)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            List<Integer> sizes = new ArrayList<>();
            for (int i = 0; i < 7; i++) {
                Message<byte[]> message = consumer.receive(20, TimeUnit.SECONDS);
                sizes.add(message.getData().length);
                if (message.getData().length > 1) {
                    assertEquals(message.getData(), message.getData().length == large.length ? large : larger);
                }
                consumer.acknowledge(message);
            }
            assertEquals(sizes.stream().sorted().toList(), List.of(1, 1, 1, 1, 1, large.length, larger.length));
            await("every chunk is acknowledged").atMost(SOON).until(() -> backlog(topic, "s") == 0);
        }
        try (Reader<byte[]> reader = broker.client().newReader().topic(topic).startMessageId(largerId).startMessageIdInclusive().create()) {
            assertEquals(reader.readNext(20, TimeUnit.SECONDS).getData(), larger);
            assertFalse(reader.hasMessageAvailable());
        }
        assertTrue(broker.admin().topics().getInternalStats(topic).numberOfEntries >= 5 + 3 + 12, "chunks are entries");
    }

    private static byte[] pattern(int length, int seed) {
        byte[] bytes = new byte[length];
        new SplittableRandom(seed).nextBytes(bytes);
        return bytes;
    }

    /** The number that Pulsar Functions give their output messages so that deduplication drops what they send again. */
    private static long functionSequence(MessageIdAdv id) {
        return (id.getLedgerId() << 28) | id.getEntryId();
    }

    @Test
    public void functionsSequenceIdsRiseOverTheEndOfAVirtualLedger() throws Exception {
        String topic = Topics.name("sequences");
        List<MessageIdAdv> ids = new ArrayList<>();
        try (Producer<byte[]> producer = broker.client().newProducer().topic(topic).enableBatching(false).maxPendingMessages(2_000)
                .blockIfQueueFull(true).create()) {
            List<CompletableFuture<MessageId>> sends = new ArrayList<>();
            for (int i = 0; i < SPAN + 500; i++) {
                sends.add(producer.sendAsync(new byte[] {1}));
            }
            producer.flush();
            sends.forEach(id -> ids.add((MessageIdAdv) id.join()));
        }
        for (int i = 1; i < ids.size(); i++) {
            assertTrue(functionSequence(ids.get(i)) > functionSequence(ids.get(i - 1)), ids.get(i) + " after " + ids.get(i - 1));
        }
        assertNotEquals(ids.get(ids.size() - 1).getLedgerId(), ids.get(0).getLedgerId(), "the test passed the end of a ledger");
        assertTrue(functionSequence(ids.get(0)) > 0, "positive, as a sequence id must be");

        // what an effectively-once function does: its output carries the input's number; a second run changes nothing
        broker.admin().namespaces().createNamespace("public/functions");
        broker.admin().namespaces().setDeduplicationStatus("public/functions", true);
        broker.admin().namespaces().setRetention("public/functions", new RetentionPolicies(-1, -1));
        String output = "persistent://public/functions/output";
        MessageId start = ids.get(SPAN - 50);
        for (int from : List.of(0, 40)) {
            try (Reader<byte[]> reader = broker.client().newReader().topic(topic).startMessageId(start).create();
                 Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(output).producerName("function")
                         .enableBatching(false).create()) {
                for (int i = 0; i < from + 100; i++) {
                    MessageIdAdv id = (MessageIdAdv) reader.readNext(20, TimeUnit.SECONDS).getMessageId();
                    producer.newMessage().sequenceId(functionSequence(id)).value("m" + i).send();
                }
            }
            broker.admin().topics().unload(output);
        }
        assertEquals(Topics.readAll(broker.client(), output, MessageId.earliest), Topics.expected("m", 0, 140));
    }

    @Test
    public void patternConsumerFollowsTheTopicsOfANamespaceAsTheyComeAndGo() throws Exception {
        broker.admin().namespaces().createNamespace("public/patterns");
        String topics = "persistent://public/patterns/";
        Topics.send(broker.client(), topics + "other", "unseen", 1);
        broker.admin().topics().createNonPartitionedTopic(topics + "in-first");
        try (Consumer<String> consumer = broker.client().newConsumer(Schema.STRING).topicsPattern(topics + "in-.*").subscriptionName("s")
                .patternAutoDiscoveryPeriod(1, TimeUnit.SECONDS).subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .subscribe()) {
            Topics.send(broker.client(), topics + "in-first", "a", 2);
            Topics.send(broker.client(), topics + "in-second", "b", 2);                   // made by its producer
            List<Message<String>> received = Topics.receive(consumer, 4);
            assertEquals(new HashSet<>(Topics.values(received)), Set.of("a0", "a1", "b0", "b1"));
            consumer.acknowledge(received.stream().map(Message::getMessageId).toList());
            broker.admin().topics().delete(topics + "in-first", true);
            await("the deleted topic is gone").atMost(SOON)
                    .until(() -> !broker.admin().topics().getList("public/patterns").contains(topics + "in-first"));
            Topics.send(broker.client(), topics + "in-first", "c", 1);                    // another topic of that name
            assertEquals(Topics.values(Topics.receive(consumer, 1)), List.of("c0"));
        }
        assertEquals(new HashSet<>(broker.admin().topics().getList("public/patterns")),
                Set.of(topics + "other", topics + "in-first", topics + "in-second"));
    }

    private long backlog(String topic, String subscription) throws Exception {
        return broker.admin().topics().getStats(topic, true).getSubscriptions().get(subscription).getMsgBacklog();
    }
}
