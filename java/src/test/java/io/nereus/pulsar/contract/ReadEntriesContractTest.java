package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.netty.util.ReferenceCounted;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

/** Reads that do not wait. */
public class ReadEntriesContractTest extends ContractTest {

    private static final int ENTRY_BYTES = 936;

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void entriesComeInOrderAndTheReadPositionMovesOn(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 5);
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(0));
        assertThat(cursor.getNumberOfEntries()).isEqualTo(5);
        List<Entry> entries = cursor.readEntries(3);
        assertThat(entries).extracting(Entry::getPosition).containsExactlyElementsOf(positions.subList(0, 3));
        assertThat(Ledgers.texts(entries)).isEqualTo(Reads.texts(0, 3));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(3));
        assertThat(cursor.getNumberOfEntries()).isEqualTo(2);
        assertThat(cursor.hasMoreEntries()).isTrue();
        assertThat(Reads.read(cursor, 10)).isEqualTo(Reads.texts(3, 5));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(4).getNext());
        assertThat(cursor.hasMoreEntries()).isFalse();
        assertThat(cursor.getNumberOfEntries()).isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readingDoesNotAcknowledge(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Position before = cursor.getMarkDeletedPosition();
        Ledgers.addMany(ledger, 4);
        assertThat(Reads.read(cursor, 4)).hasSize(4);
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(before);
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(4);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReadOfAnEmptyLedgerAndAtTheEndIsAnEmptyList(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        assertThat(cursor.readEntries(10)).isEmpty();
        Ledgers.add(ledger, "e0");
        assertThat(Reads.read(cursor, 10)).containsExactly("e0");
        assertThat(cursor.readEntries(10)).isEmpty();
        Ledgers.add(ledger, "e1");
        assertThat(Reads.read(cursor, 10)).containsExactly("e1");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void cursorsReadIndependently(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor one = Reads.earliest(ledger, "one");
        ManagedCursor two = Reads.earliest(ledger, "two");
        Ledgers.addMany(ledger, 4);
        assertThat(Reads.read(one, 3)).isEqualTo(Reads.texts(0, 3));
        assertThat(Reads.read(two, 2)).isEqualTo(Reads.texts(0, 2));
        assertThat(Reads.read(one, 3)).isEqualTo(Reads.texts(3, 4));
        assertThat(Reads.read(two, 3)).isEqualTo(Reads.texts(2, 4));
    }

    /** Dispatchers replace and remove elements. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theListIsMutable(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        assertMutable(cursor.readEntries(5));
        Ledgers.addMany(ledger, 3);
        List<Entry> read = cursor.readEntries(5);
        Entry first = read.get(0);
        read.set(0, read.get(1));
        read.set(1, first);
        read.remove(2).release();
        assertThat(Ledgers.texts(read)).containsExactly("e1", "e0");
        assertMutable(Reads.readOrWait(Reads.earliest(ledger, "sub2"), 1).get());
        assertMutable(cursor.replayEntries(Set.of()));
    }

    private static void assertMutable(List<Entry> entries) {
        entries.forEach(Entry::release);
        entries.clear();
        entries.add(null);
        entries.set(0, null);
        assertThat(entries).hasSize(1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void eachEntryHasOneReferenceOwnedByTheReceiver(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 3);
        List<Entry> entries = cursor.readEntries(3);
        assertThat(entries).allMatch(entry -> ((ReferenceCounted) entry).refCnt() == 1);
        assertThat(entries).allMatch(Entry::release, "the release of the last reference");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReadStopsAtItsMaximumPositionWhichIsIncluded(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 5);
        assertThat(Ledgers.texts(Reads.readLater(cursor, 10, Reads.NO_LIMIT, positions.get(1)).get()))
            .isEqualTo(Reads.texts(0, 2));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(2));
        assertThat(Reads.readLater(cursor, 10, Reads.NO_LIMIT, positions.get(1)).get()).isEmpty();
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(2));
        assertThat(Ledgers.texts(Reads.readLater(cursor, 10, Reads.NO_LIMIT, null).get()))
            .isEqualTo(Reads.texts(2, 5));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theNumberOfEntriesIsAHardLimit(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 20);
        cursor.delete(List.of(positions.get(1), positions.get(2), positions.get(4)));
        List<String> expected = new ArrayList<>(Reads.texts(0, 20));
        expected.removeAll(List.of("e1", "e2", "e4"));
        for (int read = 0; read < 15; read += 5) {
            assertThat(Reads.read(cursor, 5)).isEqualTo(expected.subList(read, read + 5));
        }
        assertThatThrownBy(() -> cursor.readEntries(0)).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> Reads.readLater(cursor, 0)).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> Reads.readLater(cursor, -1)).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> Reads.readOrWait(cursor, 0)).isInstanceOf(IllegalArgumentException.class);
    }

    /** The limit is soft: stock estimates from the average, Nereus counts the bytes. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void bytesLimitAReadButOneEntryComesInAnyCase(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        for (int i = 0; i < 20; i++) {
            ledger.addEntry(new byte[ENTRY_BYTES]);
        }
        assertThat(Ledgers.texts(Reads.readLater(cursor, 10, 1, PositionFactory.LATEST).get())).hasSize(1);
        List<String> three = Ledgers.texts(Reads.readLater(cursor, 10, 3000, PositionFactory.LATEST).get());
        assertThat(three).hasSizeBetween(2, 4);
        assertThat(Ledgers.texts(Reads.readLater(cursor, 10, Long.MAX_VALUE, PositionFactory.LATEST).get()))
            .hasSize(10);
        assertThat(Ledgers.texts(Reads.readLater(cursor, 20, Reads.NO_LIMIT, PositionFactory.LATEST).get()))
            .hasSize(9 - three.size());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theSizeCapIsAnEstimateOfEntriesAndNeverZero(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        for (int i = 0; i < 20; i++) {
            ledger.addEntry(new byte[ENTRY_BYTES]);
        }
        assertThat(cursor.applyMaxSizeCap(50, 10_000)).isEqualTo(10);
        assertThat(cursor.applyMaxSizeCap(5, 10_000)).isEqualTo(5);
        assertThat(cursor.applyMaxSizeCap(50, 1)).isEqualTo(1);
        assertThat(cursor.applyMaxSizeCap(50, -1)).isEqualTo(50);
        assertThat(cursor.applyMaxSizeCap(50, Long.MAX_VALUE)).isEqualTo(50);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acknowledgedEntriesAreLeftOut(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 8);
        cursor.delete(List.of(positions.get(1), positions.get(3), positions.get(4), positions.get(7)));
        assertThat(cursor.getNumberOfEntries()).isEqualTo(4);
        assertThat(Reads.read(cursor, 10)).containsExactly("e0", "e2", "e5", "e6");
        assertThat(cursor.hasMoreEntries()).isFalse();
        assertThat(cursor.readEntries(10)).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aMarkDeleteAheadTakesTheReadPositionAlong(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 6);
        cursor.markDelete(positions.get(3));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(4));
        assertThat(Reads.read(cursor, 10)).isEqualTo(Reads.texts(4, 6));
    }

    /** Case 93: whether more is there agrees with what a read would find. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void hasMoreEntriesAgreesWithARead_case_093(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 4);
        cursor.delete(List.of(positions.get(2), positions.get(3)));
        assertThat(Reads.read(cursor, 2)).isEqualTo(Reads.texts(0, 2));
        // stock compares positions: it says yes although nothing is left to read
        assertThat(cursor.hasMoreEntries()).isEqualTo(storage == Storage.STOCK);
        assertThat(cursor.getNumberOfEntries()).isZero();
        assertThat(cursor.readEntries(1)).isEmpty();
        assertThat(cursor.hasMoreEntries()).isFalse();
        cursor.seek(positions.get(3).getPositionAfterEntries(3));
        assertThat(cursor.hasMoreEntries()).isFalse();
        assertThat(cursor.readEntries(1)).isEmpty();
        Ledgers.add(ledger, "e4");
        cursor.rewind();
        assertThat(cursor.hasMoreEntries()).isTrue();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whatTheSkipConditionNamesIsPassedOver(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 10);
        cursor.delete(positions.get(3));
        assertThat(Ledgers.texts(Reads.readSkipping(cursor, 3, position -> position.getEntryId() % 2 == 0).get()))
            .containsExactly("e1", "e5", "e7");
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(8));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).as("skipping does not acknowledge").isEqualTo(9);
        assertThat(Reads.readSkipping(cursor, 3, position -> true).get()).isEmpty();
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(9).getNext());
        cursor.rewind();
        assertThat(Reads.readAll(cursor)).hasSize(9);
    }

    /** Stock may deliver an entry to two reads at once; Nereus delivers it to one. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readsAtOnceDeliverEverything(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 100);
        List<Answer<List<Entry>>> reads = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            reads.add(Reads.readLater(cursor, 10));
        }
        List<String> delivered = new ArrayList<>();
        for (Answer<List<Entry>> read : reads) {
            List<String> texts = Ledgers.texts(read.get());
            assertThat(texts).as("order within a read").isSortedAccordingTo(
                (a, b) -> Integer.compare(Integer.parseInt(a.substring(1)), Integer.parseInt(b.substring(1))));
            delivered.addAll(texts);
        }
        delivered.addAll(Reads.readAll(cursor));
        assertThat(new TreeSet<>(delivered)).isEqualTo(new TreeSet<>(Reads.texts(0, 100)));
        if (storage == Storage.NEREUS) {
            assertThat(delivered).doesNotHaveDuplicates();
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedCursorRefusesReads(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 2);
        cursor.close();
        assertThat(cursor.isClosed()).isTrue();
        assertThat(Ledgers.failure(() -> cursor.readEntries(1))).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(Ledgers.failure(() -> cursor.readEntriesOrWait(1))).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(Reads.readSkipping(cursor, 1, position -> false).failure())
            .isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(Reads.readOrWait(cursor, 1, positions.get(0)).failure())
            .isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(cursor.cancelPendingReadRequest()).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theCursorsOfAClosedLedgerRefuseReads(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor durable = Reads.earliest(ledger, "sub");
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        Ledgers.addMany(ledger, 2);
        ledger.close();
        for (ManagedCursor cursor : List.of(durable, reader)) {
            assertThat(Ledgers.failure(() -> cursor.readEntries(1))).isInstanceOf(CursorAlreadyClosedException.class);
            assertThat(Reads.readOrWait(cursor, 1).failure()).isInstanceOf(CursorAlreadyClosedException.class);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void trimDeletedEntriesReleasesAndRemovesWhatIsAcknowledged(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 5);
        List<Entry> entries = cursor.readEntries(5);
        cursor.markDelete(positions.get(0));
        cursor.delete(positions.get(3));
        cursor.trimDeletedEntries(entries);
        assertThat(entries).extracting(Entry::getPosition)
            .containsExactly(positions.get(1), positions.get(2), positions.get(4));
        assertThat(Ledgers.texts(entries)).containsExactly("e1", "e2", "e4");
        List<Entry> none = new ArrayList<>();
        cursor.trimDeletedEntries(none);
        assertThat(none).isEqualTo(Collections.emptyList());
    }
}
