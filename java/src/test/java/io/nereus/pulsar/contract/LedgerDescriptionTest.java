package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.Date;
import java.util.List;
import java.util.Map;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException.MetadataNotFoundException;
import org.apache.bookkeeper.mledger.ManagedLedgerInfo;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.PersistentOfflineTopicStats;
import org.apache.pulsar.common.util.DateFormatter;
import org.testng.annotations.Test;

/** ManagedLedgerFactory: what it tells of ledgers that need not be open. */
public class LedgerDescriptionTest extends ContractTest {

    private static Position position(ManagedLedgerInfo.PositionInfo info) {
        return org.apache.bookkeeper.mledger.PositionFactory.create(info.ledgerId, info.entryId);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void existenceFollowsCreationAndDeletion(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        assertThat(await(world.factory().asyncExists(name))).isFalse();
        ManagedLedger ledger = world.open(name);
        assertThat(await(world.factory().asyncExists(name))).isTrue();
        ledger.close();
        assertThat(await(world.factory().asyncExists(name))).isTrue();
        world.factory().delete(name);
        assertThat(await(world.factory().asyncExists(name))).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void propertiesAreReadWithoutOpening(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ledger.setProperties(Map.of("a", "1", "b", "2"));
        assertThat(await(world.factory().getManagedLedgerPropertiesAsync(name)))
            .containsOnly(Map.entry("a", "1"), Map.entry("b", "2"));
        ledger.deleteProperty("a");
        ledger.close();
        assertThat(await(world.factory().getManagedLedgerPropertiesAsync(name))).containsOnly(Map.entry("b", "2"));
        assertThat(world.factory().getManagedLedgers()).doesNotContainKey(name);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theInfoOfAnAbsentLedgerIsMetadataNotFound(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        assertThat(failure(() -> world.factory().getManagedLedgerInfo(name)))
            .isInstanceOf(MetadataNotFoundException.class);
        assertThat(failure(() -> await(Factories.info(world.factory(), name))))
            .isInstanceOf(MetadataNotFoundException.class);
        assertThat(await(world.factory().asyncExists(name))).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theInfoListsLedgersCursorsAndProperties(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ledger.setProperty("k", "v");
        ManagedCursor cursor = ledger.openCursor("c");
        ledger.openCursor("fresh");
        List<Position> positions = addMany(ledger, 10);
        cursor.markDelete(positions.get(2), Map.of("p", 7L));
        ledger.close();
        for (ManagedLedgerInfo info : List.of(world.factory().getManagedLedgerInfo(name),
                await(Factories.info(world.factory(), name)))) {
            assertThat(info.properties).containsOnly(Map.entry("k", "v"));
            assertThat(info.terminatedPosition).isNull();
            assertThat(info.ledgers).hasSize(1);
            assertThat(info.ledgers.get(0).ledgerId).isEqualTo(positions.get(0).getLedgerId());
            assertThat(info.ledgers.get(0).isOffloaded).isFalse();
            assertThat(info.cursors).containsOnlyKeys("c", "fresh");
            ManagedLedgerInfo.CursorInfo told = info.cursors.get("c");
            assertThat(position(told.markDelete)).isEqualTo(positions.get(2));
            assertThat(told.properties).containsOnly(Map.entry("p", 7L));
            assertThat(DateFormatter.parse(info.creationDate)).isLessThanOrEqualTo(
                DateFormatter.parse(info.modificationDate));
            assertThat(DateFormatter.parse(told.modificationDate)).isPositive();
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theInfoOfAnOpenLedgerIsTheStoredOne(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "a");
        ManagedLedgerInfo info = world.factory().getManagedLedgerInfo(name);
        assertThat(info.ledgers).hasSize(1);
        if (storage == Storage.STOCK) { // whose metadata do not count the ledger that is being written
            assertThat(info.ledgers.get(0).entries).isNull();
            return;
        }
        assertThat(info.ledgers.get(0).timestamp).as("the open one").isZero();
        assertThat(info.ledgers.get(0).entries).isEqualTo(1);
        assertThat(info.ledgers.get(0).size).isEqualTo(1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theInfoShowsIndividualAcksAndWhereTheLedgerWasTerminated(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = ledger.openCursor("c");
        List<Position> positions = addMany(ledger, 6);
        cursor.delete(List.of(positions.get(0), positions.get(2), positions.get(3)));
        ledger.terminate();
        ledger.close();
        ManagedLedgerInfo info = world.factory().getManagedLedgerInfo(name);
        assertThat(position(info.terminatedPosition)).isEqualTo(positions.get(5));
        ManagedLedgerInfo.CursorInfo told = info.cursors.get("c");
        assertThat(position(told.markDelete)).isEqualTo(positions.get(0));
        assertThat(told.individualDeletedMessages).hasSize(1);
        assertThat(position(told.individualDeletedMessages.get(0).from)).isEqualTo(positions.get(1));
        assertThat(position(told.individualDeletedMessages.get(0).to)).isEqualTo(positions.get(3));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theOfflineBacklogCountsEntriesBytesAndEachCursor(Storage storage) throws Exception {
        World world = world(storage);
        TopicName topic = TopicName.get("persistent://public/default/offline-" + System.nanoTime());
        ManagedLedger ledger = world.open(topic.getPersistenceNamingEncoding());
        boolean cursors = storage == Storage.NEREUS; // stock waits for ever for a cursor that was closed cleanly
        List<Position> positions = addMany(ledger, 10);
        if (cursors) {
            ledger.openCursor("half", InitialPosition.Earliest).markDelete(positions.get(4));
            ledger.openCursor("none", InitialPosition.Earliest);
        }
        ledger.close();
        for (boolean accurate : new boolean[] {true, false}) {
            PersistentOfflineTopicStats stats = estimate(world, topic, accurate);
            assertThat(stats.totalMessages).isEqualTo(10);
            assertThat(stats.storageSize).isEqualTo(20);
            assertThat(stats.messageBacklog).isEqualTo(cursors ? 15 : 0);
            if (cursors) {
                assertThat(stats.cursorDetails).containsOnlyKeys("half", "none");
                assertThat(stats.cursorDetails.get("half").cursorBacklog).isEqualTo(5);
                assertThat(stats.cursorDetails.get("none").cursorBacklog).isEqualTo(10);
            }
            assertThat(stats.dataLedgerDetails).hasSize(accurate ? 1 : 0);
            assertThat(stats.statGeneratedAt).isAfterOrEqualTo(new Date(System.currentTimeMillis() - 60_000));
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theOfflineBacklogOfAnAbsentTopicIsEmpty(Storage storage) throws Exception {
        World world = world(storage);
        TopicName topic = TopicName.get("persistent://public/default/absent-" + System.nanoTime());
        PersistentOfflineTopicStats stats = estimate(world, topic, true);
        assertThat(stats.totalMessages).isZero();
        assertThat(stats.messageBacklog).isZero();
        assertThat(stats.cursorDetails).isEmpty();
        assertThat(await(world.factory().asyncExists(topic.getPersistenceNamingEncoding()))).isFalse();
    }

    private static PersistentOfflineTopicStats estimate(World world, TopicName topic, boolean accurate)
            throws Exception {
        PersistentOfflineTopicStats stats = new PersistentOfflineTopicStats(topic.toString(), "broker");
        world.factory().estimateUnloadedTopicBacklog(stats, topic, accurate,
            Arrays.asList(DigestType.CRC32C, new byte[0])); // what the broker hands over for stock's sake
        return stats;
    }
}
