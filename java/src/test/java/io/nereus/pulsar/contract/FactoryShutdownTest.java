package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFactoryClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

/** ManagedLedgerFactory: the end. */
public class FactoryShutdownTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void shutdownClosesEveryLedgerAndLosesNothing(Storage storage) throws Exception {
        World world = freshWorld(storage);
        List<ManagedLedger> ledgers = new ArrayList<>();
        List<Position> marks = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            ManagedLedger ledger = world.open(world.freshName());
            ManagedCursor cursor = ledger.openCursor("c");
            marks.add(add(ledger, "a"));
            add(ledger, "b");
            cursor.markDelete(marks.get(i));
            ledgers.add(ledger);
        }
        if (storage == Storage.STOCK) { // its shutdown answers before its ledgers are closed
            Factories.shutdown(world.factory());
        } else {
            world.factory().shutdown();
        }
        assertThat(world.factory().getManagedLedgers()).isEmpty();
        for (ManagedLedger ledger : ledgers) {
            assertThat(failure(() -> add(ledger, "late"))).isInstanceOf(ManagedLedgerAlreadyClosedException.class);
        }
        world.restart();
        for (int i = 0; i < 10; i++) {
            ManagedLedger again = world.open(ledgers.get(i).getName());
            assertThat(again.getNumberOfEntries()).isGreaterThanOrEqualTo(1);
            ManagedCursor cursor = again.openCursor("c");
            assertThat(cursor.getMarkDeletedPosition()).isEqualTo(marks.get(i));
            assertThat(Ledgers.texts(cursor.readEntries(10))).containsExactly("b");
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedFactoryRefusesToOpenByType(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedgerFactory factory = world.factory();
        String name = world.freshName();
        world.open(name).close();
        factory.shutdown();
        List<Ledgers.ThrowingRunnable> opens = new ArrayList<>(List.of(
            () -> factory.open(name),
            () -> factory.open(name, world.config()),
            () -> await(Factories.open(factory, name)),
            () -> await(Factories.open(factory, name, world.config(), () -> CompletableFuture.completedFuture(true))),
            () -> await(Factories.readOnlyCursor(factory, name, PositionFactory.EARLIEST, world.config()))));
        if (storage == Storage.NEREUS) { // stock refuses the first and opens it as well, and asks its store the others
            opens.addAll(List.of(
                () -> await(Factories.readOnly(factory, name, world.config())),
                () -> factory.delete(name),
                () -> await(Factories.delete(factory, name)),
                () -> factory.getManagedLedgerInfo(name),
                () -> await(Factories.info(factory, name)),
                () -> await(factory.asyncExists(name)),
                () -> await(factory.getManagedLedgerPropertiesAsync(name))));
        }
        for (Ledgers.ThrowingRunnable open : opens) {
            assertThat(failure(open)).isInstanceOf(ManagedLedgerFactoryClosedException.class);
        }
        assertThat(await(world.store().direct().exists(World.registryNode(name)))).isTrue();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSecondShutdownSaysThatTheFactoryIsClosed(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedgerFactory factory = world.factory();
        await(factory.shutdownAsync());
        assertThat(failure(() -> factory.shutdownAsync())).isInstanceOf(ManagedLedgerFactoryClosedException.class);
        assertThat(failure(factory::shutdown)).isInstanceOf(ManagedLedgerFactoryClosedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anOpenUnderWayFailsByTypeWhenTheFactoryCloses_case_074(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedgerFactory factory = world.factory();
        String name = world.freshName();
        CompletableFuture<Void> until = new CompletableFuture<>();
        world.store().delayNext(FaultyStore.gets(World.registryNode(name)), until);
        CompletableFuture<ManagedLedger> opening = Factories.open(factory, name, world.config());
        Ledgers.await("the look at the node", () -> world.store().faultsMet());
        CompletableFuture<Void> closing = factory.shutdownAsync();
        assertThat(failure(() -> await(opening))).isInstanceOf(ManagedLedgerFactoryClosedException.class);
        if (storage == Storage.STOCK) { // does not wait for the open: its threads end first
            await(closing);
        }
        until.complete(null);
        await(closing);
        assertThat(factory.getManagedLedgers()).isEmpty();
        world.restart();
        add(world.open(name), "the next broker opens it");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void appendsUnderWayAreAnsweredOnceWhenTheFactoryCloses_case_022(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName());
        List<CompletableFuture<Position>> adds = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            CompletableFuture<Position> added = new CompletableFuture<>();
            ledger.asyncAddEntry("e".getBytes(), new org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback() {
                @Override
                public void addComplete(Position position, io.netty.buffer.ByteBuf entryData, Object ctx) {
                    added.complete(position);
                }

                @Override
                public void addFailed(ManagedLedgerException exception, Object ctx) {
                    added.completeExceptionally(exception);
                }
            }, null);
            adds.add(added);
        }
        if (storage == Storage.STOCK) { // its shutdown ends the threads that would answer
            Factories.shutdown(world.factory());
        } else {
            world.factory().shutdown();
        }
        int acknowledged = 0;
        for (CompletableFuture<Position> added : adds) {
            if (added.handle((position, failure) -> failure == null)
                    .get(Ledgers.PATIENCE.toSeconds(), java.util.concurrent.TimeUnit.SECONDS)) {
                acknowledged++;
            }
        }
        world.restart();
        assertThat(world.open(ledger.getName()).getNumberOfEntries()).isGreaterThanOrEqualTo(acknowledged);
    }
}
