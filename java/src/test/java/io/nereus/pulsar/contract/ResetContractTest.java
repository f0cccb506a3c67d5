package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.MarkDeleteCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ConcurrentFindCursorPositionException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** Resets: a cursor goes to another place and forgets what it acknowledged. */
public class ResetContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void afterAResetTheEntryAtThePlaceIsNext(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 10);
        cursor.markDelete(positions.get(6));
        cursor.delete(positions.get(8));
        Answer<Object> back = Reads.reset(cursor, positions.get(3), false);
        assertThat(back.get()).as("the answer names the new read position").isEqualTo(positions.get(3));
        assertThat(back.calls()).isEqualTo(1);
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(3));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(2));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(7);
        if (storage == Storage.STOCK) {
            assertThat(cursor.getNumberOfEntriesInBacklog(false)).as("the counter of 4.0 drifts").isIn(6L, 7L);
        } else {
            assertThat(cursor.getNumberOfEntriesInBacklog(false)).isEqualTo(7);
        }
        assertThat(cursor.getTotalNonContiguousDeletedMessagesRange()).isZero();
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(3, 10));
        cursor.resetCursor(positions.get(8));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(7));
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(8, 10));
        cursor.markDelete(positions.get(9));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void earliestAndLatestAreResolvedFirst(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 5);
        assertThat(Reads.reset(cursor, PositionFactory.LATEST, false).get()).isEqualTo(positions.get(4).getNext());
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(4));
        assertThat(cursor.hasMoreEntries()).isFalse();
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
        Object earliest = Reads.reset(cursor, PositionFactory.EARLIEST, false).get();
        // stock stands before the first entry, Nereus at it: the next read begins there in both
        assertThat(earliest).isEqualTo(cursor.getReadPosition())
            .isEqualTo(storage == Storage.STOCK ? ledger.getFirstPosition() : positions.get(0));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(ledger.getFirstPosition());
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(5);
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(0, 5));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aResetOfAnEmptyLedgerWaitsForTheFirstEntry(Storage storage) throws Exception {
        for (Position place : List.of(PositionFactory.EARLIEST, PositionFactory.LATEST)) {
            ManagedLedger ledger = ledger(storage);
            ManagedCursor cursor = Reads.earliest(ledger, "sub");
            Reads.reset(cursor, place, false).get();
            Ledgers.add(ledger, "e0");
            assertThat(Reads.readAll(cursor)).containsExactly("e0");
        }
    }

    /** Case 37: a place that lies past everything means the end, never some other entry of this ledger. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPlacePastEverythingIsTheEnd_case_037(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 5);
        Position last = positions.get(4);
        List<Position> beyond = List.of(last.getPositionAfterEntries(98),
            PositionFactory.create(last.getLedgerId() + 25, 98));
        for (Position place : beyond) {
            assertThat(Reads.reset(cursor, place, false).get()).isEqualTo(last.getNext());
            assertThat(cursor.getMarkDeletedPosition()).isEqualTo(last);
            assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
            ManagedCursor reader = ledger.newNonDurableCursor(place, "reader-" + place);
            assertThat(reader.getNumberOfEntriesInBacklog(true)).isZero();
            assertThat(reader.readEntries(1)).isEmpty();
        }
        Ledgers.add(ledger, "e5");
        assertThat(Reads.readAll(cursor)).containsExactly("e5");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPlaceBeforeEverythingIsTheFirstEntry(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 5);
        Position first = positions.get(0);
        cursor.markDelete(positions.get(3));
        for (Position place : List.of(PositionFactory.create(first.getLedgerId(), -1),
            PositionFactory.create(first.getLedgerId() - 3, 70))) {
            assertThat(Reads.reset(cursor, place, false).get()).isEqualTo(first);
            assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(0, 5));
        }
    }

    /** Forced, a place is taken as it is: compacted data may lie there. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aForcedResetReadsOnFromTheNextEntryThatExists(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 5);
        cursor.markDelete(positions.get(3));
        assertThat(Reads.reset(cursor, positions.get(1), true).get()).isEqualTo(positions.get(1));
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(1, 5));
        Reads.reset(cursor, PositionFactory.EARLIEST, true).get();
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(0, 5));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aResetForgetsPositionPropertiesButKeepsThoseOfTheCursor(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = ledger.openCursor("sub", InitialPosition.Earliest, Map.of(), Map.of("owner", "me"));
        List<Position> positions = Ledgers.addMany(ledger, 4);
        cursor.markDelete(positions.get(2), Map.of("sequence", 7L));
        assertThat(cursor.getProperties()).isEqualTo(Map.of("sequence", 7L));
        cursor.resetCursor(positions.get(1));
        assertThat(cursor.getProperties()).isEmpty();
        assertThat(cursor.getCursorProperties()).isEqualTo(Map.of("owner", "me"));
    }

    /**
     * The cursor of compaction keeps its mark-delete position and its properties: without them the compacted data would
     * be forgotten. Only reading goes elsewhere, and leaves out what is acknowledged.
     */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theCompactionCursorKeepsItsMarkDeletePositionAndProperties(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "__compaction");
        List<Position> positions = Ledgers.addMany(ledger, 5);
        cursor.markDelete(positions.get(2), Map.of("CompactedTopicLedger", 7L));
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(3, 5));
        assertThat(Reads.reset(cursor, positions.get(1), false).get()).isEqualTo(positions.get(1));
        assertThat(cursor.getProperties()).isEqualTo(Map.of("CompactedTopicLedger", 7L));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(1));
        if (storage == Storage.STOCK) {
            // stock 4.0 moves the mark-delete position all the same, 4.2 does not
            assertThat(cursor.getMarkDeletedPosition()).isIn(positions.get(0), positions.get(2));
            return;
        }
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(2));
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(3, 5));
        cursor.resetCursor(positions.get(4));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(2));
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(4, 5));
    }

    /** A seek to a message within a batch: what lies before it in the batch stays acknowledged. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aResetTakesOverTheAckSetOfItsPosition(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setDeletionAtBatchIndexLevelEnabled(true);
        ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 4);
        Position third = positions.get(2);
        cursor.delete(AckSetStateUtil.createPositionWithAckSet(positions.get(1).getLedgerId(),
            positions.get(1).getEntryId(), new long[] {0b0001}));
        Position place = AckSetStateUtil.createPositionWithAckSet(third.getLedgerId(), third.getEntryId(),
            new long[] {0b1100});
        Reads.reset(cursor, place, false).get();
        assertThat(cursor.getDeletedBatchIndexesAsLongArray(third)).isEqualTo(new long[] {0b1100});
        assertThat(cursor.getDeletedBatchIndexesAsLongArray(positions.get(1))).as("forgotten").isNull();
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(2, 4));
    }

    /** A subscription that was reset is in use. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aResetCountsAsActivity(Storage storage) throws Exception {
        // stock asks the clock of the machine, Nereus the one that was configured
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 2);
        long before = cursor.getLastActive();
        if (storage == Storage.STOCK) {
            Ledgers.await("the clock moves", () -> System.currentTimeMillis() > before);
        } else {
            world(storage).clock().advance(Duration.ofSeconds(5));
        }
        cursor.resetCursor(PositionFactory.EARLIEST);
        assertThat(cursor.getLastActive()).isGreaterThan(before);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitingReadGoesOnFromTheNewPlace(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setNewEntriesCheckDelayInMillis(0);
        ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 3);
        assertThat(Reads.readAll(cursor)).hasSize(3);
        Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10);
        cursor.resetCursor(positions.get(1));
        if (storage == Storage.STOCK) {
            assertThat(wait.isDone()).as("stock reads on with the next entry").isFalse();
            Ledgers.add(ledger, "e3");
            assertThat(Ledgers.texts(wait.get())).isEqualTo(Reads.texts(1, 4));
            return;
        }
        assertThat(Ledgers.texts(wait.get())).isEqualTo(Reads.texts(1, 3));
    }

    /** Case 10: after a crash the entry at the place of a reset, or the first one after "latest", is delivered. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whatAResetPromisesSurvivesACrash_case_010(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor onEmpty = Reads.earliest(ledger, "reset on empty");
        onEmpty.resetCursor(PositionFactory.LATEST);
        Reads.latest(ledger, "created on empty");
        List<Position> positions = Ledgers.addMany(ledger, 4);
        Reads.latest(ledger, "created at latest");
        ManagedCursor toLatest = Reads.earliest(ledger, "reset to latest");
        toLatest.resetCursor(PositionFactory.LATEST);
        ManagedCursor toPlace = Reads.earliest(ledger, "reset to place");
        toPlace.markDelete(positions.get(3));
        toPlace.resetCursor(positions.get(2));
        Ledgers.add(ledger, "e4");
        world.crash();
        ManagedLedger recovered = world.open(name);
        assertThat(Reads.readAll(Reads.latest(recovered, "created on empty"))).isEqualTo(Reads.texts(0, 5));
        assertThat(Reads.readAll(Reads.latest(recovered, "reset on empty"))).isEqualTo(Reads.texts(0, 5));
        assertThat(Reads.readAll(Reads.latest(recovered, "created at latest"))).isEqualTo(Reads.texts(4, 5));
        assertThat(Reads.readAll(Reads.latest(recovered, "reset to latest"))).isEqualTo(Reads.texts(4, 5));
        assertThat(Reads.readAll(Reads.latest(recovered, "reset to place"))).isEqualTo(Reads.texts(2, 5));
    }

    /** Case 85: also if it is the first thing that happens to a cursor after a reopen. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aResetRightAfterAReopenSurvivesACrash_case_085(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        List<Position> positions = Ledgers.addMany(ledger, 6);
        Reads.latest(ledger, "reset");
        Reads.earliest(ledger, "acked").markDelete(positions.get(0));
        world.restart();
        ledger = world.open(name);
        Reads.latest(ledger, "reset").resetCursor(positions.get(3));
        Reads.latest(ledger, "acked").delete(positions.get(2));
        world.crash();
        ledger = world.open(name);
        assertThat(Reads.readAll(Reads.latest(ledger, "reset"))).isEqualTo(Reads.texts(3, 6));
        assertThat(Reads.readAll(Reads.latest(ledger, "acked"))).containsExactly("e1", "e3", "e4", "e5");
    }

    /**
     * A second reset, and a mark-delete, are refused while one is under way. What happens in one callback happens
     * before the reset that it started can end.
     */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whileAResetIsUnderWayOthersAreRefused(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 6);
        CompletableFuture<Void> hold = new CompletableFuture<>();
        // stock keeps the first acknowledgement of a cursor only after a write to the metadata store
        world.store().delayNext(FaultyStore.puts(World.registryNode(name)), hold);
        List<Answer<Object>> resets = new ArrayList<>();
        CompletableFuture<Void> marked = new CompletableFuture<>();
        Answer<List<Entry>> onExecutor = new Answer<List<Entry>>().within(() -> {
            resets.add(Reads.reset(cursor, positions.get(1), false));
            resets.add(Reads.reset(cursor, positions.get(2), false));
            Answer<List<Entry>> behind = new Answer<List<Entry>>().within(
                () -> markDelete(cursor, positions.get(3), marked));
            cursor.asyncReadEntries(1, Answer.entries(behind), null, PositionFactory.LATEST);
        });
        cursor.asyncReadEntries(6, Answer.entries(onExecutor), null, PositionFactory.LATEST);
        onExecutor.get().forEach(Entry::release);
        assertThat(resets.get(1).failure()).isInstanceOf(ConcurrentFindCursorPositionException.class);
        assertThat(Ledgers.failure(() -> Ledgers.await(marked))).hasMessageMatching("(?i).*reset.*");
        hold.complete(null);
        assertThat(resets.get(0).get()).isEqualTo(positions.get(1));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(0));
        cursor.resetCursor(positions.get(4));
        cursor.markDelete(positions.get(5));
        assertThat(resets).allMatch(reset -> reset.calls() == 1);
    }

    private static void markDelete(ManagedCursor cursor, Position position, CompletableFuture<Void> done) {
        cursor.asyncMarkDelete(position, new MarkDeleteCallback() {
            @Override
            public void markDeleteComplete(Object ctx) {
                done.complete(null);
            }

            @Override
            public void markDeleteFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void resetsAtOnceAllEndAndTheCursorWorksOn(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 10);
        List<Answer<Object>> resets = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            resets.add(Reads.reset(cursor, positions.get(i % 10), false));
        }
        for (Answer<Object> reset : resets) {
            reset.await();
            if (reset.failed()) {
                assertThat(reset.failure()).isInstanceOf(ConcurrentFindCursorPositionException.class);
            }
        }
        assertThat(resets).allMatch(reset -> reset.calls() == 1).anyMatch(reset -> !reset.failed());
        cursor.resetCursor(positions.get(5));
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(5, 10));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedCursorIsNotReset(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 3);
        cursor.close();
        Answer<Object> reset = Reads.reset(cursor, positions.get(1), false);
        reset.failure();
        assertThat(reset.calls()).isEqualTo(1);
        assertThat(cursor.getMarkDeletedPosition()).isNotEqualTo(positions.get(0));
    }
}
