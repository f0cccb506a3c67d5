package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.CursorCalls.assertBacklog;
import static io.nereus.pulsar.contract.CursorCalls.batch;
import static io.nereus.pulsar.contract.CursorCalls.earliest;
import static io.nereus.pulsar.contract.CursorCalls.read;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Storage.STOCK;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

/** Acknowledgements of single messages of a batch: words in which a set bit is a message still unacknowledged. */
public class BatchAckContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acksOfOneBatchAddUpInAnyOrderAndTheLastOneMakesItWhole_case_045(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        Position batch = positions.get(1);
        cursor.delete(batch(batch, 0b0111));
        cursor.delete(batch(batch, 0b1110));
        cursor.delete(batch(batch, 0b0111));
        cursor.delete(batch(batch, 0b1111));
        assertThat(cursor.getDeletedBatchIndexesAsLongArray(batch)).containsExactly(0b0110);
        assertThat(cursor.getBatchPositionAckSet(batch)).containsExactly(0b0110);
        assertThat(cursor.isMessageDeleted(batch)).isFalse();
        assertBacklog(cursor, 3);
        cursor.delete(batch(batch, 0b1001));
        assertThat(cursor.isMessageDeleted(batch)).isTrue();
        assertThat(cursor.getDeletedBatchIndexesAsLongArray(batch)).as("nothing is left in part").isNull();
        assertBacklog(cursor, 2);
        assertThat(read(cursor, 10)).containsExactly("e0", "e2");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEmptyAckSetIsTheWholeEntry(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 2);
        cursor.delete(batch(positions.get(0)));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(0));
        cursor.delete(batch(positions.get(1), 0b110));
        cursor.delete(batch(positions.get(1), 0));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(1));
        assertBacklog(cursor, 0);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCumulativeAckIntoABatchAcknowledgesWhatLiesBeforeItAndRecordsTheRest(Storage storage)
            throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 4);
        cursor.markDelete(batch(positions.get(2), 0b1100));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(1));
        assertThat(cursor.getDeletedBatchIndexesAsLongArray(positions.get(2))).containsExactly(0b1100);
        assertBacklog(cursor, 2);
        cursor.markDelete(batch(positions.get(2), 0b1110));
        assertThat(cursor.getDeletedBatchIndexesAsLongArray(positions.get(2))).as("it never goes back")
            .containsExactly(0b1100);
        assertThat(read(cursor, 10)).as("it is read as long as one message is left").containsExactly("e2", "e3");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCumulativeAckKeepsWhatWasAcknowledgedOneByOne_case_045(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 2);
        cursor.delete(batch(positions.get(0), 0b0111));
        cursor.markDelete(batch(positions.get(0), 0b1100));
        if (storage == STOCK) { // replaces the bits: the fourth message comes again
            assertThat(cursor.getDeletedBatchIndexesAsLongArray(positions.get(0))).containsExactly(0b1100);
            return;
        }
        assertThat(cursor.getDeletedBatchIndexesAsLongArray(positions.get(0))).containsExactly(0b0100);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whatIsAnsweredIsACopy(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        Position batch = addMany(ledger, 1).get(0);
        long[] given = {0b1110};
        cursor.delete(batch(batch, given));
        given[0] = 0;
        Arrays.fill(cursor.getDeletedBatchIndexesAsLongArray(batch), 0);
        Arrays.fill(cursor.getBatchPositionAckSet(batch), 0);
        assertThat(cursor.getBatchPositionAckSet(batch)).containsExactly(0b1110);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void withoutBatchIndexesNothingIsRecordedInPart(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedgerConfig config = world.config();
        config.setDeletionAtBatchIndexLevelEnabled(false);
        ManagedLedger ledger = world.open(world.freshName(), config);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 4);
        cursor.delete(batch(positions.get(0), 0b10));
        assertThat(cursor.getBatchPositionAckSet(positions.get(0))).isNull();
        assertThat(cursor.getDeletedBatchIndexesAsLongArray(positions.get(0))).isNull();
        assertBacklog(cursor, 4);
        cursor.markDelete(batch(positions.get(2), 0b10));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(1));
        assertThat(cursor.getBatchPositionAckSet(positions.get(2))).isNull();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aBatchOfAnOlderLedgerAcknowledgesNoMessageOfThisOne(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 2);
        Position older = PositionFactory.create(positions.get(0).getLedgerId() - 1, 0);
        await(CursorCalls.delete(cursor, batch(older, 0b10)));
        await(CursorCalls.markDelete(cursor, batch(older, 0b10), Map.of()).exceptionally(refused -> null));
        assertThat(cursor.getBatchPositionAckSet(positions.get(0))).isNull();
        assertBacklog(cursor, 2);
        assertThat(read(cursor, 10)).containsExactly("e0", "e1");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acknowledgingPastABatchForgetsItsMessages(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        cursor.delete(batch(positions.get(0), 0b10));
        cursor.delete(batch(positions.get(2), 0b10));
        cursor.markDelete(positions.get(1));
        assertThat(cursor.getBatchPositionAckSet(positions.get(0))).isNull();
        assertThat(cursor.getBatchPositionAckSet(positions.get(2))).containsExactly(0b10);
        assertThat(cursor.getBatchPositionAckSet(positions.get(1))).as("not a batch in part").isNull();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void partlyAcknowledgedBatchesSurviveACleanClose_case_009(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 4);
        long[] wide = {-1L, 0, 1L << 40};
        cursor.delete(batch(positions.get(1), 0b1100));
        cursor.delete(batch(positions.get(2), wide));
        cursor.delete(positions.get(3));
        world.restart();
        ManagedCursor again = earliest(world.open(name), "c");
        if (storage == STOCK) { // does not read back what it writes at the close; what a write before had, it does
            assertThat(again.getBatchPositionAckSet(positions.get(1))).isIn(null, new long[] {0b1100});
            return;
        }
        assertThat(again.getBatchPositionAckSet(positions.get(1))).containsExactly(0b1100);
        assertThat(again.getBatchPositionAckSet(positions.get(2))).containsExactly(wide);
        assertThat(read(again, 10)).containsExactly("e0", "e1", "e2");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPartlyAcknowledgedBatchAloneSurvivesACrash_case_021(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        cursor.markDelete(positions.get(0));
        cursor.delete(batch(positions.get(1), 0b1110));
        world.crash();
        ManagedCursor again = earliest(world.open(name), "c");
        assertThat(again.getMarkDeletedPosition()).isEqualTo(positions.get(0));
        if (storage == STOCK) { // without a whole entry acknowledged beyond, nothing was written
            assertThat(again.getBatchPositionAckSet(positions.get(1))).isNull();
            return;
        }
        assertThat(again.getBatchPositionAckSet(positions.get(1))).containsExactly(0b1110);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anOpenWithoutBatchIndexesForgetsNoneAndTakesNoneForWhole_case_009(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        cursor.delete(batch(positions.get(1), 0b1100));
        world.restart();
        ManagedLedgerConfig without = world.config();
        without.setDeletionAtBatchIndexLevelEnabled(false);
        ManagedCursor off = earliest(world.open(name, without), "c");
        assertThat(off.getBatchPositionAckSet(positions.get(1))).isNull();
        assertThat(read(off, 10)).containsExactly("e0", "e1", "e2");
        off.delete(positions.get(2));
        world.restart();
        ManagedCursor on = earliest(world.open(name), "c");
        if (storage == STOCK) { // lost them at the first restart
            assertThat(on.getBatchPositionAckSet(positions.get(1))).isNull();
            return;
        }
        assertThat(on.getBatchPositionAckSet(positions.get(1))).containsExactly(0b1100);
        assertThat(on.isMessageDeleted(positions.get(2))).isTrue();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aBatchOfMoreThan65536MessagesIsRefusedInPartBeforeAnyEffect(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        long[] huge = new long[1025];
        Arrays.fill(huge, -1L);
        if (storage == STOCK) { // takes any size; its record in the cursor ledger grows with it
            cursor.delete(batch(positions.get(1), huge));
            assertThat(cursor.getBatchPositionAckSet(positions.get(1))).hasSize(1025);
            return;
        }
        assertThat(failure(() -> cursor.delete(List.of(positions.get(0), batch(positions.get(1), huge)))))
            .hasMessageContaining("at most 1024");
        assertThat(failure(() -> cursor.markDelete(batch(positions.get(1), huge)))).hasMessageContaining("at most 1024");
        assertThat(cursor.isMessageDeleted(positions.get(0))).as("nothing of a refused call took effect").isFalse();
        cursor.delete(batch(positions.get(1), Arrays.copyOf(huge, 1024)));
        assertThat(cursor.getBatchPositionAckSet(positions.get(1))).hasSize(1024);
    }
}
