package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.CursorCalls.assertBacklog;
import static io.nereus.pulsar.contract.CursorCalls.awaitAll;
import static io.nereus.pulsar.contract.CursorCalls.delete;
import static io.nereus.pulsar.contract.CursorCalls.earliest;
import static io.nereus.pulsar.contract.CursorCalls.markDelete;
import static io.nereus.pulsar.contract.CursorCalls.read;
import static io.nereus.pulsar.contract.CursorCalls.reset;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Storage.STOCK;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.testng.annotations.Test;

/** What of a cursor is there again after a restart or a kill. */
public class AckPersistContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acksOfBothKindsSurviveARestartAndReadingGoesOnAtTheFirstHole(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 10);
        cursor.markDelete(positions.get(2));
        cursor.delete(List.of(positions.get(4), positions.get(6), positions.get(7)));
        assertThat(read(cursor, 3)).as("what was read is not remembered").containsExactly("e3", "e5", "e8");
        world.restart();
        ManagedCursor again = earliest(world.open(name), "c");
        assertThat(again.getMarkDeletedPosition()).isEqualTo(positions.get(2));
        assertThat(again.getPersistentMarkDeletedPosition()).isEqualTo(positions.get(2));
        assertThat(again.getReadPosition()).isEqualTo(positions.get(3));
        assertThat(read(again, 100)).containsExactly("e3", "e5", "e8", "e9");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void thePersistentMarkDeleteIsTheAnsweredOne(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 50);
        for (Position position : positions) {
            CompletableFuture<Void> answer = markDelete(cursor, position, Map.of());
            Position persisted = cursor.getPersistentMarkDeletedPosition();
            assertThat(persisted == null || persisted.compareTo(position) <= 0).isTrue();
            await(answer);
            assertThat(cursor.getPersistentMarkDeletedPosition()).isEqualTo(position);
        }
        world.crash();
        assertThat(earliest(world.open(name), "c").getMarkDeletedPosition()).isEqualTo(positions.get(49));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAnsweredAckSurvivesAKillWhateverTheRate_case_007(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedgerConfig config = world.config();
        config.setThrottleMarkDelete(0.1);
        ManagedLedger ledger = world.open(name, config);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 4);
        cursor.markDelete(positions.get(0));
        cursor.markDelete(positions.get(1));
        cursor.markDelete(positions.get(2));
        world.crash();
        Position found = earliest(world.open(name, config), "c").getMarkDeletedPosition();
        // Stock answers throttled acks before anything is written.
        assertThat(found).isEqualTo(positions.get(storage == STOCK ? 0 : 2));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theLastAcksBeforeTheTrafficStopsSurviveAKill_case_027(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedgerConfig config = world.config();
        config.setThrottleMarkDelete(0.1);
        ManagedLedger ledger = world.open(name, config);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 30);
        cursor.delete(positions.get(1));
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        for (int i = 4; i < 30; i += 3) {
            answers.add(delete(cursor, positions.get(i)));
        }
        awaitAll(answers);
        world.crash();
        ManagedCursor again = earliest(world.open(name, config), "c");
        long kept = positions.stream().filter(again::isMessageDeleted).count();
        if (storage == STOCK) { // keeps them in memory until the next flush
            assertThat(kept).isLessThan(10);
            return;
        }
        assertThat(kept).isEqualTo(10);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void moreHolesThanTheConfiguredNumberSurvive_case_008(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedgerConfig config = world.config();
        config.setMaxUnackedRangesToPersist(10);
        config.setMaxBatchDeletedIndexToPersist(10);
        ManagedLedger ledger = world.open(name, config);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 60);
        assertThat(cursor.isCursorDataFullyPersistable()).isTrue();
        for (int i = 1; i < 60; i += 2) {
            cursor.delete(positions.get(i));
        }
        for (int i = 0; i < 60; i += 2) {
            cursor.delete(CursorCalls.batch(positions.get(i), 0b10));
        }
        boolean complete = cursor.isCursorDataFullyPersistable();
        world.restart();
        ManagedCursor again = earliest(world.open(name, config), "c");
        long kept = positions.stream().filter(again::isMessageDeleted).count();
        assertThat(complete).as("at this number a broker that is told to stops dispatching").isFalse();
        if (storage == STOCK) { // drops what is above
            assertThat(kept).isLessThan(30);
            return;
        }
        assertThat(kept).as("there is no number at which acks are dropped").isEqualTo(30);
        assertThat(positions.stream().filter(p -> again.getBatchPositionAckSet(p) != null).count()).isEqualTo(30);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acksSurviveATakeOverByAnotherBroker(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 6);
        cursor.markDelete(positions.get(1));
        cursor.delete(positions.get(3));
        ManagedLedger taken = world.secondBroker().open(name, world.config());
        ManagedCursor theirs = earliest(taken, "c");
        assertThat(theirs.getMarkDeletedPosition()).isEqualTo(positions.get(1));
        assertThat(theirs.isMessageDeleted(positions.get(3))).isTrue();
        theirs.delete(positions.get(2));
        if (storage == STOCK) { // its mock of bookies may let the old owner's ack through, which the new one never sees
            assertThat(theirs.getMarkDeletedPosition()).isEqualTo(positions.get(3));
            return;
        }
        assertThat(failure(() -> cursor.markDelete(positions.get(5)))).isNotNull();
        assertThat(theirs.getMarkDeletedPosition()).isEqualTo(positions.get(3));
        assertBacklog(theirs, 2);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acksDuringAnUnloadAreEachAnsweredAndTheGoodOnesKept_case_087(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 200);
        cursor.delete(positions.get(0));
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        Thread acks = new Thread(() -> {
            for (int i = 1; i < 200; i++) {
                synchronized (answers) {
                    answers.add(delete(cursor, positions.get(i)));
                }
            }
        });
        acks.start();
        CompletableFuture<Void> closed = CompletableFuture.runAsync(() -> {
            try {
                ledger.close();
            } catch (InterruptedException | ManagedLedgerException e) {
                throw new IllegalStateException(e);
            }
        });
        acks.join();
        if (storage == STOCK) { // its close may fail while a cursor ledger is made; what was asked of it last is lost
            await(closed.exceptionally(failed -> null));
            assertThat(answers).hasSize(199);
            return;
        }
        await(closed);
        List<Position> kept = new ArrayList<>();
        for (int i = 0; i < 199; i++) {
            boolean[] good = {true};
            await(answers.get(i).exceptionally(refused -> {
                good[0] = false;
                return null;
            }));
            if (good[0]) {
                kept.add(positions.get(i + 1));
            }
        }
        ManagedCursor again = earliest(world.open(name), "c");
        assertThat(kept).allMatch(again::isMessageDeleted);
        assertBacklog(again, 199 - kept.size());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whatComesAfterACreationOrResetAtTheEndIsDeliveredAfterAKill_case_010(Storage storage)
            throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ledger.openCursor("created", InitialPosition.Latest);
        ManagedCursor moved = earliest(ledger, "reset");
        ManagedCursor placed = earliest(ledger, "placed");
        List<Position> positions = addMany(ledger, 3);
        await(reset(moved, PositionFactory.LATEST));
        placed.markDelete(positions.get(2));
        await(reset(placed, positions.get(1)));
        add(ledger, "e3");
        world.crash();
        ManagedLedger again = world.open(name);
        assertThat(read(again.openCursor("created"), 10)).containsExactly("e0", "e1", "e2", "e3");
        assertThat(read(again.openCursor("reset"), 10)).containsExactly("e3");
        assertThat(read(again.openCursor("placed"), 10)).containsExactly("e1", "e2", "e3");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theFirstOperationAfterAReopenIsKept_case_085(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        earliest(ledger, "ack");
        ManagedCursor moved = earliest(ledger, "reset");
        List<Position> positions = addMany(ledger, 6);
        moved.markDelete(positions.get(4));
        world.restart();
        ManagedLedger second = world.open(name);
        await(reset(second.openCursor("reset"), positions.get(2)));
        second.openCursor("ack").delete(positions.get(3));
        world.crash();
        ManagedLedger third = world.open(name);
        assertThat(read(third.openCursor("reset"), 10)).containsExactly("e2", "e3", "e4", "e5");
        assertThat(third.openCursor("ack").isMessageDeleted(positions.get(3))).isTrue();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCursorThatCannotBeReadNowIsNotTakenForAnEmptyOne_case_014(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 20);
        for (int i = 1; i < 20; i += 2) {
            cursor.delete(positions.get(i));
        }
        world.restart();
        String unread = storage == STOCK ? World.registryNode(name) + "/c" : World.registryNode(name);
        world.store().failNext(FaultyStore.gets(unread), new MetadataStoreException("the store does not answer"));
        assertThat(failure(() -> world.open(name))).isNotNull();
        assertThat(world.store().faultsMet()).isTrue();
        ManagedCursor again = earliest(world.open(name), "c");
        assertBacklog(again, 10);
        assertThat(positions.stream().filter(again::isMessageDeleted).count()).isEqualTo(10);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aMetadataStoreThatFailsLosesNoAck_case_029_case_030_case_031(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 100);
        world.store().reset();
        world.store().failEvery(FaultyStore.puts("/"), new MetadataStoreException("the store does not answer"));
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            answers.add(markDelete(cursor, positions.get(i), Map.of()));
            answers.add(delete(cursor, positions.get(51 + i % 40)));
        }
        if (storage == STOCK) { // cannot switch to a cursor ledger, and says so
            assertThat(failure(() -> awaitAll(answers))).isNotNull();
            return;
        }
        awaitAll(answers);
        assertThat(world.store().calls()).as("an ack asks nothing of the metadata store").noneMatch(
            call -> call.operation() == FaultyStore.Operation.PUT);
        world.store().reset();
        world.crash();
        ManagedCursor again = earliest(world.open(name), "c");
        assertThat(again.getMarkDeletedPosition()).isEqualTo(positions.get(49));
        assertBacklog(again, 10);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void twoHundredCursorsWithHolesOpenInSeconds_case_082(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        List<ManagedCursor> cursors = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            cursors.add(earliest(ledger, "c" + i));
        }
        List<Position> positions = addMany(ledger, 1000);
        List<Position> holes = new ArrayList<>();
        for (int i = 1; i < 1000; i += 2) {
            holes.add(positions.get(i));
        }
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        for (ManagedCursor cursor : cursors) {
            answers.add(delete(cursor, holes));
        }
        awaitAll(answers);
        world.restart();
        long start = System.nanoTime();
        ManagedLedger again = world.open(name);
        assertThat(System.nanoTime() - start).as("nanoseconds to open").isLessThan(Ledgers.PATIENCE.toNanos() / 3);
        int found = 0;
        for (ManagedCursor cursor : again.getCursors()) {
            assertBacklog(cursor, 500);
            found++;
        }
        assertThat(found).as("every durable cursor is there when the open completes").isEqualTo(200);
    }
}
