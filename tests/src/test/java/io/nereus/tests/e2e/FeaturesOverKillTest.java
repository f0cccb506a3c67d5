package io.nereus.tests.e2e;

import static org.awaitility.Awaitility.await;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
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
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/**
 * Features that promise to survive the broker, and plug-ins that see every entry, over one {@code kill -9} in the middle
 * of it. Everything is begun before the kill, each test ends one thing after it.
 */
public class FeaturesOverKillTest {

    private static final int STREAMED = 2_000;
    private static final int ACKNOWLEDGED = 300;
    private static final String SECRET = "this text must not be on the disk";

    private Path plugins;
    private boolean intercepts;
    private TestBroker broker;
    private long deliverAt;
    private byte[] chunked;
    private MessageId chunkedId;
    private List<MessageId> indexed;
    private List<String> borders;
    private String logBefore;

    @BeforeClass
    public void prepareKillAndRestart() throws Exception {
        plugins = Files.createTempDirectory("nereus-plugins-");
        Plugins packed = new Plugins(plugins);
        intercepts = packed.intercepts();
        broker = TestBroker.prepare(packed.installed());
        Map<String, String> settings = new HashMap<>(packed.settings());
        settings.putAll(Map.of("brokerDeduplicationEntriesInterval", "5", "delayedDeliveryTickTimeMillis", "100",
                "brokerEntryMetadataInterceptors", "org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor,"
                        + "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor",
                "exposingBrokerEntryMetadataToClientEnabled", "true"));
        broker.process().start(settings);
        broker.admin().namespaces().setRetention("public/default", new RetentionPolicies(-1, -1));
        prepareIndex();
        prepareDeadLettersAndRetries();
        prepareDelays();
        prepareChunks();
        prepareBundles();
        Topics.send(broker.client(), Topics.name("masked"), SECRET, 3);
        try (Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(Topics.name("exclusive"))
                .accessMode(ProducerAccessMode.Exclusive).create()) {
            producer.send("before");
        }
        streamUntilKilled();
        logBefore = broker.process().logSince(0);
        broker.forgetClients();
        broker.process().start(settings);
    }

    @AfterClass(alwaysRun = true)
    public void stopBroker() throws Exception {
        if (broker != null) {
            broker.close();
        }
        if (plugins != null) {
            TestBroker.remove(plugins);
        }
    }

    private void prepareIndex() throws Exception {
        indexed = new ArrayList<>(Topics.send(broker.client(), Topics.name("indexed"), "m", 10));
        try (Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(Topics.name("indexed"))
                .batchingMaxMessages(5).batchingMaxPublishDelay(10, TimeUnit.SECONDS).create()) {
            List<CompletableFuture<MessageId>> sends = new ArrayList<>();
            for (int i = 10; i < 20; i++) {
                sends.add(producer.sendAsync("m" + i));
            }
            producer.flush();
            sends.forEach(id -> indexed.add(id.join()));
        }
        try (Consumer<String> consumer = Topics.consumer(broker.client(), Topics.name("indexed"), "s").subscribe()) {
            consumer.acknowledge(Topics.receive(consumer, 20).get(2));
        }
    }

    private Consumer<String> rejecting() throws PulsarClientException {
        return Topics.consumer(broker.client(), Topics.name("rejecting"), "s").subscriptionType(SubscriptionType.Shared)
                .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS).receiverQueueSize(1)
                .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(1).initialSubscriptionName("kept").build()).subscribe();
    }

    private Consumer<String> retrying() throws PulsarClientException {
        return Topics.consumer(broker.client(), Topics.name("retrying"), "s").subscriptionType(SubscriptionType.Shared).enableRetry(true)
                .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(5).retryLetterTopic(Topics.name("retrying-later"))
                        .deadLetterTopic(Topics.name("retrying-dead")).build()).subscribe();
    }

    private void prepareDeadLettersAndRetries() throws Exception {
        try (Consumer<String> consumer = rejecting()) {
            Topics.send(broker.client(), Topics.name("rejecting"), "m", 1);
            reject(consumer, "m0", 2);
            try (Consumer<String> dead = Topics.consumer(broker.client(), Topics.name("rejecting-s-DLQ"), "kept").subscribe()) {
                assertEquals(Topics.values(Topics.receive(dead, 1)), List.of("m0"));
            }
            await().atMost(Duration.ofSeconds(20)).until(() -> backlog(Topics.name("rejecting"), "s") == 0);
            Topics.send(broker.client(), Topics.name("rejecting"), "n", 1);
            reject(consumer, "n0", 1);
        }
        try (Consumer<String> consumer = retrying()) {
            Topics.send(broker.client(), Topics.name("retrying"), "m", 2);
            for (Message<String> message : Topics.receive(consumer, 2)) {
                consumer.reconsumeLater(message, 15, TimeUnit.SECONDS);
            }
        }
    }

    private static void reject(Consumer<String> consumer, String value, int times) throws PulsarClientException {
        for (int i = 0; i < times; i++) {
            Message<String> message = Topics.receive(consumer, 1).get(0);
            assertEquals(message.getValue(), value);
            consumer.negativeAcknowledge(message);
        }
    }

    private void prepareDelays() throws Exception {
        String topic = Topics.name("delayed");
        broker.admin().topics().createNonPartitionedTopic(topic);
        broker.admin().topics().createSubscription(topic, "s", MessageId.earliest);
        deliverAt = System.currentTimeMillis() + 25_000;
        try (Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).enableBatching(false).create()) {
            for (int i = 0; i < 3; i++) {
                producer.newMessage().value("late" + i).deliverAt(deliverAt - i * 300).send();
            }
            producer.send("now");
        }
    }

    private void prepareChunks() throws Exception {
        chunked = new byte[7_000_000];
        new SplittableRandom(3).nextBytes(chunked);
        try (Producer<byte[]> producer = broker.client().newProducer().topic(Topics.name("chunked")).enableBatching(false)
                .enableChunking(true).chunkMaxMessageSize(1_000_000).create()) {
            chunkedId = producer.send(chunked);
        }
    }

    private void prepareBundles() throws Exception {
        broker.admin().namespaces().createNamespace("public/bundles", 1);
        for (int i = 0; i < 4; i++) {
            Topics.send(broker.client(), "persistent://public/bundles/t" + i, "m", 2);
            broker.admin().topics().createSubscription("persistent://public/bundles/t" + i, "s", MessageId.earliest);
        }
        broker.admin().namespaces().splitNamespaceBundle("public/bundles", "0x00000000_0xffffffff", true, null);
        borders = broker.admin().namespaces().getBundles("public/bundles").getBoundaries();
    }

    private Producer<String> numbered() throws PulsarClientException {
        return broker.client().newProducer(Schema.STRING).topic("persistent://public/dedup/t").producerName("p")
                .enableBatching(false).sendTimeout(0, TimeUnit.SECONDS).maxPendingMessages(STREAMED).create();
    }

    /** Sends with numbers; the receipt of one of the first kills the broker while the others are on their way. */
    private void streamUntilKilled() throws Exception {
        broker.admin().namespaces().createNamespace("public/dedup");
        broker.admin().namespaces().setDeduplicationStatus("public/dedup", true);
        broker.admin().namespaces().setRetention("public/dedup", new RetentionPolicies(-1, -1));
        Producer<String> producer = numbered();
        CompletableFuture<Void> killed = new CompletableFuture<>();
        for (int i = 0; i < STREAMED; i++) {
            CompletableFuture<MessageId> sent = producer.newMessage().sequenceId(i).value("m" + i).sendAsync();
            if (i == ACKNOWLEDGED) {
                sent.thenRun(() -> {
                    broker.process().kill();
                    killed.complete(null);
                });
            }
        }
        killed.get(30, TimeUnit.SECONDS);
    }

    private long backlog(String topic, String subscription) throws Exception {
        return broker.admin().topics().getStats(topic, true).getSubscriptions().get(subscription).getMsgBacklog();
    }

    @Test
    public void streamSentAgainFromItsBeginningIsStoredOnceAndInOrder_case_003() throws Exception {
        try (Producer<String> producer = numbered()) {
            long remembered = producer.getLastSequenceId();
            assertTrue(remembered >= ACKNOWLEDGED, "what was acknowledged is remembered: " + remembered);
            for (int i = 0; i < STREAMED; i++) {
                producer.newMessage().sequenceId(i).value("m" + i).sendAsync();
            }
            producer.flush();
        }
        assertEquals(Topics.readAll(broker.client(), "persistent://public/dedup/t", MessageId.earliest), Topics.expected("m", 0, STREAMED));
        assertTrue(broker.admin().topics().getInternalStats("persistent://public/dedup/t").cursors.containsKey("pulsar.dedup"),
                "numbers are kept in a snapshot");
    }

    @Test
    public void delayedMessagesKeepTheirTimes() throws Exception {
        boolean allStillLate = System.currentTimeMillis() < deliverAt - 3_000;
        try (Consumer<String> consumer = Topics.consumer(broker.client(), Topics.name("delayed"), "s")
                .subscriptionType(SubscriptionType.Shared).subscribe()) {
            List<String> values = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                Message<String> message = consumer.receive(60, TimeUnit.SECONDS);
                values.add(message.getValue());
                long now = System.currentTimeMillis();
                // two ticks early at most: Pulsar rounds a time down to the tick and looks one tick ahead
                assertTrue(message.getValue().equals("now") || now >= deliverAt - 600 - 200, message.getValue() + " came early");
                consumer.acknowledge(message);
            }
            assertEquals(new HashSet<>(values), new HashSet<>(List.of("now", "late0", "late1", "late2")));
            if (allStillLate) {                         // else a slow start has made all of them due
                assertEquals(values, List.of("now", "late2", "late1", "late0"));
            }
        }
    }

    @Test
    public void deadLettersStayAndTheRejectedMessageFollowsThem() throws Exception {
        try (Consumer<String> consumer = rejecting();
             Consumer<String> dead = Topics.consumer(broker.client(), Topics.name("rejecting-s-DLQ"), "kept").subscribe()) {
            reject(consumer, "n0", 2);                  // the count of deliveries begins again, as in stock
            List<Message<String>> letters = Topics.receive(dead, 2);
            assertEquals(Topics.values(letters), List.of("m0", "n0"));
            assertNull(dead.receive(200, TimeUnit.MILLISECONDS), "each letter once");
        }
    }

    @Test
    public void messagesToConsumeLaterComeOnceFromTheRetryTopic() throws Exception {
        try (Consumer<String> consumer = retrying()) {
            List<Message<String>> again = Topics.receive(consumer, 2);
            assertEquals(new HashSet<>(Topics.values(again)), new HashSet<>(List.of("m0", "m1")));
            for (Message<String> message : again) {
                assertEquals(message.getProperty("RECONSUMETIMES"), "1");
                consumer.acknowledge(message);
            }
            assertNull(consumer.receive(200, TimeUnit.MILLISECONDS), "neither comes from the first topic too");
        }
    }

    @Test
    public void chunkedMessageComesWhole() throws Exception {
        try (Reader<byte[]> reader = broker.client().newReader().topic(Topics.name("chunked")).startMessageId(chunkedId)
                .startMessageIdInclusive().create()) {
            assertEquals(reader.readNext(20, TimeUnit.SECONDS).getData(), chunked);
            assertFalse(reader.hasMessageAvailable());
        }
    }

    @Test
    public void indexesGoOnWithoutAGapAndEveryMessageShowsItsOwn() throws Exception {
        String topic = Topics.name("indexed");
        indexed.addAll(Topics.send(broker.client(), topic, "after", 2));
        try (Reader<String> reader = broker.client().newReader(Schema.STRING).topic(topic).startMessageId(MessageId.earliest).create()) {
            for (int i = 0; i < 22; i++) {
                Message<String> message = reader.readNext(20, TimeUnit.SECONDS);
                assertEquals(message.getValue(), i < 20 ? "m" + i : "after" + (i - 20));
                assertEquals(message.getIndex().orElseThrow().longValue(), i, "index of " + message.getValue());
                long published = message.getBrokerPublishTime().orElseThrow();
                assertTrue(Math.abs(published - message.getPublishTime()) < 10_000, "the broker's time " + published);
            }
        }
        // Before Pulsar 4.1 a broker has no search by index; later ones find the entry that holds it.
        if (!broker.admin().brokers().getVersion().startsWith("4.0.")) {
            for (int index : new int[] {0, 7, 13, 19, 21}) {
                String found = broker.process()
                        .get("/admin/v2/persistent/public/default/indexed/getMessageIdByIndex?index=" + index).body();
                MessageIdAdv id = (MessageIdAdv) indexed.get(index);
                assertTrue(found.contains("\"ledgerId\":" + id.getLedgerId()) && found.contains("\"entryId\":" + id.getEntryId()),
                        "index " + index + ": " + found + " is not " + id);
            }
        }
    }

    @Test
    public void payloadProcessorMasksWhatIsStoredAndShowsWhatWasSent() throws Exception {
        assertEquals(Topics.readAll(broker.client(), Topics.name("masked"), MessageId.earliest), Topics.expected(SECRET, 0, 3));
        byte[] wanted = SECRET.getBytes(StandardCharsets.UTF_8);
        byte[] masked = wanted.clone();
        for (int i = 0; i < masked.length; i++) {
            masked[i] ^= 0x5A;
        }
        assertTrue(isStored(masked), "the masked text is in the journal");
        assertFalse(isStored(wanted), "the text itself is not");
    }

    private boolean isStored(byte[] text) throws Exception {
        String wanted = new String(text, StandardCharsets.ISO_8859_1);
        try (Stream<Path> files = Files.walk(broker.process().files().data())) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                if (new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1).contains(wanted)) {
                    return true;
                }
            }
        }
        return false;
    }

    @Test
    public void brokerInterceptorMeetsEveryMessageUnderItsId() {
        if (!intercepts) {
            assertFalse(logBefore.contains("intercepted "), "no interceptor is configured");
            return;
        }
        for (MessageId id : indexed.subList(0, 20)) {
            String place = ((MessageIdAdv) id).getLedgerId() + ":" + ((MessageIdAdv) id).getEntryId();
            Evidence.assertLine(logBefore, "intercepted produced " + Topics.name("indexed") + " " + place);
            Evidence.assertLine(logBefore, "intercepted dispatched " + Topics.name("indexed") + " " + place);
        }
        MessageIdAdv acked = (MessageIdAdv) indexed.get(2);
        Evidence.assertLine(logBefore,
                "intercepted acked " + Topics.name("indexed") + " " + acked.getLedgerId() + ":" + acked.getEntryId());
    }

    @Test
    public void splitBundlesAndTheirTopicsAreThere() throws Exception {
        assertEquals(broker.admin().namespaces().getBundles("public/bundles").getBoundaries(), borders);
        for (int i = 0; i < 4; i++) {
            assertEquals(backlog("persistent://public/bundles/t" + i, "s"), 2);
        }
    }

    @Test
    public void exclusiveProducerComesBack() throws Exception {
        try (Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(Topics.name("exclusive"))
                .accessMode(ProducerAccessMode.Exclusive).create()) {
            producer.send("after");
        }
        assertEquals(Topics.readAll(broker.client(), Topics.name("exclusive"), MessageId.earliest), List.of("before", "after"));
    }
}
