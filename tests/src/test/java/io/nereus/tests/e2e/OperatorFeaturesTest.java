package io.nereus.tests.e2e;

import static org.awaitility.Awaitility.await;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.policies.data.BacklogQuota;
import org.apache.pulsar.common.policies.data.BacklogQuota.BacklogQuotaType;
import org.apache.pulsar.common.policies.data.BacklogQuota.RetentionPolicy;
import org.apache.pulsar.common.policies.data.ClusterData;
import org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode;
import org.apache.pulsar.common.policies.data.InactiveTopicPolicies;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.stats.AnalyzeSubscriptionBacklogResult;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/**
 * What an operator's policies and commands do, on one broker that looks every second; topics in namespaces of their own.
 * Pulsar counts time-to-live checks and retention in whole minutes: both tests are prepared first and looked at last.
 */
public class OperatorFeaturesTest {

    private static final Duration SOON = Duration.ofSeconds(20);
    private static final Duration NEXT_MINUTE = Duration.ofSeconds(90);

    private TestBroker broker;
    /** A client that does not try again for long where it is refused. */
    private PulsarClient impatient;
    private long consumedAt;

    @BeforeClass
    public void startBroker() throws Exception {
        broker = TestBroker.prepare();
        broker.process().start(Map.of("messageExpiryCheckIntervalInMinutes", "1", "backlogQuotaCheckIntervalInSeconds", "1",
                "brokerDeleteInactiveTopicsFrequencySeconds", "1", "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", "3600",
                "retentionCheckIntervalInSeconds", "1", "managedLedgerMinLedgerRolloverTimeMinutes", "0",
                "managedLedgerInactiveLedgerRolloverTimeSeconds", "1", "managedLedgerMaxEntriesPerLedger", "5",
                "forceDeleteNamespaceAllowed", "true",
                "enableShadowTopics", "true")); // a setting of Pulsar 5; earlier releases always have them
        broker.admin().namespaces().setRetention("public/default", new RetentionPolicies(-1, -1));
        impatient = PulsarClient.builder().serviceUrl(broker.process().serviceUrl()).operationTimeout(1, TimeUnit.SECONDS).build();
        // What takes a minute begins before everything else.
        consumeWhatIsKeptForAMinute();
        leaveWhatExpires();
    }

    @AfterClass(alwaysRun = true)
    public void stopBroker() throws Exception {
        if (impatient != null) {
            impatient.close();
        }
        if (broker != null) {
            broker.close();
        }
    }

    private String namespace(String name) throws Exception {
        broker.admin().namespaces().createNamespace("public/" + name);
        return "public/" + name;
    }

    private static String topic(String namespace) {
        return "persistent://" + namespace + "/topic";
    }

    private long backlog(String topic, String subscription) throws Exception {
        return broker.admin().topics().getStats(topic, true).getSubscriptions().get(subscription).getMsgBacklog();
    }

    private long storageSize(String topic) throws Exception {
        return broker.admin().topics().getStats(topic).getStorageSize();
    }

    private static void soon(String what, Callable<Boolean> condition) {
        await(what).atMost(SOON).until(condition);
    }

    private void consume(String topic, int messages) throws Exception {
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            Topics.send(broker.client(), topic, "m", messages);
            consumer.acknowledgeCumulative(Topics.receive(consumer, messages).get(messages - 1));
        }
    }

    private void consumeWhatIsKeptForAMinute() throws Exception {
        String kept = topic(namespace("kept-a-minute"));
        broker.admin().namespaces().setRetention("public/kept-a-minute", new RetentionPolicies(1, -1));
        consume(kept, 12);
        consumedAt = System.nanoTime();
        String freed = topic(namespace("kept-not-at-all"));
        consume(freed, 12);
        soon("retention looked", () -> storageSize(freed) == 0);
        assertEquals(Topics.readAll(broker.client(), kept, MessageId.earliest), Topics.expected("m", 0, 12));
    }

    @Test
    public void theRetentionTimeKeepsConsumedMessagesAndThenTheyGo() throws Exception {
        String topic = "persistent://public/kept-a-minute/topic";
        await("freed after a minute").atMost(NEXT_MINUTE).until(() -> storageSize(topic) == 0);
        assertTrue(System.nanoTime() - consumedAt >= TimeUnit.SECONDS.toNanos(59), "not before the minute is over");
        // what is told as the last message is there for a reader; everything else is gone
        assertEquals(Topics.readAll(broker.client(), topic, MessageId.earliest), List.of("m11"));
    }

    private void leaveWhatExpires() throws Exception {
        String topic = topic(namespace("expiring"));
        broker.admin().namespaces().setNamespaceMessageTTL("public/expiring", 5);
        broker.admin().topics().createNonPartitionedTopic(topic);
        broker.admin().topics().createSubscription(topic, "s", MessageId.earliest);
        Topics.send(broker.client(), topic, "old", 12);
        assertEquals(backlog(topic, "s"), 12);
    }

    @Test
    public void timeToLiveTakesTheOldAndLeavesTheYoung() throws Exception {
        String topic = "persistent://public/expiring/topic";
        await("the check of each minute").atMost(NEXT_MINUTE).until(() -> backlog(topic, "s") == 0);
        Topics.send(broker.client(), topic, "young", 3);
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            assertEquals(Topics.values(Topics.receive(consumer, 3)), Topics.expected("young", 0, 3));
        }
    }

    @Test
    public void operatorExpiresByTimeExactlyTheOlderOnes_case_018() throws Exception {
        String topic = Topics.name("expired-by-time");
        broker.admin().topics().createNonPartitionedTopic(topic);
        broker.admin().topics().createSubscription(topic, "s", MessageId.earliest);
        Topics.send(broker.client(), topic, "old", 13);
        broker.admin().topics().unload(topic);
        long sent = System.nanoTime();
        soon("three seconds old", () -> System.nanoTime() - sent > TimeUnit.MILLISECONDS.toNanos(3_500));
        Topics.send(broker.client(), topic, "young", 4);
        broker.admin().topics().expireMessages(topic, "s", 3);
        soon("one pass", () -> backlog(topic, "s") == 4);
        assertEquals(new String(broker.admin().topics().peekMessages(topic, "s", 1).get(0).getData()), "young0");
    }

    @Test
    public void fullSizeQuotaKeepsProducersOutUntilItIsConsumed() throws Exception {
        String topic = topic(namespace("quota-exception"));
        quota("public/quota-exception", BacklogQuota.builder().limitSize(100_000).retentionPolicy(RetentionPolicy.producer_exception));
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            Topics.send(broker.client(), topic, "x".repeat(20_000), 8);
            soon("producers are refused", () -> answerToAProducer(topic) == Answer.FULL);
            consumer.acknowledgeCumulative(Topics.receive(consumer, 8).get(7));
            soon("producers are let in", () -> answerToAProducer(topic) == Answer.LET_IN);
            Topics.send(broker.client(), topic, "after", 1);
            assertEquals(Topics.values(Topics.receive(consumer, 1)), List.of("after0"));
        }
    }

    @Test
    public void fullSizeQuotaEvictsTheOldestOfTheSlowSubscriptionOnly() throws Exception {
        String topic = topic(namespace("quota-eviction"));
        quota("public/quota-eviction", BacklogQuota.builder().limitSize(100_000)
                .retentionPolicy(RetentionPolicy.consumer_backlog_eviction));
        broker.admin().namespaces().setRetention("public/quota-eviction", new RetentionPolicies(-1, -1));
        try (Consumer<String> fast = Topics.consumer(broker.client(), topic, "fast").subscribe()) {
            broker.admin().topics().createSubscription(topic, "slow", MessageId.earliest);
            Topics.send(broker.client(), topic, "x".repeat(10_000), 30);
            List<Message<String>> all = Topics.receive(fast, 30);
            fast.acknowledgeCumulative(all.get(27));
            soon("the backlog fits", () -> broker.admin().topics().getStats(topic).getBacklogSize() <= 100_000);
            long left = backlog(topic, "slow");
            assertTrue(left >= 5 && left <= 10, "as many are left as fit into nine tenths: " + left);
            assertEquals(backlog(topic, "fast"), 2);
            String first = new String(broker.admin().topics().peekMessages(topic, "slow", 1).get(0).getData());
            assertTrue(first.endsWith("x" + (30 - left)), "the newest are left, beginning with " + first.replaceAll("x+", ""));
        }
    }

    @Test
    public void timeQuotaEvictsWhatIsTooOldOnAQuietTopic() throws Exception {
        String topic = topic(namespace("quota-age"));
        broker.admin().namespaces().setBacklogQuota("public/quota-age", BacklogQuota.builder().limitTime(3)
                .retentionPolicy(RetentionPolicy.consumer_backlog_eviction).build(), BacklogQuotaType.message_age);
        broker.admin().topics().createNonPartitionedTopic(topic);
        broker.admin().topics().createSubscription(topic, "s", MessageId.earliest);
        Topics.send(broker.client(), topic, "m", 4);                          // fewer than a part holds: nothing is closed
        assertEquals(backlog(topic, "s"), 4);
        soon("too old", () -> backlog(topic, "s") == 0);
    }

    @Test
    public void timeQuotaKeepsProducersOutWhileTheOldestIsTooOld() throws Exception {
        String topic = topic(namespace("quota-age-exception"));
        broker.admin().namespaces().setBacklogQuota("public/quota-age-exception", BacklogQuota.builder().limitTime(2)
                .retentionPolicy(RetentionPolicy.producer_exception).build(), BacklogQuotaType.message_age);
        broker.admin().topics().createNonPartitionedTopic(topic);
        broker.admin().topics().createSubscription(topic, "s", MessageId.earliest);
        Topics.send(broker.client(), topic, "m", 1);
        soon("producers are refused", () -> answerToAProducer(topic) == Answer.FULL);
        assertTrue(broker.admin().topics().getStats(topic).getOldestBacklogMessageAgeSeconds() >= 2, "the age is told");
        broker.admin().topics().skipAllMessages(topic, "s");
        soon("producers are let in", () -> answerToAProducer(topic) == Answer.LET_IN);
    }

    /** What a new producer is told. */
    private enum Answer { LET_IN, FULL, NONE_IN_TIME }

    private Answer answerToAProducer(String topic) throws PulsarClientException {
        try {
            impatient.newProducer(Schema.STRING).topic(topic).create().close();
            return Answer.LET_IN;
        } catch (PulsarClientException.ProducerBlockedQuotaExceededException full) {
            return Answer.FULL;
        } catch (PulsarClientException.TimeoutException slow) {
            return Answer.NONE_IN_TIME;
        }
    }

    private void quota(String namespace, BacklogQuota.Builder quota) throws Exception {
        broker.admin().namespaces().setBacklogQuota(namespace, quota.build(), BacklogQuotaType.destination_storage);
    }

    @Test
    public void inactiveTopicIsDeletedAndOneWithBacklogStays() throws Exception {
        String namespace = namespace("inactive");
        broker.admin().namespaces().setInactiveTopicPolicies(namespace,
                new InactiveTopicPolicies(InactiveTopicDeleteMode.delete_when_subscriptions_caught_up, 2, true));
        String idle = "persistent://" + namespace + "/idle";
        String backlog = "persistent://" + namespace + "/backlog";
        Topics.send(broker.client(), backlog, "m", 3);
        broker.admin().topics().createSubscription(backlog, "s", MessageId.earliest);
        consume(idle, 12);
        MessageId last = broker.admin().topics().getLastMessageId(idle);
        soon("the idle topic is deleted", () -> !broker.admin().topics().getList(namespace).contains(idle));
        assertEquals(backlog(backlog, "s"), 3);
        List<MessageId> next = Topics.send(broker.client(), idle, "n", 1);
        assertTrue(next.get(0).compareTo(last) > 0, next + " after " + last);
    }

    @Test
    public void splitAndUnloadedBundlesKeepEveryTopicOfTheNamespace() throws Exception {
        String namespace = "public/bundles";
        broker.admin().namespaces().createNamespace(namespace, 1);
        List<Producer<String>> producers = new ArrayList<>();
        List<Consumer<String>> consumers = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            String topic = "persistent://" + namespace + "/t" + i;
            consumers.add(Topics.consumer(broker.client(), topic, "s").subscribe());
            producers.add(broker.client().newProducer(Schema.STRING).topic(topic).create());
        }
        sendAndReceive(producers, consumers, "whole");
        // without the unload that Pulsar would do behind the answer, at no known time
        broker.admin().namespaces().splitNamespaceBundle(namespace, "0x00000000_0xffffffff", false, null);
        assertEquals(broker.admin().namespaces().getBundles(namespace).getNumBundles(), 2);
        sendAndReceive(producers, consumers, "split");
        List<String> borders = broker.admin().namespaces().getBundles(namespace).getBoundaries();
        List<CompletableFuture<MessageId>> under = new ArrayList<>();
        for (int i = 0; i + 1 < borders.size(); i++) {
            for (Producer<String> producer : producers) {
                under.add(producer.sendAsync("under" + i));
            }
            broker.admin().namespaces().unloadNamespaceBundle(namespace, borders.get(i) + "_" + borders.get(i + 1));
        }
        under.forEach(CompletableFuture::join);
        for (Consumer<String> consumer : consumers) {
            receiveNext(consumer, "under0");
            receiveNext(consumer, "under1");
        }
        broker.admin().namespaces().splitNamespaceBundle(namespace, borders.get(0) + "_" + borders.get(1), false,
                "topic_count_equally_divide");
        sendAndReceive(producers, consumers, "again");
        assertEquals(broker.admin().topics().getList(namespace).size(), 8);
        for (AutoCloseable open : consumers) {
            open.close();
        }
        for (AutoCloseable open : producers) {
            open.close();
        }
        broker.admin().namespaces().deleteNamespace(namespace, true);
        assertFalse(broker.admin().namespaces().getNamespaces("public").contains(namespace));
    }

    private static void sendAndReceive(List<Producer<String>> producers, List<Consumer<String>> consumers, String text) throws Exception {
        for (Producer<String> producer : producers) {
            producer.send(text);
        }
        for (Consumer<String> consumer : consumers) {
            receiveNext(consumer, text);
        }
    }

    /** Receives {@code text} next; what came just before the topic moved may come again, and was perhaps not acknowledged. */
    private static void receiveNext(Consumer<String> consumer, String text) throws Exception {
        Message<String> message;
        boolean acknowledged;
        do {
            message = Topics.receive(consumer, 1).get(0);
            assertTrue(message.getValue().equals(text) || message.getValue().startsWith("under"),
                    consumer.getTopic() + ": " + message.getValue() + " instead of " + text);
            acknowledged = acknowledge(consumer, message);
        } while (!acknowledged || !message.getValue().equals(text));
    }

    /** False while the consumer is about to follow its topic: then the message comes again. */
    private static boolean acknowledge(Consumer<String> consumer, Message<String> message) {
        try {
            consumer.acknowledge(message);
            return true;
        } catch (PulsarClientException disconnected) {
            return false;
        }
    }

    @Test
    public void backlogIsAnalyzedFromEntriesBatchesAndHoles() throws Exception {
        String topic = Topics.name("analyzed");
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscriptionType(SubscriptionType.Shared).subscribe();
             Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).batchingMaxMessages(10)
                     .batchingMaxPublishDelay(10, TimeUnit.SECONDS).create()) {
            Topics.send(broker.client(), topic, "m", 10);
            for (int i = 0; i < 20; i++) {
                producer.sendAsync("b" + i);
            }
            producer.flush();
            AnalyzeSubscriptionBacklogResult whole = analyze(topic);
            assertEquals(whole.getEntries(), 12);
            assertEquals(whole.getMessages(), 30);
            assertFalse(whole.isAborted());
            for (Message<String> message : Topics.receive(consumer, 30)) {
                if (message.getValue().matches("m[369]|b.")) {                     // three holes, and the first batch
                    consumer.acknowledge(message);
                }
            }
            AnalyzeSubscriptionBacklogResult rest = analyze(topic);
            assertEquals(rest.getEntries(), 8);
            assertEquals(rest.getMessages(), 17);
            assertEquals(backlog(topic, "s"), 8);
        }
    }

    private AnalyzeSubscriptionBacklogResult analyze(String topic) throws Exception {
        return broker.admin().topics().analyzeSubscriptionBacklog(topic, "s", Optional.empty());
    }

    @Test
    public void messageIdIsFoundByTimeAndMessagesAreExaminedAndPeekedByNumber() throws Exception {
        String topic = Topics.name("found");
        List<MessageId> ids = new ArrayList<>();
        List<Long> before = new ArrayList<>();
        for (int i = 0; i < 12; i++) {                                             // over the ends of two parts
            long now = System.currentTimeMillis();
            await().pollInterval(Duration.ofMillis(1)).until(() -> System.currentTimeMillis() > now);
            before.add(System.currentTimeMillis());
            ids.addAll(Topics.send(broker.client(), topic, "m" + i + "-", 1));
        }
        for (int i = 0; i < 12; i++) {
            MessageId found = broker.admin().topics().getMessageIdByTimestamp(topic, before.get(i));
            assertEquals(found.toString(), ids.get(i).toString(), "time " + i);
        }
        assertEquals(broker.admin().topics().getMessageIdByTimestamp(topic, 1).toString(), ids.get(0).toString());
        for (int i : List.of(1, 5, 6, 12)) {
            assertEquals(new String(broker.admin().topics().examineMessage(topic, "earliest", i).getData()), "m" + (i - 1) + "-0");
            assertEquals(new String(broker.admin().topics().examineMessage(topic, "latest", i).getData()), "m" + (12 - i) + "-0");
        }
        broker.admin().topics().createSubscription(topic, "s", ids.get(2));
        List<String> peeked = broker.admin().topics().peekMessages(topic, "s", 4).stream().map(m -> new String(m.getData())).toList();
        assertEquals(peeked, List.of("m2-0", "m3-0", "m4-0", "m5-0"));
    }

    @Test
    public void topicPoliciesTakeEffectAndSurviveTheUnloadOfTopicAndSystemTopic() throws Exception {
        String topic = Topics.name("policed");
        Topics.send(broker.client(), topic, "m", 1);
        broker.admin().topicPolicies().setMaxProducers(topic, 1);
        soon("the policy is there", () -> Integer.valueOf(1).equals(broker.admin().topicPolicies().getMaxProducers(topic)));
        for (boolean unload : List.of(false, true)) {
            if (unload) {
                broker.admin().topics().unload("persistent://public/default/__change_events");
                broker.admin().namespaces().unload("public/default");
            }
            try (Producer<String> only = broker.client().newProducer(Schema.STRING).topic(topic).create()) {
                only.send("allowed");
                soon("one producer is enough", () -> {
                    try {
                        broker.client().newProducer(Schema.STRING).topic(topic).create().close();
                        return false;
                    } catch (PulsarClientException.ProducerBusyException refused) {
                        return true;
                    }
                });
            }
        }
        broker.admin().topics().delete(topic);
        Topics.send(broker.client(), topic, "again", 1);
        soon("the policy went with the deleted topic", () -> broker.admin().topicPolicies().getMaxProducers(topic) == null);
    }

    @Test
    public void trimFreesWhatIsConsumedAndTruncateEverything() throws Exception {
        String namespace = namespace("by-hand");
        broker.admin().namespaces().setRetention(namespace, new RetentionPolicies(0, 0));
        String topic = topic(namespace);
        consume(topic, 12);
        Topics.send(broker.client(), topic, "n", 3);
        broker.admin().topics().trimTopic(topic);
        soon("trimmed", () -> Topics.readAll(broker.client(), topic, MessageId.earliest).size() < 15);
        assertEquals(backlog(topic, "s"), 3);
        broker.admin().topics().truncate(topic);
        soon("truncated", () -> backlog(topic, "s") == 0 && storageSize(topic) == 0);
        Topics.send(broker.client(), topic, "o", 2);
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            assertEquals(Topics.values(Topics.receive(consumer, 2)), Topics.expected("o", 0, 2));
        }
    }

    /** The broker tells the shadow of each message through a replicator, at the address that the cluster knows of itself. */
    @Test
    public void aShadowTopicShowsWhatReachesItsSource() throws Exception {
        broker.admin().clusters().updateCluster(broker.process().files().cluster(), ClusterData.builder()
                .serviceUrl(broker.process().adminUrl()).brokerServiceUrl(broker.process().serviceUrl()).build());
        String source = topic(namespace("shadowed"));
        String shadow = source + "-shadow";
        broker.admin().topics().createNonPartitionedTopic(source);
        broker.admin().topics().createShadowTopic(shadow, source);
        // subscribed first: the replicator brings no schema, and a topic that is used without one takes none later
        try (Consumer<String> consumer = Topics.consumer(broker.client(), shadow, "s").subscribe()) {
            broker.admin().topics().setShadowTopics(source, List.of(shadow));
            soon("the source has a replicator", () -> broker.admin().topics().getInternalStats(source).cursors.keySet().stream()
                    .anyMatch(name -> name.startsWith("pulsar.repl-")));
            List<MessageId> sent = Topics.send(broker.client(), source, "m", 10);
            List<Message<String>> shown = Topics.receive(consumer, 10);
            assertEquals(Topics.values(shown), Topics.expected("m", 0, 10));
            assertEquals(shown.stream().map(Message::getMessageId).toList(), sent, "at the places of the source");
        }
    }
}
