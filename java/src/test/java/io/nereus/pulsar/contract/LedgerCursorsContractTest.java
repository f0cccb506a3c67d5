package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.opened;
import static io.nereus.pulsar.contract.LedgerCalls.readOrWait;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCursorCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorNotFoundException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** How a ledger makes, finds, lists and deletes cursors. */
public class LedgerCursorsContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyFormOfOpenStartsWhereItSays(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        addMany(ledger, 3);
        assertThat(ledger.openCursor("latest").getNumberOfEntriesInBacklog(true)).isZero();
        assertThat(ledger.openCursor("earliest", InitialPosition.Earliest).getNumberOfEntriesInBacklog(true))
            .isEqualTo(3);
        ManagedCursor full = ledger.openCursor("full", InitialPosition.Earliest, Map.of("p", 7L), Map.of("c", "x"));
        assertThat(full.getProperties()).isEqualTo(Map.of("p", 7L));
        assertThat(full.getCursorProperties()).isEqualTo(Map.of("c", "x"));
        CompletableFuture<ManagedCursor> plain = new CompletableFuture<>();
        ledger.asyncOpenCursor("async", opened(plain), null);
        assertThat(await(plain).getNumberOfEntriesInBacklog(true)).isZero();
        CompletableFuture<ManagedCursor> earliest = new CompletableFuture<>();
        ledger.asyncOpenCursor("async earliest", InitialPosition.Earliest, opened(earliest), null);
        assertThat(await(earliest).getNumberOfEntriesInBacklog(true)).isEqualTo(3);
        CompletableFuture<ManagedCursor> all = new CompletableFuture<>();
        ledger.asyncOpenCursor("async full", InitialPosition.Latest, Map.of("p", 1L), Map.of(), opened(all), null);
        assertThat(await(all).getProperties()).isEqualTo(Map.of("p", 1L));
        assertThat(ledger.getCursors()).hasSize(6).allMatch(ManagedCursor::isDurable);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anOpenCursorIsFoundAgainAndNotMovedByItsSecondOpen(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> all = addMany(ledger, 3);
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        cursor.markDelete(all.get(0));
        assertThat(ledger.openCursor("c", InitialPosition.Latest)).isSameAs(cursor);
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(all.get(0));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void manyOpensOfOneNameGetOneCursor_case_070(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        List<CompletableFuture<ManagedCursor>> opens = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            CompletableFuture<ManagedCursor> opened = new CompletableFuture<>();
            opens.add(opened);
            CompletableFuture.runAsync(() -> ledger.asyncOpenCursor("s", opened(opened), null));
        }
        ManagedCursor cursor = await(opens.get(0));
        for (CompletableFuture<ManagedCursor> opened : opens) {
            assertThat(await(opened)).isSameAs(cursor);
        }
        world.restart();
        assertThat(world.open(name).getCursors()).extracting(ManagedCursor::getName).containsExactly("s");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDurableOpenOfANonDurableNameStoresNothing_case_071(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "a");
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "s");
        assertThat(ledger.openCursor("s")).as("the broker sees that it is not durable, and refuses").isSameAs(reader);
        world.restart();
        assertThat(world.open(name).getCursors()).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDeletedCursorIsGoneForGood(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        addMany(ledger, 3);
        ledger.openCursor("stays");
        ledger.openCursor("goes", InitialPosition.Earliest);
        ledger.deleteCursor("goes");
        assertThat(ledger.getCursors()).extracting(ManagedCursor::getName).containsExactly("stays");
        assertThat(ledger.getActiveCursors()).extracting(ManagedCursor::getName).containsExactly("stays");
        world.crash();
        assertThat(world.open(name).getCursors()).extracting(ManagedCursor::getName).containsExactly("stays");
        assertThat(world.open(name).openCursor("goes").getNumberOfEntriesInBacklog(true)).as("a new one").isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletingAnUnknownCursorHasItsType(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        assertThat(failure(() -> ledger.deleteCursor("never"))).isInstanceOf(CursorNotFoundException.class);
        CompletableFuture<Void> deleted = new CompletableFuture<>();
        ledger.asyncDeleteCursor("never", new DeleteCursorCallback() {
            @Override
            public void deleteCursorComplete(Object ctx) {
                deleted.complete(null);
            }

            @Override
            public void deleteCursorFailed(ManagedLedgerException exception, Object ctx) {
                deleted.completeExceptionally(exception);
            }
        }, null);
        assertThat(failure(() -> await(deleted))).isInstanceOf(CursorNotFoundException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aNonDurableCursorIsDeletedAtOnce(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        ledger.deleteCursor("reader");
        assertThat(ledger.getCursors()).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyFormOfNonDurableOpenStartsWhereItSays(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> all = addMany(ledger, 4);
        assertThat(texts(ledger.newNonDurableCursor(PositionFactory.EARLIEST).readEntries(9))).hasSize(4);
        assertThat(texts(ledger.newNonDurableCursor(all.get(1), "after").readEntries(9)))
            .as("the position was consumed already").containsExactly("e2", "e3");
        assertThat(ledger.newNonDurableCursor(PositionFactory.LATEST, "l").hasMoreEntries()).isFalse();
        assertThat(ledger.newNonDurableCursor(null, "n", InitialPosition.Latest, false).hasMoreEntries()).isFalse();
        assertThat(ledger.newNonDurableCursor(null, "e", InitialPosition.Earliest, false).hasMoreEntries()).isTrue();
        assertThat(ledger.newNonDurableCursor(null, "e")).as("found again")
            .isSameAs(ledger.newNonDurableCursor(null, "e"));
        assertThat(ledger.getCursors()).noneMatch(ManagedCursor::isDurable);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPositionBeyondTheEndStartsAsAskedFor_case_037(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Position last = addMany(ledger, 3).get(2);
        Position otherLife = PositionFactory.create(last.getLedgerId() + 25, 98);
        assertThat(ledger.newNonDurableCursor(otherLife, "l", InitialPosition.Latest, false).hasMoreEntries()).isFalse();
        assertThat(texts(ledger.newNonDurableCursor(otherLife, "e", InitialPosition.Earliest, false).readEntries(9)))
            .hasSize(3);
        Position truncatedLatest = PositionFactory.create(Long.MAX_VALUE, -1); // as C++ clients send LATEST
        assertThat(ledger.newNonDurableCursor(truncatedLatest, "t").hasMoreEntries()).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCursorTakenFromTheWaitingOnesIsNotWoken(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = ledger.openCursor("c");
        CompletableFuture<List<Entry>> read = readOrWait(cursor);
        await("the cursor to wait", () -> await(ledger.getManagedLedgerInternalStats(false)).waitingCursorsCount == 1);
        ledger.removeWaitingCursor(cursor);
        cursor.cancelPendingReadRequest();
        await("nobody to wait", () -> await(ledger.getManagedLedgerInternalStats(false)).waitingCursorsCount == 0);
        add(ledger, "a");
        assertThat(read).isNotDone();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedLedgerOpensNoCursor(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ledger.close();
        assertThat(failure(() -> ledger.openCursor("c"))).isNotNull();
        assertThat(failure(() -> ledger.newNonDurableCursor(PositionFactory.EARLIEST))).isNotNull();
    }
}
