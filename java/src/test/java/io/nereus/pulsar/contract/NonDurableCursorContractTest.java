package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.MarkDeleteCallback;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorNotFoundException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** The cursors of readers. */
public class NonDurableCursorContractTest extends ContractTest {

    /** What a C++ client makes of the entry id of "latest": it keeps 48 bits. */
    private static final long TRUNCATED_ENTRY_ID = (1L << 48) - 1;

    private static ManagedCursor reader(ManagedLedger ledger, Position start, InitialPosition initial)
            throws Exception {
        return ledger.newNonDurableCursor(start, "reader-" + UUID.randomUUID(), initial, false);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPositionIsTheLastOneAlreadyConsumed(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> positions = Ledgers.addMany(ledger, 6);
        for (int i = 0; i < 6; i++) {
            ManagedCursor cursor = ledger.newNonDurableCursor(positions.get(i), "after-" + i);
            assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(i));
            assertThat(cursor.getReadPosition()).isEqualTo(i < 5 ? positions.get(i + 1) : positions.get(5).getNext());
            assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(5 - i);
            assertThat(cursor.getNumberOfEntriesInBacklog(false)).isEqualTo(5 - i);
            assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(i + 1, 6));
        }
        ManagedCursor before = ledger.newNonDurableCursor(PositionFactory.create(positions.get(0).getLedgerId(), -1));
        assertThat(Reads.readAll(before)).isEqualTo(Reads.texts(0, 6));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void earliestAndLatestAreThePlacesThatTheyName(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor onEmpty = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "first");
        ManagedCursor latestOnEmpty = ledger.newNonDurableCursor(PositionFactory.LATEST, "first of latest");
        Ledgers.addMany(ledger, 4);
        assertThat(Reads.readAll(onEmpty)).isEqualTo(Reads.texts(0, 4));
        assertThat(Reads.readAll(latestOnEmpty)).isEqualTo(Reads.texts(0, 4));
        ManagedCursor earliest = ledger.newNonDurableCursor(PositionFactory.EARLIEST);
        ManagedCursor latest = ledger.newNonDurableCursor(PositionFactory.LATEST);
        assertThat(earliest.getNumberOfEntriesInBacklog(true)).isEqualTo(4);
        assertThat(latest.getNumberOfEntriesInBacklog(true)).isZero();
        assertThat(latest.readEntries(5)).isEmpty();
        Ledgers.add(ledger, "e4");
        assertThat(Reads.readAll(earliest)).isEqualTo(Reads.texts(0, 5));
        assertThat(Reads.readAll(latest)).containsExactly("e4");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void withoutAPlaceOrPastTheEndTheInitialPositionDecides(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> positions = Ledgers.addMany(ledger, 4);
        Position last = positions.get(3);
        List<Position> starts = new ArrayList<>();
        starts.add(null);
        starts.add(PositionFactory.LATEST);
        starts.add(PositionFactory.create(Long.MAX_VALUE, TRUNCATED_ENTRY_ID));
        starts.add(last.getNext());
        starts.add(PositionFactory.create(last.getLedgerId() + 1, 0));
        for (Position start : starts) {
            assertThat(Reads.readAll(reader(ledger, start, InitialPosition.Earliest))).as("%s", start)
                .isEqualTo(Reads.texts(0, 4));
            assertThat(Reads.readAll(reader(ledger, start, InitialPosition.Latest))).as("%s", start).isEmpty();
        }
        // a ledger id of -1 is "earliest", whatever the entry id
        assertThat(Reads.readAll(reader(ledger, PositionFactory.create(-1, 7), InitialPosition.Latest)))
            .isEqualTo(Reads.texts(0, 4));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acksOfAReaderAreAnsweredAndNothingOfItOutlivesIt(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        List<Position> positions = Ledgers.addMany(ledger, 6);
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        assertThat(reader.isDurable()).isFalse();
        reader.markDelete(positions.get(0));
        reader.delete(List.of(positions.get(2), positions.get(4)));
        assertThat(reader.getMarkDeletedPosition()).isEqualTo(positions.get(0));
        assertThat(reader.getNumberOfEntriesInBacklog(true)).isEqualTo(3);
        assertThat(Reads.readAll(reader)).containsExactly("e1", "e3", "e5");
        // nothing of it is persistent; stock 4.2 names the mark-delete position all the same
        assertThat(reader.getPersistentMarkDeletedPosition())
            .isIn(null, storage == Storage.STOCK ? positions.get(0) : null);
        Ledgers.failure(() -> reader.markDelete(positions.get(5).getNext()));
        reader.resetCursor(positions.get(1));
        assertThat(Reads.readAll(reader)).isEqualTo(Reads.texts(1, 6));
        world.restart();
        ledger = world.open(name);
        assertThat(ledger.getCursors()).isEmpty();
        assertThat(Reads.readAll(ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader")))
            .isEqualTo(Reads.texts(0, 6));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aNameHasOneCursor(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Ledgers.addMany(ledger, 3);
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        assertThat(ledger.newNonDurableCursor(PositionFactory.LATEST, "reader")).isSameAs(reader);
        ManagedCursor durable = Reads.earliest(ledger, "durable");
        assertThat(ledger.newNonDurableCursor(PositionFactory.LATEST, "durable")).isSameAs(durable);
        assertThat(ledger.newNonDurableCursor(PositionFactory.LATEST).getName())
            .isNotEqualTo(ledger.newNonDurableCursor(PositionFactory.LATEST).getName());
        assertThatThrownBy(() -> ledger.newNonDurableCursor(PositionFactory.LATEST, null))
            .isInstanceOf(NullPointerException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReaderIsDeletedByItsName(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Ledgers.addMany(ledger, 3);
        ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        assertThat(ledger.getCursors()).hasSize(1);
        ledger.deleteCursor("reader");
        assertThat(ledger.getCursors()).isEmpty();
        assertThat(Ledgers.failure(() -> ledger.deleteCursor("reader"))).isInstanceOf(CursorNotFoundException.class);
        assertThat(Reads.readAll(ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader"))).hasSize(3);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedLedgerMakesNoReader(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ledger.close();
        assertThat(Ledgers.failure(() -> ledger.newNonDurableCursor(PositionFactory.EARLIEST)))
            .isInstanceOf(ManagedLedgerException.class);
    }

    /** Analyze-backlog works on a copy: same place, same acks, nothing else in common. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDuplicateHasTheAcksOfItsOriginal(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setDeletionAtBatchIndexLevelEnabled(true);
        ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 8);
        cursor.markDelete(positions.get(1));
        cursor.delete(List.of(positions.get(3), positions.get(6)));
        Position batch = positions.get(5);
        cursor.delete(AckSetStateUtil.createPositionWithAckSet(batch.getLedgerId(), batch.getEntryId(),
            new long[] {0b0110}));
        assertThat(Reads.read(cursor, 2)).containsExactly("e2", "e4");
        ManagedCursor copy = cursor.duplicateNonDurableCursor("copy");
        assertThat(copy.isDurable()).isFalse();
        assertThat(copy.getName()).isEqualTo("copy");
        assertThat(copy.getMarkDeletedPosition()).isEqualTo(positions.get(1));
        assertThat(copy.isMessageDeleted(positions.get(3))).isTrue();
        assertThat(copy.getDeletedBatchIndexesAsLongArray(batch)).isEqualTo(new long[] {0b0110});
        assertThat(copy.getNumberOfEntriesInBacklog(true)).isEqualTo(4);
        assertThat(Reads.readAll(copy)).as("from the first unacknowledged entry").containsExactly("e2", "e4", "e5",
            "e7");
        copy.markDelete(positions.get(7));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(1));
        assertThat(cursor.isMessageDeleted(positions.get(4))).isFalse();
        cursor.delete(positions.get(4));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(3);
    }

    /** Stock would write the acks of the original into whatever cursor has that name. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDuplicateDoesNotTouchAnExistingCursorOfItsName(Storage storage) throws Exception {
        if (storage == Storage.STOCK) {
            ManagedLedger ledger = ledger(storage);
            ManagedCursor cursor = Reads.earliest(ledger, "sub");
            ManagedCursor taken = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "taken");
            assertThat(cursor.duplicateNonDurableCursor("taken")).isSameAs(taken);
            return;
        }
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        ManagedCursor durable = Reads.earliest(ledger, "durable");
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        List<Position> positions = Ledgers.addMany(ledger, 4);
        cursor.markDelete(positions.get(2));
        for (ManagedCursor taken : List.of(durable, reader)) {
            assertThat(Ledgers.failure(() -> cursor.duplicateNonDurableCursor(taken.getName())))
                .hasMessageContaining(taken.getName());
            assertThat(taken.getNumberOfEntriesInBacklog(true)).isEqualTo(4);
        }
        Ledgers.failure(() -> cursor.duplicateNonDurableCursor("sub"));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(2));
    }

    /** Cases 34 and 51: with everything trimmed readers find at most the last entry (case 93), and then the next one. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readersOfATrimmedLedgerStartAtItsEnd_case_034_case_051_case_093(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setMaxEntriesPerLedger(2);
        config.setRetentionTime(0, TimeUnit.MILLISECONDS);
        ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
        ManagedCursor durable = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 6);
        durable.markDelete(positions.get(5));
        trim(ledger);
        Position last = ledger.getLastConfirmedEntry();
        List<ManagedCursor> readers = new ArrayList<>();
        for (Position start : List.of(PositionFactory.EARLIEST, PositionFactory.LATEST, last, last.getNext(),
            positions.get(1), positions.get(3))) {
            readers.add(reader(ledger, start, InitialPosition.Latest));
        }
        for (ManagedCursor reader : readers) {
            // stock tells clients that there is no last message; we tell it, and a reader from before it finds it
            List<String> kept = storage == Storage.NEREUS && Set.of(0, 4, 5).contains(readers.indexOf(reader)) ? List.of("e5") : List.of();
            assertThat(reader.getNumberOfEntriesInBacklog(true)).as("backlog of %s", reader).isEqualTo(kept.size());
            assertThat(Ledgers.texts(reader.readEntries(10))).isEqualTo(kept);
            assertThat(reader.hasMoreEntries()).isFalse();
        }
        Ledgers.add(ledger, "e6");
        for (ManagedCursor reader : readers) {
            assertThat(Reads.readAll(reader)).as("what %s reads", reader).containsExactly("e6");
        }
    }

    /** Case 33: a cumulative ack of something trimmed never moves the read position past what is unread. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAckOfTrimmedEntriesSkipsNothing_case_033(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setMaxEntriesPerLedger(2);
        config.setRetentionTime(0, TimeUnit.MILLISECONDS);
        ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
        ManagedCursor durable = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 8);
        durable.markDelete(positions.get(3));
        trim(ledger);
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        CompletableFuture<Void> acked = new CompletableFuture<>();
        reader.asyncMarkDelete(positions.get(1), new MarkDeleteCallback() {
            @Override
            public void markDeleteComplete(Object ctx) {
                acked.complete(null);
            }

            @Override
            public void markDeleteFailed(ManagedLedgerException exception, Object ctx) {
                acked.complete(null); // it is acknowledged already, which is as good
            }
        }, null);
        Ledgers.await(acked);
        assertThat(Reads.readAll(reader)).isEqualTo(Reads.texts(4, 8));
        assertThat(reader.getNumberOfEntriesInBacklog(true)).isEqualTo(4);
    }

    private static void trim(ManagedLedger ledger) throws Exception {
        CompletableFuture<Void> trimmed = new CompletableFuture<>();
        ledger.trimConsumedLedgersInBackground(trimmed);
        Ledgers.await(trimmed);
    }

    /** Case 47: a reader made while the ledger is trimmed has the backlog of what it can read. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReaderMadeDuringATrimCountsWhatIsThere_case_047(Storage storage) throws Exception {
        for (int round = 0; round < 20; round++) {
            ManagedLedgerConfig config = world(storage).config();
            config.setMaxEntriesPerLedger(2);
            config.setRetentionTime(0, TimeUnit.MILLISECONDS);
            ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
            ManagedCursor durable = Reads.earliest(ledger, "sub");
            List<Position> positions = Ledgers.addMany(ledger, 9);
            CompletableFuture<Void> trimmed = new CompletableFuture<>();
            durable.markDelete(positions.get(5));
            ledger.trimConsumedLedgersInBackground(trimmed);
            ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
            Ledgers.await(trimmed);
            long backlog = reader.getNumberOfEntriesInBacklog(true);
            assertThat(reader.getNumberOfEntriesInBacklog(false)).isEqualTo(backlog);
            assertThat(Reads.readAll(reader)).hasSize((int) backlog).endsWith("e8");
        }
    }
}
