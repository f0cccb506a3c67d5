package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerNotFoundException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;
import org.apache.bookkeeper.mledger.ReadOnlyManagedLedger;
import org.testng.annotations.Test;

/** ReadOnlyManagedLedger, and how it and its cursors are opened. */
public class ReadOnlyLedgerTest extends ContractTest {

    private static ReadOnlyManagedLedger open(World world, String name) throws Exception {
        ReadOnlyManagedLedger ledger = await(Factories.readOnly(world.factory(), name, world.config()));
        if (world.storage() == Storage.STOCK) { // which counts and reads only once it has made a cursor
            ledger.createReadOnlyCursor(PositionFactory.EARLIEST);
        }
        return ledger;
    }

    private static String read(ReadOnlyManagedLedger ledger, Position position) throws Exception {
        CompletableFuture<Entry> read = new CompletableFuture<>();
        Object context = new Object();
        ledger.asyncReadEntry(position, new ReadEntryCallback() {
            @Override
            public void readEntryComplete(Entry entry, Object ctx) {
                assertThat(ctx).isSameAs(context);
                read.complete(entry);
            }

            @Override
            public void readEntryFailed(ManagedLedgerException exception, Object ctx) {
                read.completeExceptionally(exception);
            }
        }, context);
        Entry entry = await(read);
        assertThat(entry.getPosition()).isEqualTo(position);
        return Ledgers.text(entry);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAbsentLedgerIsNotFoundAndNotCreated(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        List<Ledgers.ThrowingRunnable> opens = List.of(
            () -> world.factory().openReadOnlyCursor(name, PositionFactory.EARLIEST, world.config()),
            () -> await(Factories.readOnlyCursor(world.factory(), name, PositionFactory.EARLIEST, world.config())),
            () -> open(world, name));
        for (Ledgers.ThrowingRunnable opening : opens) {
            assertThat(failure(opening)).isInstanceOf(ManagedLedgerNotFoundException.class);
        }
        assertThat(await(world.factory().asyncExists(name))).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedLedgerIsReadWithItsPropertiesAndNotListedAsOpen(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ledger.setProperties(Map.of("k", "v"));
        List<Position> positions = addMany(ledger, 5);
        ledger.close();
        ReadOnlyManagedLedger readOnly = open(world, name);
        assertThat(readOnly.getProperties()).containsOnly(Map.entry("k", "v"));
        assertThat(readOnly.getNumberOfEntries()).isEqualTo(5);
        for (int i = 0; i < 5; i++) {
            assertThat(read(readOnly, positions.get(i))).isEqualTo("e" + i);
        }
        assertThat(world.factory().getManagedLedgers()).doesNotContainKey(name);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEntryThatIsNotThereFailsTheRead(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        Position last = add(ledger, "a");
        ledger.close();
        ReadOnlyManagedLedger readOnly = open(world, name);
        assertThat(failure(() -> read(readOnly, last.getNext()))).isInstanceOf(ManagedLedgerException.class);
        assertThat(failure(() -> read(readOnly, PositionFactory.create(last.getLedgerId() + 1000, 0))))
            .isInstanceOf(ManagedLedgerException.class);
        assertThat(read(readOnly, last)).as("the reader goes on").isEqualTo("a");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void cursorsOfOneReadOnlyLedgerAreIndependent(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        List<Position> positions = addMany(ledger, 4);
        ledger.close();
        ReadOnlyManagedLedger readOnly = open(world, name);
        ReadOnlyCursor first = readOnly.createReadOnlyCursor(PositionFactory.EARLIEST);
        ReadOnlyCursor second = readOnly.createReadOnlyCursor(positions.get(2));
        assertThat(first.getReadPosition()).isEqualTo(positions.get(0));
        assertThat(first.getNumberOfEntries()).isEqualTo(4);
        assertThat(second.getReadPosition()).isEqualTo(positions.get(2));
        assertThat(second.getNumberOfEntries()).isEqualTo(2);
        assertThat(texts(first.readEntries(10))).containsExactly("e0", "e1", "e2", "e3");
        first.close();
        assertThat(second.hasMoreEntries()).isTrue();
        assertThat(texts(second.readEntries(10))).containsExactly("e2", "e3");
        assertThat(second.hasMoreEntries()).isFalse();
        second.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyFormOfOpeningACursorReadsFromItsStart(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        List<Position> positions = addMany(ledger, 3);
        ledger.close();
        for (ReadOnlyCursor cursor : List.of(
                world.factory().openReadOnlyCursor(name, positions.get(1), world.config()),
                await(Factories.readOnlyCursor(world.factory(), name, positions.get(1), world.config())),
                open(world, name).createReadOnlyCursor(positions.get(1)))) {
            assertThat(texts(cursor.readEntries(10))).containsExactly("e1", "e2");
            cursor.close();
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aTerminatedLedgerIsReadToItsEnd(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        addMany(ledger, 3);
        ledger.terminate();
        ledger.close();
        ReadOnlyCursor cursor =
            world.factory().openReadOnlyCursor(name, PositionFactory.EARLIEST, world.config());
        assertThat(texts(cursor.readEntries(10))).containsExactly("e0", "e1", "e2");
        assertThat(cursor.hasMoreEntries()).isFalse();
        cursor.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAnnouncedTopicThatNobodyOpenedHasNothingToRead(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        await(world.store().direct().put(World.registryNode(name), new byte[0], Optional.of(-1L)));
        if (storage == Storage.NEREUS) { // has no stream yet, and looking does not make one
            assertThat(failure(() -> open(world, name))).isInstanceOf(ManagedLedgerNotFoundException.class);
            return;
        }
        assertThat(await(Factories.readOnly(world.factory(), name, world.config())).getProperties()).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReaderOfALedgerThatIsDeletedMeanwhileEndsWithAnErrorAtWorst(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        Position first = add(ledger, "a");
        ledger.close();
        ReadOnlyManagedLedger readOnly = open(world, name);
        world.factory().delete(name);
        assertThat(failure(() -> read(readOnly, first))).isInstanceOf(ManagedLedgerException.class);
        ManagedLedger fresh = world.open(name);
        add(fresh, "b");
        assertThat(failure(() -> read(readOnly, first))).isInstanceOf(ManagedLedgerException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void manyReadersDoNotDisturbTheOwner(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        for (int i = 0; i < 20; i++) {
            add(ledger, "e" + i);
            ReadOnlyManagedLedger readOnly = open(world, name);
            assertThat(readOnly.getNumberOfEntries()).isEqualTo(i + 1);
        }
        assertThat(world.open(name)).isSameAs(ledger);
        add(ledger, "still the owner");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theMapOfPropertiesIsASnapshot(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ledger.setProperty("k", "v");
        ReadOnlyManagedLedger readOnly = open(world, name);
        ledger.setProperty("k", "changed");
        assertThat(readOnly.getProperties()).containsOnly(Map.entry("k", "v"));
    }
}
