package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.CursorCalls.assertBacklog;
import static io.nereus.pulsar.contract.CursorCalls.delete;
import static io.nereus.pulsar.contract.CursorCalls.drop;
import static io.nereus.pulsar.contract.CursorCalls.earliest;
import static io.nereus.pulsar.contract.CursorCalls.open;
import static io.nereus.pulsar.contract.CursorCalls.read;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Storage.STOCK;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.StreamSupport;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorNotFoundException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** How cursors are made, named, closed and deleted. */
public class CursorLifeContractTest extends ContractTest {

    private static List<String> names(ManagedLedger ledger) {
        return StreamSupport.stream(ledger.getCursors().spliterator(), false).map(ManagedCursor::getName).toList();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCursorKnowsItsNameItsLedgerAndThatItIsDurable(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "r");
        assertThat(cursor.getName()).isEqualTo("c");
        assertThat(cursor.getManagedLedger()).isSameAs(ledger);
        assertThat(cursor.isDurable()).isTrue();
        assertThat(cursor.isClosed()).isFalse();
        assertThat(cursor.toString()).contains("c").contains(ledger.getName());
        assertThat(reader.isDurable()).isFalse();
        assertThat(names(ledger)).containsExactlyInAnyOrder("c", "r");
        assertThat(cursor.getManagedCursorAttributes()).isSameAs(cursor.getManagedCursorAttributes());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aNewCursorIsThereAfterAKillOnceItsOpenIsAnswered(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        addMany(ledger, 3);
        ManagedCursor last = ledger.openCursor("last");
        Position place = last.getMarkDeletedPosition();
        earliest(ledger, "first");
        ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        world.crash();
        ManagedLedger again = world.open(name);
        assertThat(names(again)).containsExactlyInAnyOrder("last", "first");
        assertThat(again.openCursor("last").getMarkDeletedPosition()).isEqualTo(place);
        assertBacklog(again.openCursor("first"), 3);
        assertThat(read(again.openCursor("first"), 10)).containsExactly("e0", "e1", "e2");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void openingAnExistingCursorAnswersTheSameObject(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        assertThat(ledger.openCursor("c", InitialPosition.Latest)).isSameAs(cursor);
        assertThat(ledger.newNonDurableCursor(PositionFactory.EARLIEST, "c")).isSameAs(cursor);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void concurrentOpensOfANameShareOneCursor_case_070(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Set<ManagedCursor> found = ConcurrentHashMap.newKeySet();
        List<Thread> threads = new ArrayList<>();
        List<CompletableFuture<ManagedCursor>> opens = new ArrayList<>();
        for (int t = 0; t < 50; t++) {
            threads.add(new Thread(() -> {
                CompletableFuture<ManagedCursor> open = open(ledger, "s").whenComplete((cursor, failed) -> {
                    if (cursor != null) {
                        found.add(cursor);
                    }
                });
                synchronized (opens) {
                    opens.add(open);
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        CursorCalls.awaitAll(opens);
        assertThat(found).hasSize(1);
        assertThat(names(ledger)).containsExactly("s");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anOpenDuringADeletionGivesACursorThatWorks_case_070(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        List<Position> positions = addMany(ledger, 3);
        for (int round = 0; round < 20; round++) {
            ManagedCursor old = earliest(ledger, "s");
            CompletableFuture<Void> dropped = drop(ledger, "s");
            CompletableFuture<ManagedCursor> opened = open(ledger, "s");
            await(dropped);
            ManagedCursor fresh = await(opened);
            if (storage == STOCK) { // may hand out the cursor that is being deleted
                assertThat(fresh.getName()).isEqualTo("s");
                continue;
            }
            assertThat(fresh).as("round " + round).isNotSameAs(old);
            assertThat(fresh.isClosed()).isFalse();
            fresh.delete(positions.get(1));
            assertThat(names(ledger)).containsExactly("s");
        }
        if (storage == STOCK) {
            return;
        }
        world.crash();
        ManagedLedger again = world.open(name);
        assertThat(names(again)).containsExactly("s");
        assertThat(again.openCursor("s").isMessageDeleted(positions.get(1))).isTrue();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void openingADurableCursorWhoseNameAReaderHasStoresNothing_case_071(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "s");
        assertThat(ledger.openCursor("s")).as("the broker refuses the subscription when it sees this").isSameAs(reader);
        world.restart();
        assertThat(names(world.open(name))).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReaderThatComesBackUnderItsNameAtOnceGetsACursorThatWorks(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        addMany(ledger, 3);
        ledger.newNonDurableCursor(PositionFactory.EARLIEST, "r");
        CompletableFuture<Void> dropped = drop(ledger, "r");
        ManagedCursor again = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "r");
        await(dropped);
        assertThat(again.isClosed()).isFalse();
        assertThat(read(again, 10)).containsExactly("e0", "e1", "e2");
        assertThat(names(ledger)).containsExactly("r");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDeletedCursorIsGoneForGoodAndItsAcksWithIt(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        cursor.markDelete(positions.get(1));
        ledger.deleteCursor("c");
        assertThat(names(ledger)).isEmpty();
        assertBacklog(earliest(ledger, "c"), 3);
        ledger.deleteCursor("c");
        world.crash();
        ManagedLedger again = world.open(name);
        assertThat(names(again)).isEmpty();
        assertBacklog(earliest(again, "c"), 3);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletingACursorThatIsNotThereFailsByType(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        assertThat(failure(() -> ledger.deleteCursor("never"))).isInstanceOf(CursorNotFoundException.class);
        earliest(ledger, "c");
        ledger.deleteCursor("c");
        assertThat(failure(() -> ledger.deleteCursor("c"))).isInstanceOf(CursorNotFoundException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReaderIsDeletedLikeACursorAndHoldsNothingBack(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        addMany(ledger, 3);
        ledger.newNonDurableCursor(PositionFactory.EARLIEST, "r");
        ledger.deleteCursor("r");
        assertThat(names(ledger)).isEmpty();
        assertThat(ledger.getSlowestConsumer()).isNull();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedCursorRefusesEverythingByTypeAndClosesAgain(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        cursor.delete(positions.get(1));
        cursor.close();
        cursor.close();
        assertThat(cursor.isClosed()).isTrue();
        assertThat(cursor.isActive()).isFalse();
        assertThat(failure(() -> cursor.markDelete(positions.get(0)))).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(failure(() -> cursor.delete(positions.get(0)))).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(failure(() -> cursor.readEntries(1))).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(failure(() -> cursor.readEntriesOrWait(1))).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(failure(cursor::clearBacklog)).isInstanceOf(CursorAlreadyClosedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void closingTheLedgerClosesItsCursors(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "r");
        Position position = addMany(ledger, 1).get(0);
        ledger.close();
        assertThat(cursor.isClosed()).isTrue();
        assertThat(reader.isClosed()).isTrue();
        assertThat(failure(() -> await(delete(cursor, position)))).isInstanceOf(CursorAlreadyClosedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyLegalNameSurvivesUnchanged_case_113(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        List<String> legal = new ArrayList<>(List.of("a:b", "a b", "%2F", "a%2Fb", "..", ".", "Ä\u200b\uD83D\uDE00"));
        if (storage != STOCK) { // stock's metadata node cannot have a slash; the broker encodes names before
            legal.addAll(List.of("a/b", "/", "../x", "\u0000x", "x\u0000", "x\u0000\u0001", "n".repeat(1024)));
        }
        List<Position> positions = addMany(ledger, legal.size() + 1);
        for (int i = 0; i < legal.size(); i++) {
            earliest(ledger, legal.get(i)).markDelete(positions.get(i));
        }
        world.restart();
        ManagedLedger again = world.open(name);
        assertThat(names(again)).containsExactlyInAnyOrderElementsOf(legal);
        for (int i = 0; i < legal.size(); i++) {
            assertThat(again.openCursor(legal.get(i)).getMarkDeletedPosition()).isEqualTo(positions.get(i));
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void illegalNamesAreRefusedBeforeAnythingIsStored_case_113(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        if (storage == STOCK) { // has no rule of its own
            assertThat(names(ledger)).isEmpty();
            return;
        }
        for (String illegal : List.of("", "n".repeat(5000), "\uD800", "a\uDC00b")) {
            assertThat(failure(() -> ledger.openCursor(illegal))).hasMessageContaining("name");
            assertThat(failure(() -> ledger.openCursor(illegal)))
                .as("also the second time").hasMessageContaining("name");
        }
        assertThat(names(ledger)).isEmpty();
        world.restart();
        assertThat(names(world.open(name))).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void activityIsSetAskedForAndHeldOffForGood(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        assertThat(cursor.isActive()).isTrue();
        cursor.setInactive();
        assertThat(cursor.isActive()).isFalse();
        assertThat(ledger.getActiveCursors()).isEmpty();
        cursor.setActive();
        assertThat(cursor.isActive()).isTrue();
        assertThat(ledger.getActiveCursors()).containsExactly(cursor);
        cursor.setAlwaysInactive();
        cursor.setActive();
        assertThat(cursor.isActive()).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theTimeOfTheLastActivityMovesWhenItIsUpdatedAndBeginsAgainAtOpen(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedCursor cursor = earliest(world.open(name), "c");
        long opened = cursor.getLastActive();
        assertThat(opened).isPositive();
        cursor.updateLastActive();
        assertThat(cursor.getLastActive()).isGreaterThanOrEqualTo(opened);
        world.restart();
        assertThat(earliest(world.open(name), "c").getLastActive()).isGreaterThanOrEqualTo(opened);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aChangedConfigurationHoldsAtOnceForOpenCursors_case_114(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 30);
        ManagedLedgerConfig changed = world.config();
        changed.setThrottleMarkDelete(7.5);
        changed.setMaxUnackedRangesToPersist(2);
        ledger.setConfig(changed);
        assertThat(cursor.getThrottleMarkDelete()).isCloseTo(7.5, within(1e-9));
        for (int i = 1; i < 10; i += 2) {
            cursor.delete(positions.get(i));
        }
        assertThat(cursor.isCursorDataFullyPersistable()).isFalse();
        cursor.setThrottleMarkDelete(3.5);
        assertThat(cursor.getThrottleMarkDelete()).isCloseTo(3.5, within(1e-9));
        assertThat(cursor.periodicRollover()).isFalse();
    }
}
