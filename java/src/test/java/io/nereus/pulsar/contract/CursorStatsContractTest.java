package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.CursorCalls.earliest;
import static io.nereus.pulsar.contract.CursorCalls.read;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Storage.STOCK;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursorMXBean;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats.CursorStats;
import org.testng.annotations.Test;

/** The 13 members of a cursor's bean, and its part of the internal statistics. */
public class CursorStatsContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theBeanNamesCursorAndLedger(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursorMXBean bean = earliest(ledger, "c").getStats();
        assertThat(bean.getName()).isEqualTo("c");
        assertThat(bean.getLedgerName()).isEqualTo(ledger.getName());
        assertThat(ledger.newNonDurableCursor(PositionFactory.EARLIEST, "r").getStats().getName()).isEqualTo("r");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void persistsAndTheirBytesAreCounted(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        ManagedCursorMXBean bean = cursor.getStats();
        List<Position> positions = addMany(ledger, 6);
        assertThat(bean.getPersistLedgerSucceed()).isZero();
        cursor.markDelete(positions.get(0));
        cursor.delete(positions.get(2));
        // Stock also counts the first entry of the cursor ledger that it makes for the first ack.
        assertThat(bean.getPersistLedgerSucceed()).isEqualTo(storage == STOCK ? 3 : 2);
        assertThat(bean.getPersistLedgerErrors()).isZero();
        assertThat(bean.getWriteCursorLedgerSize()).isPositive();
        assertThat(bean.getWriteCursorLedgerLogicalSize()).isPositive()
            .isLessThanOrEqualTo(bean.getWriteCursorLedgerSize());
        assertThat(bean.getReadCursorLedgerSize()).as("nothing was recovered").isZero();
        world.crash();
        assertThat(earliest(world.open(name), "c").getStats().getReadCursorLedgerSize())
            .as("bytes read to recover").isPositive();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPersistThatFailsIsCounted(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        cursor.markDelete(positions.get(0));
        if (storage == STOCK) { // its mock of bookies lets no write of a cursor fail on demand
            assertThat(cursor.getStats().getPersistLedgerErrors()).isZero();
            return;
        }
        world.secondBroker().open(name, world.config());
        assertThat(failure(() -> cursor.markDelete(positions.get(1)))).isNotNull();
        assertThat(cursor.getStats().getPersistLedgerErrors()).isEqualTo(1);
        assertThat(cursor.getStats().getPersistLedgerSucceed()).isEqualTo(1);
    }

    /** "Zookeeper" is the metadata store, to which Nereus writes nothing of a cursor: these two stay 0 by themselves. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyMemberThatIsToldSomethingShowsIt(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursorMXBean bean = earliest(ledger, "c").getStats();
        long written = bean.getPersistZookeeperSucceed();
        bean.persistToZookeeper(true);
        bean.persistToZookeeper(false);
        bean.persistToLedger(true);
        bean.persistToLedger(false);
        bean.addWriteCursorLedgerSize(70);
        bean.addReadCursorLedgerSize(30);
        assertThat(bean.getPersistZookeeperSucceed()).isEqualTo(written + 1);
        assertThat(bean.getPersistZookeeperErrors()).isEqualTo(1);
        assertThat(bean.getPersistLedgerSucceed()).isEqualTo(1);
        assertThat(bean.getPersistLedgerErrors()).isEqualTo(1);
        assertThat(bean.getWriteCursorLedgerLogicalSize()).isEqualTo(70);
        assertThat(bean.getWriteCursorLedgerSize()).as("one copy").isEqualTo(70);
        assertThat(bean.getReadCursorLedgerSize()).isEqualTo(30);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theInternalStatisticsOfACursorAreItsState(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 8);
        read(cursor, 3);
        cursor.markDelete(positions.get(0), Map.of("p", 5L));
        cursor.delete(List.of(positions.get(2), positions.get(4), positions.get(5)));
        CursorStats stats = cursor.getCursorStats();
        assertThat(stats.markDeletePosition).isEqualTo(positions.get(0).toString());
        assertThat(stats.readPosition).isEqualTo(cursor.getReadPosition().toString());
        assertThat(stats.waitingReadOp).isFalse();
        assertThat(stats.pendingReadOps).isZero();
        assertThat(stats.messagesConsumedCounter).isEqualTo(4);
        assertThat(stats.individuallyDeletedMessages).isEqualTo("[(" + positions.get(1) + ".." + positions.get(2)
            + "],(" + positions.get(3) + ".." + positions.get(5) + "]]");
        assertThat(stats.lastLedgerSwitchTimestamp).isNotBlank();
        assertThat(stats.state).isEqualTo("Open");
        assertThat(stats.active).isTrue();
        assertThat(stats.numberOfEntriesSinceFirstNotAckedMessage)
            .isEqualTo(cursor.getNumberOfEntriesSinceFirstNotAckedMessage());
        assertThat(stats.totalNonContiguousDeletedMessagesRange).isEqualTo(2);
        assertThat(stats.properties).isEqualTo(Map.of("p", 5L));
        if (storage == STOCK) { // the ledger that holds the acks; Nereus has none
            assertThat(stats.cursorLedger).isNotNegative();
        } else {
            assertThat(stats.cursorLedger).isEqualTo(-1);
            assertThat(stats.cursorLedgerLastEntry).isEqualTo(-1);
        }
        assertThat(await(ledger.getManagedLedgerInternalStats(false)).cursors.get("c").markDeletePosition)
            .isEqualTo(stats.markDeletePosition);
        cursor.close();
        assertThat(cursor.getCursorStats().state).isEqualTo("Closed");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theStoredSizeOfTheHolesIsKnown(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 20);
        assertThat(cursor.getNonContiguousDeletedMessagesRangeSerializedSize()).isZero();
        for (int i = 1; i < 20; i += 2) {
            cursor.delete(positions.get(i));
        }
        assertThat(cursor.getNonContiguousDeletedMessagesRangeSerializedSize()).isPositive();
        if (storage == STOCK) { // counts what it wrote last
            return;
        }
        cursor.clearBacklog();
        assertThat(cursor.getNonContiguousDeletedMessagesRangeSerializedSize()).isZero();
    }

    /** The broker asks this to find out whether a subscription that has a backlog stands still. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReadPositionThatMovedOrStandsAtTheTailCountsAsProgress(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursor cursor = earliest(ledger, "c");
        addMany(ledger, 5);
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("asked for the first time").isTrue();
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("it stands").isFalse();
        read(cursor, 2);
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("it moved").isTrue();
        assertThat(cursor.checkAndUpdateReadPositionChanged()).isFalse();
        read(cursor, 10);
        assertThat(cursor.checkAndUpdateReadPositionChanged()).isTrue();
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("at the tail").isTrue();
    }

    /** Entries that a compacted view served: they move nothing of the cursor. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readsServedElsewhereAreCountedAndMoveNothing(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursor cursor = earliest(ledger, "c");
        addMany(ledger, 3);
        Position before = cursor.getReadPosition();
        cursor.updateReadStats(1000, 5000);
        assertThat(cursor.getReadPosition()).isEqualTo(before);
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(3);
        if (storage != STOCK) { // stock counts them for itself and shows them nowhere
            Ledgers.await("the rate of reads", () -> ledger.getStats().getReadEntriesRate() > 0);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theBytesReadToRecoverAMarkDeleteAreCounted(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        cursor.markDelete(addMany(ledger, 3).get(1));
        world.crash();
        ManagedCursor again = earliest(world.open(name), "c");
        assertThat(again.getStats().getReadCursorLedgerSize()).isPositive();
    }
}
