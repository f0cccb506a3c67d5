package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static io.nereus.pulsar.contract.ShadowContractTest.shadowOf;
import static io.nereus.pulsar.contract.ShadowContractTest.tell;
import static io.nereus.pulsar.contract.Storage.NEREUS;
import static io.nereus.pulsar.contract.Storage.STOCK;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** What a shadow keeps, and what happens to it when something happens to its source. */
public class ShadowRestartContractTest extends ContractTest {

    private static ManagedCursor earliest(ManagedLedger ledger, String name) throws Exception {
        return ledger.openCursor(name, InitialPosition.Earliest);
    }

    /** Acknowledges in all three ways: up to e1, and e3. */
    private static void acknowledge(ManagedCursor cursor, List<Position> all) throws Exception {
        cursor.markDelete(all.get(1));
        cursor.delete(all.get(3));
    }

    private static void assertAcknowledged(ManagedLedger shadow, List<Position> all) throws Exception {
        assertThat(shadow.getLastConfirmedEntry()).isEqualTo(all.get(all.size() - 1));
        ManagedCursor cursor = earliest(shadow, "c");
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(all.get(1));
        assertThat(texts(cursor.readEntries(10))).containsExactly("e2", "e4");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void cursorsOfAShadowSurviveARestart(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger source = world.open(world.freshName());
        List<Position> all = addMany(source, 5);
        String name = world.freshName();
        ManagedLedgerConfig config = shadowOf(world, source.getName());
        acknowledge(earliest(world.open(name, config), "c"), all);
        world.restart();
        assertAcknowledged(world.open(name, config), all);
    }

    /** Partitions are such topics until somebody uses them. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSourceThatWasOnlyCreatedByAnAdminIsThere(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String sourceName = world.freshName();
        await(world.store().direct().put(World.registryNode(sourceName), new byte[0], Optional.of(-1L)));
        ManagedLedger shadow = world.open(world.freshName(), shadowOf(world, sourceName));
        if (storage == STOCK) { // it opens, and has no position to begin a subscription at
            assertThat(shadow.getLedgersInfo()).isEmpty();
            return;
        }
        ManagedCursor cursor = earliest(shadow, "c");
        assertThat(cursor.hasMoreEntries()).isFalse();
        Position first = add(world.open(sourceName), "one");
        assertThat(tell(shadow, first, "one")).isEqualTo(first);
        assertThat(texts(cursor.readEntries(1))).containsExactly("one");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void cursorsOfAShadowSurviveACrash(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger source = world.open(world.freshName());
        List<Position> all = addMany(source, 5);
        String name = world.freshName();
        ManagedLedgerConfig config = shadowOf(world, source.getName());
        ManagedLedger shadow = world.open(name, config);
        ManagedCursor cursor = earliest(shadow, "c");
        acknowledge(cursor, all);
        Position late = add(source, "late");
        tell(shadow, late, "late");
        world.crash();
        ManagedLedger again = world.open(name, config);
        if (storage == STOCK) { // the source's open ledger was never closed, and its last entries may not be seen yet
            assertThat(again.getCursors()).hasSize(1);
            return;
        }
        assertThat(again.getLastConfirmedEntry()).isEqualTo(late);
        assertThat(texts(earliest(again, "c").readEntries(10))).containsExactly("e2", "e4", "late");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletingAShadowLeavesItsSource(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger source = world.open(world.freshName());
        addMany(source, 2);
        String name = world.freshName();
        ManagedLedger shadow = world.open(name, shadowOf(world, source.getName()));
        earliest(shadow, "c");
        shadow.delete();
        assertThat(await(world.factory().asyncExists(name))).isFalse();
        ManagedCursor reader = earliest(source, "c");
        if (storage == STOCK) { // it deletes the ledgers it shows, which are the source's; a cache may still have them
            assertThat(source.getNumberOfEntries()).isEqualTo(2);
            return;
        }
        assertThat(texts(reader.readEntries(10))).containsExactly("e0", "e1");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void truncatingAShadowAcknowledgesAndLeavesItsSource(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger source = world.open(world.freshName());
        addMany(source, 3);
        ManagedCursor ofSource = earliest(source, "c");
        ManagedLedger shadow = world.open(world.freshName(), shadowOf(world, source.getName()));
        ManagedCursor cursor = earliest(shadow, "c");
        if (storage == STOCK) { // it closes the ledger it shows, for a next one that a shadow never makes
            assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(3);
            return;
        }
        await(shadow.asyncTruncate());
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
        CompletableFuture<Void> trimmed = new CompletableFuture<>();
        shadow.trimConsumedLedgersInBackground(trimmed);
        await(trimmed);
        assertThat(shadow.getNumberOfEntries()).isEqualTo(3);
        assertThat(texts(ofSource.readEntries(10))).containsExactly("e0", "e1", "e2");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whatTheSourceLetsGoOfIsAcknowledgedForTheShadowsCursors(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedgerConfig few = world.config();
        few.setMaxEntriesPerLedger(2).setMinimumRolloverTime(0, TimeUnit.SECONDS);
        ManagedLedger source = world.open(world.freshName(), few);
        ManagedCursor ofSource = earliest(source, "c");
        List<Position> all = addMany(source, 5);
        ManagedLedger shadow = world.open(world.freshName(), shadowOf(world, source.getName()));
        ManagedCursor cursor = earliest(shadow, "c");
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(5);
        ofSource.markDelete(all.get(3));
        await("the source lets go of what is consumed", () -> {
            CompletableFuture<Void> trimmed = new CompletableFuture<>();
            source.trimConsumedLedgersInBackground(trimmed);
            await(trimmed);
            return source.getNumberOfEntries() == 1;
        });
        await("the shadow follows", () -> {
            if (storage == NEREUS) { // stock watches the source's metadata
                CompletableFuture<Void> followed = new CompletableFuture<>();
                shadow.trimConsumedLedgersInBackground(followed);
                await(followed);
            }
            return cursor.getNumberOfEntriesInBacklog(true) == 1;
        });
        assertThat(texts(cursor.readEntries(10))).containsExactly("e4");
    }

    /** Without a retention check in between: the read itself finds out. */
    @Test
    public void aReadOfWhatTheSourceHasLetGoOfGoesOnBehindIt() throws Exception {
        World world = freshWorld(NEREUS);
        ManagedLedger source = world.open(world.freshName());
        List<Position> all = addMany(source, 4);
        ManagedLedger shadow = world.open(world.freshName(), shadowOf(world, source.getName()));
        ManagedCursor cursor = earliest(shadow, "c");
        earliest(source, "c");
        await(source.asyncTruncate());
        Position next = add(source, "next");
        tell(shadow, next, "next");
        assertThat(texts(cursor.readEntries(10))).containsExactly("next");
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(all.get(3));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(1);
    }

    /** The source went past what the shadow was told of. */
    @Test
    public void aSourceThatLetsGoOfMoreThanTheShadowKnowsMovesItsEndForward() throws Exception {
        World world = freshWorld(NEREUS);
        ManagedLedger source = world.open(world.freshName());
        ManagedLedger shadow = world.open(world.freshName(), shadowOf(world, source.getName()));
        ManagedCursor cursor = earliest(shadow, "c");
        List<Position> all = addMany(source, 3);
        earliest(source, "c");
        await(source.asyncTruncate());
        CompletableFuture<Void> followed = new CompletableFuture<>();
        shadow.trimConsumedLedgersInBackground(followed);
        await(followed);
        assertThat(shadow.getLastConfirmedEntry()).isEqualTo(all.get(2));
        assertThat(shadow.getNumberOfEntries()).isZero();
        assertThat(cursor.hasMoreEntries()).isFalse();
    }

    @Test
    public void cursorsBeginAgainAtTheFirstEntryOfASourceThatWasCreatedAnew() throws Exception {
        World world = freshWorld(NEREUS);
        String sourceName = world.freshName();
        ManagedLedger source = world.open(sourceName);
        List<Position> old = addMany(source, 3);
        String name = world.freshName();
        ManagedLedgerConfig config = shadowOf(world, sourceName);
        ManagedLedger shadow = world.open(name, config);
        ManagedCursor cursor = earliest(shadow, "c");
        cursor.markDelete(old.get(0));
        await(cursor.putCursorProperty("kept", "yes"));
        cursor.delete(old.get(2));
        source.delete();
        assertThat(failure(() -> tell(shadow, old.get(2), "x"))).hasMessageContaining(sourceName);
        add(world.open(sourceName), "new");
        for (int open = 0; open < 2; open++) {
            ManagedCursor again = earliest(world.open(name, config), "c");
            assertThat(again.getCursorProperties()).containsEntry("kept", "yes");
            assertThat(texts(again.readEntries(10))).containsExactly("new");
            world.restart();
        }
    }

    @Test
    public void aReadOfADeletedSourceIsRefusedAsFenced() throws Exception {
        World world = freshWorld(NEREUS);
        ManagedLedger source = world.open(world.freshName());
        addMany(source, 3);
        ManagedLedger shadow = world.open(world.freshName(), shadowOf(world, source.getName()));
        ManagedCursor cursor = earliest(shadow, "c");
        source.delete();
        assertThat(failure(() -> texts(cursor.readEntries(1))))
            .isInstanceOf(ManagedLedgerException.ManagedLedgerFencedException.class);
    }

    @Test
    public void aLedgerWithEntriesAndAShadowOfAShadowAreRefusedByName() throws Exception {
        World world = freshWorld(NEREUS);
        ManagedLedger source = world.open(world.freshName());
        ManagedLedger own = world.open(world.freshName());
        add(own, "mine");
        own.close();
        assertThat(failure(() -> world.open(own.getName(), shadowOf(world, source.getName()))))
            .hasMessageContaining("1 entries of its own");
        ManagedLedger shadow = world.open(world.freshName(), shadowOf(world, source.getName()));
        assertThat(failure(() -> world.open(world.freshName(), shadowOf(world, shadow.getName()))))
            .hasMessageContaining("a shadow of " + source.getName());
        assertThat(texts(earliest(world.open(own.getName()), "c").readEntries(1))).containsExactly("mine");
    }

    @Test
    public void reportsAndReadingWithoutOwningShowWhatTheShadowShows() throws Exception {
        World world = freshWorld(NEREUS);
        ManagedLedger source = world.open(world.freshName());
        List<Position> all = addMany(source, 3);
        String name = world.freshName();
        ManagedLedger shadow = world.open(name, shadowOf(world, source.getName()));
        earliest(shadow, "c").markDelete(all.get(0));
        shadow.close();
        ReadOnlyCursor reader =
            world.factory().openReadOnlyCursor(name, PositionFactory.EARLIEST, world.config());
        assertThat(texts(reader.readEntries(10))).containsExactly("e0", "e1", "e2");
        reader.close();
        var info = world.factory().getManagedLedgerInfo(name);
        assertThat(info.cursors.get("c").markDelete.entryId).isEqualTo(all.get(0).getEntryId());
        assertThat(info.ledgers.get(0).entries).isEqualTo(3);
        assertThat(info.properties).containsOnlyKeys(ManagedLedgerConfig.PROPERTY_SOURCE_TOPIC_KEY);
        assertThat(await(world.factory().getManagedLedgerPropertiesAsync(name)))
            .containsOnlyKeys(ManagedLedgerConfig.PROPERTY_SOURCE_TOPIC_KEY);
        ManagedLedger again = world.open(name, shadowOf(world, source.getName()));
        again.setProperty("other", "1");
        assertThat(again.getProperties()).containsOnlyKeys(ManagedLedgerConfig.PROPERTY_SOURCE_TOPIC_KEY, "other");
    }
}
