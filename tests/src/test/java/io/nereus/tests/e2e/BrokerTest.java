package io.nereus.tests.e2e;

import static org.awaitility.Awaitility.await;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.LongRunningProcessStatus;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.common.policies.data.PersistentTopicInternalStats;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.TopicStats;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/** What a client and an operator do with a broker that stays up; one broker for all tests, topics of their own. */
public class BrokerTest {

    private TestBroker broker;

    @BeforeClass
    public void startBroker() throws Exception {
        broker = TestBroker.start();
        // what was consumed stays readable; the trimming test sets its own
        broker.admin().namespaces().setRetention("public/default", new RetentionPolicies(-1, -1));
    }

    @AfterClass(alwaysRun = true)
    public void stopBroker() throws Exception {
        if (broker != null) {
            broker.close();
        }
    }

    @Test
    public void oneLineOfTheConfigurationIsAboutNereus() throws Exception {
        List<String> lines = Files.readAllLines(broker.process().files().configuration());
        assertEquals(lines.stream().filter(line -> line.contains("io.nereus") || line.startsWith("nereus")).toList(),
                List.of("managedLedgerStorageClassName=io.nereus.pulsar.NereusManagedLedgerStorage"));
        assertEquals(lines.stream().filter(line -> line.toLowerCase().matches(".*(bookkeeper|schema|compaction).*")).toList(), List.of());
        assertTrue(Files.isDirectory(broker.process().files().data()), "data lies in the default directory");
    }

    @Test
    public void metricsStatsAndHealthAnswer() throws Exception {
        String topic = Topics.name("observed");
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            Topics.send(broker.client(), topic, "m", 10);
            consumer.acknowledge(Topics.receive(consumer, 3).get(2));

            TopicStats stats = broker.admin().topics().getStats(topic, true);
            assertEquals(stats.getMsgInCounter(), 10);
            assertEquals(stats.getSubscriptions().get("s").getMsgBacklog(), 9);
            assertTrue(stats.getStorageSize() > 0, "storage size");
            assertTrue(stats.getBacklogSize() > 0, "backlog size");

            PersistentTopicInternalStats internal = broker.admin().topics().getInternalStats(topic);
            assertEquals(internal.numberOfEntries, 10);
            assertEquals(internal.entriesAddedCounter, 10);
            assertFalse(internal.ledgers.isEmpty(), "internal stats name ledgers");
            long ledger = internal.ledgers.get(0).ledgerId;
            assertEquals(internal.lastConfirmedEntry, ledger + ":9");
            assertEquals(internal.cursors.get("s").markDeletePosition, ledger + ":-1");
            assertTrue(internal.cursors.get("s").individuallyDeletedMessages.contains(ledger + ":2"),
                    internal.cursors.get("s").individuallyDeletedMessages);

            HttpResponse<String> metrics = broker.process().get("/metrics/");
            assertEquals(metrics.statusCode(), 200, metrics.body());
            for (String wanted : List.of("pulsar_storage_size", "pulsar_subscription_back_log", "pulsar_ml_AddEntryMessagesRate",
                    "pulsar_storage_write_latency")) {
                assertTrue(metrics.body().lines().anyMatch(line -> line.startsWith(wanted)), "no " + wanted + " in /metrics");
            }
            for (String wanted : List.of("nereus_journal_segments{cluster=", "nereus_journal_bytes{", "nereus_journal_free_segments{",
                    "nereus_journal_oldest_segment_pinned{", "nereus_journal_poisoned{", "nereus_journal_checkpoint_age_seconds{",
                    "nereus_journal_replay_bytes{", "nereus_journal_syncs_total{", "nereus_memory_bytes{", "nereus_memory_limit_bytes{")) {
                assertTrue(metrics.body().lines().anyMatch(line -> line.startsWith(wanted)), "no " + wanted + " in /metrics");
            }
            assertTrue(metrics.body().lines().anyMatch(line -> line.matches("nereus_journal_poisoned\\{.*} 0\\.0")), "healthy");
            assertTrue(metrics.body().lines().anyMatch(line -> line.matches("nereus_journal_syncs_total\\{.*} [1-9].*")), "work done");
            assertEquals(broker.process().get("/metrics").statusCode(), 200);
            assertEquals(broker.process().get("/admin/v2/brokers/health").body(), "ok");
            assertEquals(broker.process().get("/admin/v2/broker-stats/topics").statusCode(), 200);
            assertEquals(broker.process().get("/admin/v2/broker-stats/mbeans").statusCode(), 200);
        }
    }

    @Test
    public void producerCreatesTopicAndDeletionRemovesItFromTheList() throws Exception {
        String topic = Topics.name("created-by-producer");
        assertFalse(broker.admin().topics().getList("public/default").contains(topic));
        Topics.send(broker.client(), topic, "m", 1);
        assertTrue(broker.admin().topics().getList("public/default").contains(topic));
        broker.admin().topics().delete(topic);
        assertFalse(broker.admin().topics().getList("public/default").contains(topic));
    }

    @Test
    public void unloadedTopicKeepsMessagesHolesAndPartlyAckedBatches() throws Exception {
        String topic = Topics.name("unloaded");
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscriptionType(SubscriptionType.Shared).subscribe();
             Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).batchingMaxMessages(10)
                     .batchingMaxPublishDelay(1, TimeUnit.SECONDS).create()) {
            List<CompletableFuture<MessageId>> sends = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                sends.add(producer.sendAsync("m" + i));
            }
            producer.flush();
            assertTrue(sends.stream().anyMatch(id -> ((MessageIdAdv) id.join()).getBatchIndex() > 0), "no message came in a batch");
            Set<String> kept = new HashSet<>();
            for (Message<String> message : Topics.receive(consumer, 100)) {
                int number = Integer.parseInt(message.getValue().substring(1));
                if (number % 3 == 0 || number / 10 == 4) {      // holes in every batch, and one batch wholly
                    consumer.acknowledge(message);
                } else {
                    kept.add(message.getValue());
                }
            }
            broker.admin().topics().unload(topic);
            assertEquals(new HashSet<>(Topics.values(Topics.receive(consumer, kept.size()))), kept);
            assertNull(consumer.receive(300, TimeUnit.MILLISECONDS), "nothing that was acknowledged comes again");
        }
        assertEquals(Topics.readAll(broker.client(), topic, MessageId.earliest), Topics.expected("m", 0, 100));
    }

    @Test
    public void recreatedTopicIsEmptyAndItsLedgerIdsAreLarger() throws Exception {
        String topic = Topics.name("recreated");
        long before = -1;
        for (int life = 0; life < 3; life++) {
            List<MessageId> ids = Topics.send(broker.client(), topic, "life" + life + "-", 5);
            assertEquals(Topics.readAll(broker.client(), topic, MessageId.earliest), Topics.expected("life" + life + "-", 0, 5));
            long ledger = ((MessageIdAdv) ids.get(0)).getLedgerId();
            assertTrue(ledger > before, "ledger " + ledger + " of life " + life + " is not above " + before);
            before = ((MessageIdAdv) ids.get(4)).getLedgerId();
            broker.admin().topics().delete(topic, true);
        }
    }

    @Test
    public void partitionedTopicKeepsTheOrderOfEachKey() throws Exception {
        String topic = Topics.name("partitioned");
        broker.admin().topics().createPartitionedTopic(topic, 3);
        try (Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).create()) {
            for (int i = 0; i < 90; i++) {
                producer.newMessage().key("k" + i % 9).value("m" + i).sendAsync();
            }
            producer.flush();
        }
        List<String> seen = new ArrayList<>();
        for (int partition = 0; partition < 3; partition++) {
            int[] last = new int[9];
            for (String value : Topics.readAll(broker.client(), topic + "-partition-" + partition, MessageId.earliest)) {
                int number = Integer.parseInt(value.substring(1));
                assertTrue(number >= last[number % 9], value + " came after m" + last[number % 9]);
                last[number % 9] = number;
                seen.add(value);
            }
        }
        assertEquals(new HashSet<>(seen), new HashSet<>(Topics.expected("m", 0, 90)));
        assertEquals(seen.size(), 90);
        broker.admin().topics().updatePartitionedTopic(topic, 4);
        assertEquals(broker.admin().topics().getPartitionedTopicMetadata(topic).partitions, 4);
        Topics.send(broker.client(), topic + "-partition-3", "new", 1);
        broker.admin().topics().deletePartitionedTopic(topic, true);
        assertFalse(broker.admin().topics().getList("public/default").stream().anyMatch(t -> t.startsWith(topic + "-partition")));
    }

    /** A schema, one that only adds to it, and one that contradicts it. */
    public static class Measured {
        public String sensor;
        public int value;
    }

    /** Compatible with {@link Measured}. */
    public static class MeasuredWithUnit {
        public String sensor;
        public int value;
        public String unit;
    }

    /** Not compatible with {@link Measured}. */
    public static class MeasuredAsText {
        public String sensor;
        public List<String> value;
    }

    @Test
    public void schemasAreVersionedAndAnIncompatibleOneIsRefused() throws Exception {
        String topic = Topics.name("schemas");
        try (Producer<Measured> producer = broker.client().newProducer(Schema.AVRO(Measured.class)).topic(topic).create()) {
            Measured measured = new Measured();
            measured.sensor = "a";
            measured.value = 7;
            producer.send(measured);
        }
        try (Producer<MeasuredWithUnit> producer = broker.client().newProducer(Schema.AVRO(MeasuredWithUnit.class)).topic(topic).create()) {
            MeasuredWithUnit measured = new MeasuredWithUnit();
            measured.sensor = "b";
            measured.value = 8;
            measured.unit = "m";
            producer.send(measured);
        }
        expectThrows(PulsarClientException.IncompatibleSchemaException.class,
                () -> broker.client().newProducer(Schema.AVRO(MeasuredAsText.class)).topic(topic).create());
        assertEquals(broker.admin().schemas().getAllSchemas(topic).size(), 2);
        try (Reader<GenericRecord> reader = broker.client().newReader(Schema.AUTO_CONSUME()).topic(topic)
                .startMessageId(MessageId.earliest).create()) {
            assertEquals(reader.readNext(20, TimeUnit.SECONDS).getValue().getField("value"), 7);
            assertEquals(reader.readNext(20, TimeUnit.SECONDS).getValue().getField("unit"), "m");
        }
    }

    @Test
    public void readersStartAtIdsAndTimesAndSeek() throws Exception {
        String topic = Topics.name("seeking");
        List<MessageId> ids = Topics.send(broker.client(), topic, "a", 10);
        long between = System.currentTimeMillis() + 1;
        await().until(() -> System.currentTimeMillis() > between);
        ids.addAll(Topics.send(broker.client(), topic, "b", 10));
        assertEquals(Topics.readAll(broker.client(), topic, ids.get(14)), Topics.expected("b", 5, 10));
        assertEquals(Topics.readAll(broker.client(), topic, MessageId.latest), List.of());
        try (Reader<String> reader = broker.client().newReader(Schema.STRING).topic(topic).startMessageId(MessageId.latest)
                .startMessageIdInclusive().create()) {
            assertEquals(Topics.readAll(reader), List.of("b9"));
            reader.seek(between);
            awaitConnected(reader);
            assertEquals(Topics.readAll(reader), Topics.expected("b", 0, 10));
            seek(reader, ids.get(18));
            assertEquals(Topics.readAll(reader), Topics.expected("b", 8, 10));
            seek(reader, MessageId.earliest);
            assertEquals(Topics.readAll(reader).size(), 20);
        }
    }

    private static void seek(Reader<?> reader, MessageId id) throws PulsarClientException {
        reader.seek(id);
        awaitConnected(reader);
    }

    /** A seek disconnects the reader; asked before it is back, the client library fails instead of waiting. */
    private static void awaitConnected(Reader<?> reader) {
        await().atMost(Duration.ofSeconds(20)).until(reader::isConnected);
    }

    @Test
    public void operatorResetsSkipsPeeksAndExpires() throws Exception {
        String topic = Topics.name("operated");
        broker.admin().topics().createNonPartitionedTopic(topic);
        broker.admin().topics().createSubscription(topic, "s", MessageId.earliest);
        List<MessageId> ids = Topics.send(broker.client(), topic, "m", 20);
        assertEquals(backlog(topic), 20);
        assertEquals(new String(broker.admin().topics().peekMessages(topic, "s", 1).get(0).getData()), "m0");
        assertEquals(new String(broker.admin().topics().examineMessage(topic, "latest", 1).getData()), "m19");
        MessageIdAdv seventh = (MessageIdAdv) ids.get(7);
        assertEquals(new String(broker.admin().topics().getMessagesById(topic, seventh.getLedgerId(), seventh.getEntryId()).get(0).getData()), "m7");
        broker.admin().topics().skipMessages(topic, "s", 5);
        assertEquals(backlog(topic), 15);
        broker.admin().topics().skipAllMessages(topic, "s");
        assertEquals(backlog(topic), 0);
        broker.admin().topics().resetCursor(topic, "s", ids.get(12));
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            assertEquals(Topics.values(Topics.receive(consumer, 8)), Topics.expected("m", 12, 20));
            broker.admin().topics().resetCursor(topic, "s", 0);
            assertEquals(Topics.values(Topics.receive(consumer, 20)), Topics.expected("m", 0, 20));
        }
        broker.admin().topics().expireMessages(topic, "s", ids.get(9), false);
        await().atMost(Duration.ofSeconds(20)).until(() -> backlog(topic) == 10);
        broker.admin().topics().deleteSubscription(topic, "s");
        assertEquals(broker.admin().topics().getSubscriptions(topic), List.of());
    }

    @Test
    public void lastMessageIdStaysWhenEverythingIsConsumedAndTrimmed() throws Exception {
        String namespace = "public/trimmed";
        broker.admin().namespaces().createNamespace(namespace);       // retention: none
        String topic = "persistent://" + namespace + "/consumed";
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            List<MessageId> ids = Topics.send(broker.client(), topic, "m", 20);
            consumer.acknowledgeCumulative(Topics.receive(consumer, 20).get(19));
            broker.admin().topics().trimTopic(topic);
            broker.admin().topics().unload(topic);
            assertEquals(broker.admin().topics().getLastMessageId(topic).toString(), ids.get(19).toString());
            assertEquals(Topics.readAll(broker.client(), topic, MessageId.latest), List.of());
            List<MessageId> next = Topics.send(broker.client(), topic, "n", 1);
            assertTrue(next.get(0).compareTo(ids.get(19)) > 0, next + " after " + ids);
            assertEquals(Topics.values(Topics.receive(consumer, 1)), List.of("n0"));
        }
    }

    @Test
    public void truncatedTopicIsEmptyForReadersAndGoesOn() throws Exception {
        String topic = Topics.name("truncated");
        Topics.send(broker.client(), topic, "old", 10);
        broker.admin().topics().createSubscription(topic, "s", MessageId.earliest);
        broker.admin().topics().truncate(topic);
        await().atMost(Duration.ofSeconds(20)).until(() -> backlog(topic) == 0);
        Topics.send(broker.client(), topic, "new", 2);
        assertEquals(Topics.readAll(broker.client(), topic, MessageId.earliest), Topics.expected("new", 0, 2));
    }

    @Test
    public void terminatedTopicRefusesMessagesAndTellsReadersItsEnd() throws Exception {
        String topic = Topics.name("terminated");
        try (Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).create();
             Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscribe()) {
            MessageId last = producer.send("m0");
            assertEquals(broker.admin().topics().terminateTopic(topic).toString(), last.toString());
            expectThrows(PulsarClientException.TopicTerminatedException.class, () -> producer.send("m1"));
            consumer.acknowledge(Topics.receive(consumer, 1).get(0));
            await().atMost(Duration.ofSeconds(20)).until(consumer::hasReachedEndOfTopic);
            broker.admin().topics().unload(topic);
            expectThrows(PulsarClientException.class, () -> Topics.send(broker.client(), topic, "m", 1));
            assertEquals(Topics.readAll(broker.client(), topic, MessageId.earliest), List.of("m0"));
        }
    }

    @Test
    public void compactedReaderReadsThePlainTopicAndCompactionIsRefusedByName() throws Exception {
        String topic = Topics.name("compacted");
        try (Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).enableBatching(false).create()) {
            for (int i = 0; i < 6; i++) {
                producer.newMessage().key("k" + i % 2).value("m" + i).send();
            }
        }
        try (Reader<String> reader = broker.client().newReader(Schema.STRING).topic(topic).readCompacted(true)
                .startMessageId(MessageId.earliest).create()) {
            assertEquals(Topics.readAll(reader), Topics.expected("m", 0, 6));
        }
        broker.admin().topics().triggerCompaction(topic);
        await().atMost(Duration.ofSeconds(20)).until(
                () -> broker.admin().topics().compactionStatus(topic).status == LongRunningProcessStatus.Status.ERROR);
        assertTrue(broker.admin().topics().compactionStatus(topic).lastError.toLowerCase().contains("compaction"),
                broker.admin().topics().compactionStatus(topic).lastError);
    }

    @Test
    public void rejectedMessagesComeAgainAndDelayedOnesLater() throws Exception {
        String topic = Topics.name("redelivered");
        try (Consumer<String> consumer = Topics.consumer(broker.client(), topic, "s").subscriptionType(SubscriptionType.Shared)
                     .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe();
             Producer<String> producer = broker.client().newProducer(Schema.STRING).topic(topic).enableBatching(false).create()) {
            producer.send("rejected");
            Message<String> first = Topics.receive(consumer, 1).get(0);
            consumer.negativeAcknowledge(first);
            Message<String> again = Topics.receive(consumer, 1).get(0);
            assertEquals(again.getMessageId().toString(), first.getMessageId().toString());
            assertTrue(again.getRedeliveryCount() >= 1, "redelivery count");
            consumer.acknowledge(again);
            long sent = System.nanoTime();
            producer.newMessage().value("delayed").deliverAfter(3, TimeUnit.SECONDS).send();
            producer.send("at once");
            assertEquals(Topics.values(Topics.receive(consumer, 2)), List.of("at once", "delayed"));
            // the broker may be early by its tick of one second
            assertTrue(System.nanoTime() - sent >= TimeUnit.MILLISECONDS.toNanos(1_900), "the delayed message came at once");
        }
    }

    @Test
    public void messageAboveTheLimitIsRefusedAndTheNextIsStored() throws Exception {
        String topic = Topics.name("too-large");
        try (Producer<byte[]> producer = broker.client().newProducer().topic(topic).enableBatching(false).create()) {
            PulsarClientException refusal = expectThrows(PulsarClientException.InvalidMessageException.class,
                    () -> producer.send(new byte[5 * 1024 * 1024 + 1]));
            assertTrue(refusal.getMessage().contains("5242880"), refusal.getMessage());
            producer.send(new byte[5 * 1024 * 1024 - 1024]);
        }
        try (Reader<byte[]> reader = broker.client().newReader().topic(topic).startMessageId(MessageId.earliest).create()) {
            assertEquals(reader.readNext(20, TimeUnit.SECONDS).getData().length, 5 * 1024 * 1024 - 1024);
            assertFalse(reader.hasMessageAvailable());
        }
    }

    @Test
    public void topicThatDoesNotExistIsNotFound() {
        expectThrows(PulsarAdminException.NotFoundException.class, () -> broker.admin().topics().getStats(Topics.name("absent")));
        expectThrows(PulsarAdminException.NotFoundException.class, () -> broker.admin().topics().delete(Topics.name("absent")));
    }

    private long backlog(String topic) throws PulsarAdminException, PulsarClientException {
        return broker.admin().topics().getStats(topic, true).getSubscriptions().get("s").getMsgBacklog();
    }
}
