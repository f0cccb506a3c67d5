package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.pulsar.broker.resources.TopicResources;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.apache.pulsar.metadata.api.Notification;
import org.apache.pulsar.metadata.api.NotificationType;
import org.testng.annotations.Test;

/** The hidden contract of the storage: Pulsar's registry of topics is the node below /managed-ledgers. */
public class RegistryNodeTest extends ContractTest {

    private static void announce(World world, String name) throws Exception {
        await(world.store().direct().put(World.registryNode(name), new byte[0], Optional.of(-1L)));
    }

    private static byte[] node(World world, String name) throws Exception {
        return await(world.store().direct().get(World.registryNode(name))).orElseThrow().getValue();
    }

    private static ManagedLedgerConfig notCreating(World world) {
        ManagedLedgerConfig config = world.config();
        config.setCreateIfMissing(false);
        return config;
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void openIfMissingMakesTheNodeThatListsTheTopic(Storage storage) throws Exception {
        World world = freshWorld(storage);
        TopicResources topics = topicResources(world);
        TopicName topic = TopicName.get("persistent://public/default/a-topic");
        assertThat(await(topics.persistentTopicExists(topic))).isFalse();
        world.open(topic.getPersistenceNamingEncoding());
        assertThat(await(topics.persistentTopicExists(topic))).isTrue();
        assertThat(await(topics.listPersistentTopicsAsync(NamespaceName.get("public/default"))))
            .containsExactly(topic.toString());
        world.factory().delete(topic.getPersistenceNamingEncoding());
        assertThat(await(topics.persistentTopicExists(topic))).isFalse();
        assertThat(await(topics.listPersistentTopicsAsync(NamespaceName.get("public/default")))).isEmpty();
    }

    /** Its constructor asks for a MetadataStore in Pulsar 4.0 and for a MetadataStoreExtended later. */
    private static TopicResources topicResources(World world) throws ReflectiveOperationException {
        return (TopicResources) TopicResources.class.getConstructors()[0].newInstance(world.store().direct());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEmptyNodeOfTheAdminToolsIsAdopted(Storage storage) throws Exception {
        World world = world(storage);
        for (ManagedLedgerConfig config : List.of(world.config(), notCreating(world))) {
            String name = world.freshName();
            announce(world, name);
            ManagedLedger ledger = world.open(name, config);
            assertThat(ledger.getNumberOfEntries()).isZero();
            add(ledger, "a");
            assertThat(node(world, name)).isNotEmpty();
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAnnouncedTopicExistsHasNoPropertiesAndAnEmptyDescription(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        announce(world, name);
        assertThat(await(world.factory().asyncExists(name))).isTrue();
        assertThat(await(world.factory().getManagedLedgerPropertiesAsync(name))).isEmpty();
        var info = await(Factories.info(world.factory(), name));
        assertThat(info.ledgers).isEmpty();
        assertThat(info.cursors).isEmpty();
        assertThat(info.properties).isNull();
        assertThat(info.terminatedPosition).isNull();
        assertThat(node(world, name)).as("looking changes nothing").isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAnnouncedTopicThatNobodyOpenedIsDeleted(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        announce(world, name);
        world.factory().delete(name);
        assertThat(await(world.store().direct().exists(World.registryNode(name)))).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aNodeMadeBetweenLookAndCreateIsNoError_case_069(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        CompletableFuture<Void> until = new CompletableFuture<>();
        world.store().delayNext(FaultyStore.puts(World.registryNode(name)), until);
        CompletableFuture<ManagedLedger> opening = Factories.open(world.factory(), name, world.config());
        Ledgers.await("the create", () -> world.store().faultsMet());
        announce(world, name);
        until.complete(null);
        if (storage == Storage.STOCK) { // fails the topic as fenced (the report of the case)
            assertThat(failure(() -> await(opening))).isInstanceOf(ManagedLedgerException.class);
            return;
        }
        add(await(opening), "a");
        assertThat(new String(node(world, name), StandardCharsets.UTF_8)).startsWith("nereus/1 ");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theNodeOfALedgerNeverHoldsWhatTheOtherStorageOpens(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        add(world.open(name), "a");
        Factories.shutdown(world.factory());
        byte[] before = node(world, name);
        try (World other = World.over(storage == Storage.STOCK ? Storage.NEREUS : Storage.STOCK, world)) {
            ManagedLedgerException refusal = failure(() -> other.open(name));
            if (storage == Storage.STOCK) {
                assertThat(refusal).hasMessageContaining(name).hasMessageContaining("stock");
                assertThat(failure(() -> other.factory().delete(name))).isInstanceOf(ManagedLedgerException.class);
            }
            assertThat(node(world, name)).isEqualTo(before);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void watchersSeeTopicsComeAndGo(Storage storage) throws Exception {
        World world = freshWorld(storage);
        List<Notification> seen = new CopyOnWriteArrayList<>();
        world.store().direct().registerListener(seen::add);
        String name = world.freshName();
        world.open(name).close();
        world.factory().delete(name);
        for (NotificationType type : List.of(NotificationType.Created, NotificationType.Deleted)) {
            Ledgers.await("the notification " + type, () -> seen.stream().anyMatch(note ->
                note.getType() == type && note.getPath().equals(World.registryNode(name))));
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aNodeThatWasLostIsMadeAgainWithoutLoss(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "a");
        ledger.close();
        await(world.store().direct().delete(World.registryNode(name), Optional.empty()));
        ManagedLedger again = world.open(name);
        if (storage == Storage.STOCK) { // the node is stock's only record of the topic
            assertThat(again.getNumberOfEntries()).isZero();
            return;
        }
        assertThat(again.getNumberOfEntries()).isEqualTo(1);
        assertThat(await(world.store().direct().exists(World.registryNode(name)))).isTrue();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void clearingANamespaceTakesTheNodesOfItsTopicsAway(Storage storage) throws Exception {
        World world = freshWorld(storage);
        TopicResources topics = topicResources(world);
        NamespaceName namespace = NamespaceName.get("public/default");
        for (int i = 0; i < 3; i++) {
            String name = world.freshName();
            ManagedLedger ledger = world.open(name);
            ledger.openCursor("c");
            ledger.delete();
        }
        await(topics.clearNamespacePersistence(namespace));
        await(topics.clearDomainPersistence(namespace));
        assertThat(await(world.store().direct().exists("/managed-ledgers/" + namespace))).isFalse();
        add(world.open(world.freshName()), "the namespace may be used again");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void propertiesForAMissingTopicAreAnEmptyMap(Storage storage) throws Exception {
        World world = world(storage);
        Map<String, String> none = await(world.factory().getManagedLedgerPropertiesAsync(world.freshName()));
        assertThat(none).isEmpty();
        none.put("the broker", "may change it");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aStoreThatDoesNotAnswerIsNotTakenForAMissingTopic(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        add(world.open(name), "a");
        world.factory().getManagedLedgers().get(name).close();
        MetadataStoreException away = new MetadataStoreException("the store is away");
        for (int call = 0; call < 4; call++) {
            world.store().failEvery(any -> true, away);
            int which = call;
            assertThat(failed(() -> {
                switch (which) {
                    case 0 -> await(world.factory().asyncExists(name));
                    case 1 -> await(world.factory().getManagedLedgerPropertiesAsync(name));
                    case 2 -> await(Factories.info(world.factory(), name));
                    default -> world.open(name, notCreating(world));
                }
            })).as("call " + call).hasStackTraceContaining("the store is away");
            world.store().reset();
        }
        assertThat(world.open(name, notCreating(world)).getNumberOfEntries()).isEqualTo(1);
    }

    private static Throwable failed(Ledgers.ThrowingRunnable body) {
        try {
            body.run();
            return null;
        } catch (Exception e) {
            return e;
        }
    }
}
