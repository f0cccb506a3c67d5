package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.apache.pulsar.metadata.api.MetadataStoreException.BadVersionException;
import org.testng.annotations.Test;

/** A metadata store that fails, delays and loses answers, under opens, deletions and a second owner. */
public class MetadataFaultsTest extends ContractTest {

    private static final MetadataStoreException LOST = new MetadataStoreException("the answer was lost");

    /** Calls that a fresh open of {@code name} makes, to hit each of them once. */
    private static int callsOfAnOpen(World world) throws Exception {
        world.store().reset();
        world.open(world.freshName()).close();
        return world.store().calls().size();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anOpenWhoseEveryCallFailsOnceEndsAndTheNextOneWorks(Storage storage) throws Exception {
        World world = freshWorld(storage);
        int calls = callsOfAnOpen(world);
        assertThat(calls).isPositive();
        for (int nth = 0; nth < calls; nth++) {
            String name = world.freshName();
            failNth(world, nth);
            openOrFail(world, name);
            world.store().reset();
            ManagedLedger ledger = world.open(name);
            add(ledger, "a");
            ledger.close();
            assertThat(world.open(name).getNumberOfEntries()).isEqualTo(1);
        }
    }

    /** The {@code nth} next call fails without effect. */
    private static void failNth(World world, int nth) {
        int[] seen = {0};
        world.store().failNext(call -> seen[0]++ == nth, new MetadataStoreException("the store is away"));
    }

    /** An outcome either way, in bounded time. */
    private static void openOrFail(World world, String name) throws Exception {
        CompletableFuture<ManagedLedger> opening = Factories.open(world.factory(), name, world.config());
        await(opening.handle((ledger, failure) -> failure));
        if (!opening.isCompletedExceptionally()) {
            opening.join().close();
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anOpenThatLosesAnyAnswerEndsAndNothingIsLostOrDoubled_case_067(Storage storage) throws Exception {
        World world = freshWorld(storage);
        int calls = callsOfAnOpen(world);
        int failed = 0;
        for (int nth = 0; nth < calls; nth++) {
            String name = world.freshName();
            int which = nth;
            int[] seen = {0};
            world.store().loseAnswerOfNext(call -> seen[0]++ == which, LOST);
            CompletableFuture<ManagedLedger> opening = Factories.open(world.factory(), name, world.config());
            if (await(opening.handle((ledger, failure) -> failure)) == null) {
                add(opening.join(), "a");
                opening.join().close();
            } else {
                failed++;
                add(world.open(name), "a");
                world.open(name).close();
            }
            world.store().reset();
            assertThat(world.open(name).getNumberOfEntries()).isEqualTo(1);
        }
        if (storage == Storage.NEREUS) { // lost answers of writes are settled; a read that fails fails the open
            assertThat(failed).isLessThan(calls);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aLostAnswerToTheRegistryNodeIsSettledByLookingAgain_case_067(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        world.store().loseAnswerOfNext(FaultyStore.puts(World.registryNode(name)), LOST);
        CompletableFuture<ManagedLedger> opening = Factories.open(world.factory(), name, world.config());
        if (storage == Storage.STOCK) { // fails the open; the next one finds the node
            assertThat(failure(() -> await(opening))).hasStackTraceContaining("the answer was lost");
            add(world.open(name), "a");
            return;
        }
        add(await(opening), "a");
        assertThat(world.store().faultsMet()).isTrue();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aVersionConflictOfAnUpdateThatWasAppliedIsTakenForWhatItIs_case_067(Storage storage)
            throws Exception {
        World world = world(storage);
        String name = world.freshName();
        world.store().loseAnswerOfNext(FaultyStore.puts(World.registryNode(name)), new BadVersionException("injected"));
        CompletableFuture<ManagedLedger> opening = Factories.open(world.factory(), name, world.config());
        if (storage == Storage.STOCK) { // takes it for another owner
            assertThat(failure(() -> await(opening))).isInstanceOf(ManagedLedgerException.class);
            return;
        }
        add(await(opening), "a");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aLostAnswerOfADeletionIsSettled(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "a");
        ledger.close();
        world.store().loseAnswerOfNext(FaultyStore.deletes(World.registryNode(name)), LOST);
        if (storage == Storage.STOCK) { // fails although the node is gone
            assertThat(failure(() -> world.factory().delete(name))).hasStackTraceContaining("the answer was lost");
        } else {
            world.factory().delete(name);
            assertThat(world.store().faultsMet()).isTrue();
        }
        assertThat(await(world.factory().asyncExists(name))).isFalse();
        assertThat(world.open(name).getNumberOfEntries()).isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCursorReadThatFailsAtOpenFailsTheOpenAndLosesNoAck_case_014(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = ledger.openCursor("c");
        List<Position> positions = Ledgers.addMany(ledger, 100);
        for (int i = 0; i < 100; i += 2) {
            cursor.delete(positions.get(i));
        }
        world.restart();
        world.store().failEvery(call -> storage == Storage.NEREUS || call.path().endsWith("/c"),
            new MetadataStoreException("the store is away"));
        assertThat(failure(() -> world.open(name))).hasStackTraceContaining("the store is away");
        world.store().reset();
        assertThat(world.open(name).openCursor("c").getNumberOfEntriesInBacklog(true)).isEqualTo(50);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anOwnerThatWasReplacedNeverChangesAnythingAgain_case_004(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger old = world.open(name);
        ManagedCursor oldCursor = old.openCursor("c");
        List<Position> positions = Ledgers.addMany(old, 3);
        ManagedLedgerFactory other = world.secondBroker();
        ManagedLedger owner = other.open(name, world.config());
        assertThat(failure(() -> add(old, "late"))).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(() -> add(old, "again"))).isInstanceOf(ManagedLedgerFencedException.class);
        if (storage == Storage.STOCK) { // its cursors are not fenced: a late ack spoils the new owner's versions
            assertThat(owner.getNumberOfEntries()).isEqualTo(3);
            return;
        }
        assertThat(failure(() -> old.setProperty("k", "late"))).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(() -> oldCursor.markDelete(positions.get(2)))).isInstanceOf(ManagedLedgerException.class);
        assertThat(failure(old::terminate)).isInstanceOf(ManagedLedgerException.class);
        CompletableFuture<Void> trimmed = new CompletableFuture<>();
        old.trimConsumedLedgersInBackground(trimmed);
        await(trimmed.handle((done, failure) -> null));
        assertThat(owner.getNumberOfEntries()).isEqualTo(3);
        assertThat(owner.getProperties()).doesNotContainKey("k");
        add(owner, "b");
        assertThat(owner.openCursor("c").getNumberOfEntriesInBacklog(true)).isEqualTo(4);
        owner.close();
        assertThat(other.open(name, world.config()).getNumberOfEntries()).isEqualTo(4);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aLateCloseOfTheOldOwnerDoesNotSpoilTheNewOne_case_066(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger old = world.open(name);
        ManagedCursor oldCursor = old.openCursor("c");
        List<Position> positions = Ledgers.addMany(old, 3);
        oldCursor.markDelete(positions.get(0));
        ManagedLedger owner = world.secondBroker().open(name, world.config());
        try {
            old.close();
        } catch (ManagedLedgerException e) {
            assertThat(e).as("a late close may say that it was too late").isNotNull();
        }
        ManagedCursor cursor = owner.openCursor("c");
        if (storage == Storage.STOCK) { // the late close moved the version of the cursor's node: acks fail now
            assertThat(failure(() -> cursor.markDelete(positions.get(1)))).isInstanceOf(ManagedLedgerException.BadVersionException.class);
            return;
        }
        for (Position position : positions) {
            cursor.markDelete(position);
        }
        add(owner, "b");
        owner.setProperty("k", "v");
        owner.close();
        world.restart();
        assertThat(world.open(name).openCursor("c").getMarkDeletedPosition()).isEqualTo(positions.get(2));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aHungOpenDoesNotBlockTheNameForEver_case_074(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        CompletableFuture<Void> until = new CompletableFuture<>();
        world.store().delayNext(FaultyStore.gets(World.registryNode(name)), until);
        var config = world.config();
        config.setMetadataOperationsTimeoutSeconds(3); // also what stock gives BookKeeper to make a ledger
        CompletableFuture<ManagedLedger> hung = Factories.open(world.factory(), name, config);
        long start = System.nanoTime(); // the open hangs from before
        Ledgers.await("the time-out of metadata operations", () -> System.nanoTime() - start > 3_200_000_000L);
        CompletableFuture<ManagedLedger> fresh = Factories.open(world.factory(), name, config);
        until.completeExceptionally(new MetadataStoreException("hung"));
        assertThat(failure(() -> await(hung))).hasStackTraceContaining("hung");
        ManagedLedger ledger = await(fresh);
        add(ledger, "a");
        assertThat(world.open(name)).isSameAs(ledger);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void metadataThatAreAwayDoNotStopAppendsReadsAndAcks(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursor cursor = ledger.openCursor("c");
        Position first = add(ledger, "a");
        cursor.markDelete(first);
        world.store().failEvery(call -> true, new MetadataStoreException("the store is away"));
        Position second = add(ledger, "b");
        assertThat(Ledgers.texts(cursor.readEntries(10))).containsExactly("b");
        cursor.markDelete(second);
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(second);
        world.store().reset();
    }
}
