package io.nereus.tests.e2e;

import static org.awaitility.Awaitility.await;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertTrue;

import io.nereus.tests.broker.Installation;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.common.policies.data.ClusterData;
import org.apache.pulsar.common.policies.data.ReplicatorStats;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.SubscriptionStats;
import org.apache.pulsar.common.policies.data.TenantInfo;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/**
 * Two clusters, each a broker with metadata store and data directory of its own, that replicate a namespace to each
 * other: what one of them misses while it is killed reaches it later, once and in order.
 */
public class TwoClustersTest {

    private static final Duration SOON = Duration.ofSeconds(30);
    private static final Map<String, String> SETTINGS = Map.of("replicatedSubscriptionsSnapshotFrequencyMillis", "100");
    private static final String NAMESPACE = "public/geo";

    private TestBroker west;
    private TestBroker east;

    @BeforeClass
    public void startBoth() throws Exception {
        west = cluster("west");
        east = cluster("east");
        CompletableFuture<Void> other = CompletableFuture.runAsync(() -> setUpAndStart(east));
        setUpAndStart(west);
        other.get(120, TimeUnit.SECONDS);
        introduce(west, "east", east);
        introduce(east, "west", west);
    }

    @AfterClass(alwaysRun = true)
    public void stopBoth() throws Exception {
        for (TestBroker broker : new TestBroker[] {west, east}) {
            if (broker != null) {
                broker.close();
            }
        }
    }

    private static TestBroker cluster(String name) throws Exception {
        Path directory = Files.createTempDirectory("nereus-" + name + "-");
        return TestBroker.prepare(directory, name, directory.resolve("metadata"), Installation.built());
    }

    private static void setUpAndStart(TestBroker broker) {
        try {
            broker.process().setUpCluster();
            broker.process().start(SETTINGS);
        } catch (Exception e) {
            throw new AssertionError("a cluster does not start", e);
        }
    }

    private static void introduce(TestBroker broker, String other, TestBroker there) throws Exception {
        broker.admin().clusters().createCluster(other, ClusterData.builder().serviceUrl(there.process().adminUrl())
                .brokerServiceUrl(there.process().serviceUrl()).build());
        broker.admin().tenants().updateTenant("public", TenantInfo.builder().allowedClusters(Set.of("west", "east")).build());
        broker.admin().namespaces().createNamespace(NAMESPACE, Set.of("west", "east"));
        broker.admin().namespaces().setDeduplicationStatus(NAMESPACE, true);
        broker.admin().namespaces().setRetention(NAMESPACE, new RetentionPolicies(-1, -1));
    }

    private static String topic(String name) {
        return "persistent://" + NAMESPACE + "/" + name;
    }

    private static void soon(String what, Callable<Boolean> condition) {
        await(what).atMost(SOON).until(condition);
    }

    /** Reads from the beginning until {@code count} messages came, and then that no other comes. */
    private static List<Message<String>> readAll(TestBroker broker, String topic, int count) throws Exception {
        List<Message<String>> messages = new ArrayList<>();
        try (Reader<String> reader = broker.client().newReader(Schema.STRING).topic(topic).startMessageId(MessageId.earliest).create()) {
            while (messages.size() < count) {
                Message<String> message = reader.readNext(30, TimeUnit.SECONDS);
                assertTrue(message != null, messages.size() + " of " + count + " messages came: " + Topics.values(messages));
                messages.add(message);
            }
            Message<String> more = reader.readNext(300, TimeUnit.MILLISECONDS);
            assertNull(more, more == null ? "" : "one more came: " + more.getValue());
        }
        return messages;
    }

    /** Messages that wait for the other cluster; -1 while the topic does not replicate yet. */
    private static long replicationBacklog(TestBroker from, String topic, String to) throws Exception {
        ReplicatorStats stats = from.admin().topics().getStats(topic).getReplication().get(to);
        return stats == null ? -1 : stats.getReplicationBacklog();
    }

    @Test
    public void messagesFlowBothWaysAndNoneComesBack() throws Exception {
        String topic = topic("both-ways");
        Topics.send(west.client(), topic, "w", 20);
        Topics.send(east.client(), topic, "e", 20);
        for (TestBroker broker : List.of(west, east)) {
            String own = broker == west ? "w" : "e";
            List<Message<String>> messages = readAll(broker, topic, 40);
            for (String origin : List.of("w", "e")) {
                List<Message<String>> ofOrigin = messages.stream().filter(m -> m.getValue().startsWith(origin)).toList();
                assertEquals(Topics.values(ofOrigin), Topics.expected(origin, 0, 20));
                assertTrue(ofOrigin.stream().allMatch(m -> m.isReplicated() != origin.equals(own)), "where " + origin + " came from");
            }
        }
        soon("nothing is left to replicate",
                () -> replicationBacklog(west, topic, "east") == 0 && replicationBacklog(east, topic, "west") == 0);
    }

    @Test
    public void messageForOneClusterStaysThere() throws Exception {
        String topic = topic("selective");
        try (Producer<String> producer = west.client().newProducer(Schema.STRING).topic(topic).create()) {
            producer.newMessage().value("local").disableReplication().send();
            producer.newMessage().value("for all").send();
        }
        assertEquals(Topics.values(readAll(east, topic, 1)), List.of("for all"));
        assertEquals(Topics.values(readAll(west, topic, 2)), List.of("local", "for all"));
    }

    @Test
    public void schemaComesAlong() throws Exception {
        String topic = topic("with-schema");
        try (Producer<BrokerTest.Measured> producer = west.client().newProducer(Schema.AVRO(BrokerTest.Measured.class))
                .topic(topic).create()) {
            BrokerTest.Measured measured = new BrokerTest.Measured();
            measured.value = 42;
            producer.send(measured);
        }
        soon("the schema is in the east", () -> east.admin().topics().getList(NAMESPACE).contains(topic)
                && east.admin().schemas().getAllSchemas(topic).size() == 1);
        try (Reader<GenericRecord> reader = east.client().newReader(Schema.AUTO_CONSUME()).topic(topic)
                .startMessageId(MessageId.earliest).create()) {
            assertEquals(reader.readNext(30, TimeUnit.SECONDS).getValue().getField("value"), 42);
        }
    }

    @Test
    public void clusterTakenOutGetsNothingMoreAndCatchesUpAfterwards() throws Exception {
        String topic = topic("taken-out");
        Topics.send(west.client(), topic, "a", 5);
        assertEquals(readAll(east, topic, 5).size(), 5);
        west.admin().topics().setReplicationClusters(topic, List.of("west"));
        soon("its position is forgotten", () -> !west.admin().topics().getInternalStats(topic).cursors.containsKey("pulsar.repl.east"));
        Topics.send(west.client(), topic, "b", 5);
        west.admin().topics().setReplicationClusters(topic, List.of("west", "east"));
        soon("it is replicated again", () -> west.admin().topics().getInternalStats(topic).cursors.containsKey("pulsar.repl.east"));
        Topics.send(west.client(), topic, "c", 5);
        List<String> there = Topics.values(readAll(east, topic, 10));
        assertEquals(there.subList(0, 5), Topics.expected("a", 0, 5));
        assertEquals(there.subList(5, 10), Topics.expected("c", 0, 5));
    }

    @Test
    public void whatAClusterMissedWhileKilledReachesItOnceAndInOrder() throws Exception {
        String topic = topic("outage");
        Topics.send(west.client(), topic, "a", 10);
        assertEquals(readAll(east, topic, 10).size(), 10);
        east.forgetClients();
        east.process().kill();
        Topics.send(west.client(), topic, "b", 30);
        soon("they wait for the east", () -> replicationBacklog(west, topic, "east") == 30);
        west.forgetClients();
        west.process().kill();
        west.process().start(SETTINGS);
        Topics.send(west.client(), topic, "c", 10);
        soon("what waited still waits", () -> replicationBacklog(west, topic, "east") == 40);
        east.process().start(SETTINGS);
        List<String> wanted = new ArrayList<>(Topics.expected("a", 0, 10));
        wanted.addAll(Topics.expected("b", 0, 30));
        wanted.addAll(Topics.expected("c", 0, 10));
        assertEquals(Topics.values(readAll(east, topic, 50)), wanted);
        soon("nothing is left to replicate", () -> replicationBacklog(west, topic, "east") == 0);
    }

    @Test
    public void replicatedSubscriptionGoesOnInTheOtherClusterNearWhereItStood() throws Exception {
        String topic = topic("subscription");
        int rounds = 12;
        List<String> sent = new ArrayList<>();
        List<String> consumed = new ArrayList<>();
        try (Consumer<String> consumer = Topics.consumer(west.client(), topic, "rs").replicateSubscriptionState(true).subscribe()) {
            for (int round = 0; round < rounds; round++) {
                long before = entries(topic);
                Topics.send(west.client(), topic, "r" + round + "-", 5);
                sent.addAll(Topics.expected("r" + round + "-", 0, 5));
                // a snapshot of both clusters' positions lies behind every round: request, answer, result
                soon("a snapshot", () -> entries(topic) >= before + 5 + 3);
            }
            soon("all is in the east", () -> replicationBacklog(west, topic, "east") == 0);
            List<Message<String>> messages = Topics.receive(consumer, sent.size() - 7);
            consumed.addAll(Topics.values(messages));
            consumer.acknowledgeCumulative(messages.get(messages.size() - 1));
            soon("the east follows", () -> eastBacklog(topic) <= 7 + 3 * 5 + 20);
        }
        assertTrue(east.admin().topics().getStats(topic).getSubscriptions().get("rs").isReplicated());
        // nobody waits for this acknowledgement: it is shown at once, and durable after the next pass over the subscriptions
        long followed = System.nanoTime();
        soon("many passes", () -> System.nanoTime() - followed > TimeUnit.SECONDS.toNanos(1));
        String stood = eastPosition(topic);
        east.forgetClients();
        east.process().kill();
        east.process().start(SETTINGS);
        assertEquals(eastPosition(topic), stood, "the position survived");
        try (Consumer<String> consumer = Topics.consumer(east.client(), topic, "rs").replicateSubscriptionState(true).subscribe()) {
            List<String> rest = new ArrayList<>();
            while (!rest.contains(sent.get(sent.size() - 1))) {
                rest.addAll(Topics.values(Topics.receive(consumer, 1)));
            }
            assertEquals(rest, sent.subList(sent.size() - rest.size(), sent.size()), "without a gap to the end");
            assertTrue(rest.size() >= 7, "nothing unconsumed is left out: " + rest);
            assertTrue(rest.size() <= 7 + 3 * 5, "not from the beginning: " + rest);
            Set<String> all = new HashSet<>(consumed);
            all.addAll(rest);
            assertEquals(all, new HashSet<>(sent));
        }
    }

    private long entries(String topic) throws Exception {
        return west.admin().topics().getInternalStats(topic).entriesAddedCounter;
    }

    /** Entries that the subscription has before it in the east, markers too; without end while it is not there. */
    private long eastBacklog(String topic) throws Exception {
        SubscriptionStats stats = east.admin().topics().getStats(topic, true).getSubscriptions().get("rs");
        return stats == null ? Long.MAX_VALUE : stats.getMsgBacklog();
    }

    private String eastPosition(String topic) throws Exception {
        return east.admin().topics().getInternalStats(topic).cursors.get("rs").markDeletePosition;
    }
}
