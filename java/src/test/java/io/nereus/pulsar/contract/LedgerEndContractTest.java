package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.close;
import static io.nereus.pulsar.contract.LedgerCalls.stored;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteLedgerCallback;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.Position;
import org.testng.annotations.Test;

/** How a ledger is closed and deleted. */
public class LedgerEndContractTest extends ContractTest {

    private static CompletableFuture<Boolean> delete(World world, ManagedLedger ledger) {
        CompletableFuture<Boolean> knownInCallback = new CompletableFuture<>();
        ledger.asyncDelete(new DeleteLedgerCallback() {
            @Override
            public void deleteLedgerComplete(Object ctx) {
                knownInCallback.complete(world.factory().getManagedLedgers().containsKey(ledger.getName()));
            }

            @Override
            public void deleteLedgerFailed(ManagedLedgerException exception, Object ctx) {
                knownInCallback.completeExceptionally(exception);
            }
        }, null);
        return knownInCallback;
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedLedgerOpensAgainWithEverythingItHad(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = ledger.openCursor("c");
        List<Position> all = addMany(ledger, 3);
        cursor.markDelete(all.get(0));
        cursor.delete(all.get(2));
        ledger.close();
        assertThat(world.factory().getManagedLedgers()).doesNotContainKey(name);
        ManagedLedger again = world.open(name);
        assertThat(again).isNotSameAs(ledger);
        assertThat(again.getCursors()).as("already there when the open completes")
            .extracting(ManagedCursor::getName).containsExactly("c");
        ManagedCursor recovered = again.openCursor("c");
        assertThat(recovered.getMarkDeletedPosition()).isEqualTo(all.get(0));
        assertThat(recovered.getNumberOfEntriesInBacklog(true)).isEqualTo(1);
        assertThat(stored(again)).containsExactly("e0", "e1", "e2");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void closingAgainIsNoFailure(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        add(ledger, "a");
        List<CompletableFuture<Void>> closes = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            closes.add(close(ledger));
        }
        for (CompletableFuture<Void> closed : closes) {
            await(closed);
        }
        ledger.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void positionsAndCountsOfAClosedLedgerCanStillBeAsked(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        Position last = addMany(ledger, 3).get(2);
        ledger.close();
        assertThat(ledger.getLastConfirmedEntry()).isEqualTo(last);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(3);
        assertThat(ledger.getTotalSize()).isEqualTo(6);
        assertThat(ledger.isTerminated()).isFalse();
        assertThat(await(ledger.getManagedLedgerInternalStats(false)).state).isEqualTo("Closed");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDeletedLedgerIsForgottenBeforeItsCallback(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ledger.openCursor("c");
        ledger.setProperty("k", "v");
        Position last = addMany(ledger, 3).get(2);
        boolean known = await(delete(world, ledger));
        if (storage == Storage.NEREUS) { // in stock it is the broker that asks the factory to forget it
            assertThat(known).isFalse();
        }
        assertThat(await(world.factory().asyncExists(name))).isFalse();
        assertThat(await(world.store().direct().exists(World.registryNode(name)))).isFalse();
        if (storage == Storage.STOCK) {
            world.restart();
        }
        ManagedLedger recreated = world.open(name);
        assertThat(recreated.getCursors()).isEmpty();
        assertThat(recreated.getProperties()).isEmpty();
        assertThat(recreated.getNumberOfEntries()).isZero();
        assertThat(add(recreated, "new life")).as("an old message id points into no new topic").isGreaterThan(last);
        assertThat(stored(recreated)).containsExactly("new life");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDeletedLedgerRefusesEverything(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ledger.delete();
        assertThat(failure(() -> ledger.openCursor("c"))).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(() -> add(ledger, "a"))).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(ledger::close)).isInstanceOf(ManagedLedgerFencedException.class);
    }
}
