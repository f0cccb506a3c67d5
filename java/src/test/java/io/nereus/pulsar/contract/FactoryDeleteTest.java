package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.MetadataNotFoundException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.testng.annotations.Test;

/** ManagedLedgerFactory and ManagedLedger: deleting. */
public class FactoryDeleteTest extends ContractTest {

    private static void assertGone(World world, String name) throws Exception {
        assertThat(await(world.store().direct().exists(World.registryNode(name)))).as("the node").isFalse();
        assertThat(await(world.store().direct().getChildren(World.registryNode(name)))).as("its children").isEmpty();
        assertThat(await(world.factory().asyncExists(name))).isFalse();
        assertThat(world.factory().getManagedLedgers()).doesNotContainKey(name);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletingAClosedLedgerTakesDataCursorsPropertiesAndNodeAway(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ledger.openCursor("c").markDelete(add(ledger, "a"));
        ledger.setProperty("k", "v");
        ledger.close();
        world.factory().delete(name);
        assertGone(world, name);
        assertThat(await(world.factory().getManagedLedgerPropertiesAsync(name))).isEmpty();
        ManagedLedger again = world.open(name);
        assertThat(again.getNumberOfEntries()).isZero();
        assertThat(again.getCursors()).isEmpty();
        assertThat(again.getProperties()).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletingAnOpenLedgerThroughTheFactoryEndsTheInstance(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "a");
        await(Factories.delete(world.factory(), name));
        assertGone(world, name);
        assertThat(failure(() -> add(ledger, "late"))).isInstanceOf(ManagedLedgerFencedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theFactoryHasForgottenADeletedLedgerBeforeTheCallback(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "a");
        CompletableFuture<Boolean> listed =
            Factories.delete(ledger).thenApply(done -> world.factory().getManagedLedgers().containsKey(name));
        assertThat(await(listed)).isFalse();
        assertGone(world, name);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyFormOfDeleteWorks(Storage storage) throws Exception {
        World world = world(storage);
        List<String> names = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            names.add(world.freshName());
            ManagedLedger ledger = world.open(names.get(i));
            add(ledger, "a");
            ledger.close();
        }
        world.factory().delete(names.get(0));
        world.factory().delete(names.get(1), CompletableFuture.completedFuture(world.config()));
        await(Factories.delete(world.factory(), names.get(2)));
        await(Factories.delete(world.factory(), names.get(3), CompletableFuture.completedFuture(world.config())));
        world.open(names.get(4)).delete();
        for (String name : names) {
            assertGone(world, name);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletingWhatIsAbsentIsMetadataNotFound(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        for (ManagedLedgerException absent : List.of(failure(() -> world.factory().delete(name)),
                failure(() -> await(Factories.delete(world.factory(), name))))) {
            assertThat(absent).isInstanceOf(MetadataNotFoundException.class);
            if (storage == Storage.NEREUS) { // the deletion of a topic tests the cause, which stock leaves out here
                assertThat(absent).hasCauseInstanceOf(MetadataStoreException.NotFoundException.class);
            }
        }
        assertThat(await(world.store().direct().exists(World.registryNode(name)))).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletingTwiceAtOnceEndsWithTheLedgerGone(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "a");
        ledger.close();
        CompletableFuture<Void> first = Factories.delete(world.factory(), name);
        CompletableFuture<Void> second = Factories.delete(world.factory(), name);
        int succeeded = 0;
        for (CompletableFuture<Void> deletion : List.of(first, second)) {
            if (deletion.handle((done, failure) -> failure == null).get()) {
                succeeded++;
            } else {
                assertThat(failure(() -> await(deletion))).isInstanceOf(ManagedLedgerException.class);
            }
        }
        assertThat(succeeded).isPositive();
        assertGone(world, name);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletionJoinsAnOpenThatIsUnderWay(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        CompletableFuture<Void> until = new CompletableFuture<>();
        world.store().delayNext(FaultyStore.gets(World.registryNode(name)), until);
        CompletableFuture<ManagedLedger> opening = Factories.open(world.factory(), name, world.config());
        CompletableFuture<Void> deleting = Factories.delete(world.factory(), name);
        until.complete(null);
        ManagedLedger ledger = await(opening);
        await(deleting);
        assertGone(world, name);
        assertThat(failure(() -> add(ledger, "late"))).isInstanceOf(ManagedLedgerException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anOpenDuringADeletionGetsAFreshLedger(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "old");
        CompletableFuture<Void> deleting = Factories.delete(ledger);
        if (storage == Storage.STOCK) { // lets an open race with the deletion; only what follows it is certain
            await(deleting);
        }
        ManagedLedger fresh = await(Factories.open(world.factory(), name, world.config()));
        await(deleting);
        assertThat(fresh.getNumberOfEntries()).isZero();
        add(fresh, "new");
        assertThat(await(world.factory().asyncExists(name))).isTrue();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void ledgerIdsOfARecreatedLedgerAreAboveAllThatWereUsed_case_037(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        Position before = add(world.open(name), "old");
        for (int i = 0; i < 3; i++) {
            world.factory().delete(name);
            ManagedLedger fresh = world.open(name);
            Position after = add(fresh, "new");
            assertThat(after.getLedgerId()).isGreaterThan(before.getLedgerId());
            assertThat(texts(fresh, before)).as("a position of the deleted ledger").containsExactly("new");
            before = after;
        }
    }

    private static List<String> texts(ManagedLedger ledger, Position start) throws Exception {
        return Ledgers.texts(ledger.newNonDurableCursor(start).readEntries(10));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void manyDeletionsUnderOneNamespaceAllEnd_case_073(Storage storage) throws Exception {
        World world = world(storage);
        List<String> names = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            names.add(world.freshName());
        }
        for (ManagedLedger ledger : await(all(names.stream()
                .map(name -> Factories.open(world.factory(), name, world.config())).toList()))) {
            add(ledger, "a");
        }
        if (storage == Storage.NEREUS) { // stock gives up at the first conflict and leaves the node to its caller
            for (int i = 0; i < 16; i++) {
                world.store().failNext(FaultyStore.deletes("/managed-ledgers"),
                    new MetadataStoreException.BadVersionException("injected"));
            }
        }
        await(all(names.stream().map(name -> Factories.delete(world.factory(), name)).toList()));
        assertThat(world.store().faultsMet()).isTrue();
        for (String name : names) {
            assertGone(world, name);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDeletionThatFailedHalfWayIsFinishedByTheNext(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "a");
        ledger.close();
        world.store().failNext(FaultyStore.gets(World.registryNode(name)),
            new MetadataStoreException("the store is away"));
        assertThat(failure(() -> world.factory().delete(name))).hasStackTraceContaining("the store is away");
        assertThat(world.store().faultsMet()).isTrue();
        world.factory().delete(name);
        assertGone(world, name);
        assertThat(world.open(name).getNumberOfEntries()).isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aFailedDeletionOfAnOpenLedgerLeavesItUnusableAndMayBeRepeated(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "a");
        world.store().failEvery(call -> true, new MetadataStoreException("the store is away"));
        assertThat(failure(ledger::delete)).hasStackTraceContaining("the store is away");
        world.store().reset();
        assertThat(failure(() -> add(ledger, "late"))).isInstanceOf(ManagedLedgerFencedException.class);
        world.factory().delete(name);
        assertGone(world, name);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletionOfALedgerThatAnotherBrokerHasOpenFencesThatBroker(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedgerFactory second = world.secondBroker();
        ManagedLedger elsewhere = second.open(name, world.config());
        add(elsewhere, "a");
        world.factory().delete(name);
        assertGone(world, name);
        if (storage == Storage.STOCK) { // the other broker goes on writing into a ledger that nobody will find
            add(elsewhere, "lost");
        } else {
            assertThat(failure(() -> add(elsewhere, "late"))).isInstanceOf(ManagedLedgerFencedException.class);
            assertThat(failure(() -> add(elsewhere, "later"))).isInstanceOf(ManagedLedgerFencedException.class);
            assertThat(second.open(name, world.config())).isNotSameAs(elsewhere);
            second.delete(name);
        }
        assertGone(world, name);
        assertThat(world.open(name).getNumberOfEntries()).isZero();
    }

    private static <T> CompletableFuture<List<T>> all(List<CompletableFuture<T>> futures) {
        return CompletableFuture.allOf(futures.toArray(CompletableFuture[]::new))
            .thenApply(done -> futures.stream().map(CompletableFuture::join).toList());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aNameMayBeUsedAgainAtOnceAndManyTimes(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        for (int i = 0; i < 10; i++) {
            ManagedLedger ledger = world.open(name);
            ledger.setProperties(Map.of("round", Integer.toString(i)));
            add(ledger, "a");
            assertThat(ledger.getNumberOfEntries()).isEqualTo(1);
            ledger.delete();
        }
        assertGone(world, name);
    }
}
