package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.common.collect.Range;
import io.netty.util.ReferenceCounted;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor.FindPositionConstraint;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;
import org.testng.annotations.Test;

/** Reading a ledger without opening it: as it was at that moment. */
public class ReadOnlyCursorContractTest extends ContractTest {

    private static final int ENTRIES = 10;

    /** The positions of ten entries of a ledger that was closed again. */
    private List<Position> stored(Storage storage, String name) throws Exception {
        ManagedLedger ledger = world(storage).open(name);
        List<Position> positions = Ledgers.addMany(ledger, ENTRIES);
        ledger.close();
        return positions;
    }

    private ReadOnlyCursor open(Storage storage, String name, Position start) throws Exception {
        return world(storage).factory().openReadOnlyCursor(name, start, world(storage).config());
    }

    private static List<String> read(ReadOnlyCursor cursor, int most) throws Exception {
        return Ledgers.texts(cursor.readEntries(most));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void itReadsFromItsStartWhichIsIncluded(Storage storage) throws Exception {
        String name = world(storage).freshName();
        List<Position> positions = stored(storage, name);
        ReadOnlyCursor all = open(storage, name, PositionFactory.EARLIEST);
        assertThat(all.getReadPosition()).isEqualTo(positions.get(0));
        assertThat(all.getNumberOfEntries()).isEqualTo(ENTRIES);
        List<Entry> first = all.readEntries(4);
        assertThat(first).allMatch(entry -> ((ReferenceCounted) entry).refCnt() == 1);
        assertThat(first).extracting(Entry::getPosition).isEqualTo(positions.subList(0, 4));
        assertThat(Ledgers.texts(first)).isEqualTo(Reads.texts(0, 4));
        assertThat(all.getReadPosition()).isEqualTo(positions.get(4));
        assertThat(all.getNumberOfEntries()).isEqualTo(6);
        assertThat(all.hasMoreEntries()).isTrue();
        assertThat(read(all, 100)).isEqualTo(Reads.texts(4, ENTRIES));
        assertThat(all.hasMoreEntries()).isFalse();
        assertThat(all.readEntries(1)).isEmpty();
        ReadOnlyCursor some = open(storage, name, positions.get(7));
        assertThat(some.getNumberOfEntries()).isEqualTo(3);
        assertThat(read(some, 100)).isEqualTo(Reads.texts(7, ENTRIES));
        all.close();
        some.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void itSkips(Storage storage) throws Exception {
        String name = world(storage).freshName();
        List<Position> positions = stored(storage, name);
        ReadOnlyCursor cursor = open(storage, name, PositionFactory.EARLIEST);
        cursor.skipEntries(3);
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(3));
        assertThat(cursor.getNumberOfEntries()).isEqualTo(7);
        assertThat(read(cursor, 2)).isEqualTo(Reads.texts(3, 5));
        cursor.skipEntries(2);
        assertThat(read(cursor, 1)).containsExactly("e7");
        cursor.skipEntries(2);
        assertThat(cursor.hasMoreEntries()).isFalse();
        assertThat(cursor.readEntries(1)).isEmpty();
        cursor.close();
        ReadOnlyCursor past = open(storage, name, PositionFactory.EARLIEST);
        past.skipEntries(1000);
        assertThat(past.hasMoreEntries()).isFalse();
        assertThat(past.getNumberOfEntries()).isZero();
        past.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void itCountsWithinARange(Storage storage) throws Exception {
        String name = world(storage).freshName();
        List<Position> positions = stored(storage, name);
        ReadOnlyCursor cursor = open(storage, name, PositionFactory.EARLIEST);
        assertThat(cursor.getNumberOfEntries(Range.closed(positions.get(2), positions.get(5)))).isEqualTo(4);
        assertThat(cursor.getNumberOfEntries(Range.open(positions.get(2), positions.get(5)))).isEqualTo(2);
        assertThat(cursor.getNumberOfEntries(Range.closedOpen(positions.get(2), positions.get(5)))).isEqualTo(3);
        assertThat(cursor.getNumberOfEntries(Range.openClosed(positions.get(2), positions.get(5)))).isEqualTo(3);
        cursor.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void itFindsTheNewestMatch(Storage storage) throws Exception {
        String name = world(storage).freshName();
        List<Position> positions = stored(storage, name);
        ReadOnlyCursor cursor = open(storage, name, PositionFactory.EARLIEST);
        for (int newest : new int[] {0, 4, 9}) {
            // stock's search among the entries of a read-only ledger stops at the first one
            int expected = storage == Storage.STOCK ? 0 : newest;
            assertThat(cursor.findNewestMatching(FindPositionConstraint.SearchAllAvailableEntries,
                Reads.numberAtMost(newest))).isEqualTo(positions.get(expected));
        }
        assertThat(cursor.findNewestMatching(FindPositionConstraint.SearchAllAvailableEntries,
            Reads.numberAtMost(-1))).isNull();
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(0));
        cursor.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void itsReadsHaveLimitsToo(Storage storage) throws Exception {
        String name = world(storage).freshName();
        List<Position> positions = stored(storage, name);
        ReadOnlyCursor cursor = open(storage, name, PositionFactory.EARLIEST);
        Answer<List<Entry>> limited = new Answer<>();
        cursor.asyncReadEntries(100, Answer.entries(limited), "ctx", positions.get(2));
        assertThat(Ledgers.texts(limited.get())).isEqualTo(Reads.texts(0, 3));
        assertThat(limited.ctx()).isEqualTo("ctx");
        Answer<List<Entry>> small = new Answer<>();
        cursor.asyncReadEntries(100, 1, Answer.entries(small), null, PositionFactory.LATEST);
        assertThat(Ledgers.texts(small.get())).containsExactly("e3");
        Answer<List<Entry>> unlimited = new Answer<>();
        cursor.asyncReadEntries(4, Reads.NO_LIMIT, Answer.entries(unlimited), null, PositionFactory.LATEST);
        assertThat(Ledgers.texts(unlimited.get())).isEqualTo(Reads.texts(4, 8));
        assertThatThrownBy(() -> cursor.readEntries(0)).isInstanceOf(IllegalArgumentException.class);
        cursor.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEmptyLedgerHasNothingToRead(Storage storage) throws Exception {
        String name = world(storage).freshName();
        world(storage).open(name).close();
        ReadOnlyCursor cursor = open(storage, name, PositionFactory.EARLIEST);
        assertThat(cursor.hasMoreEntries()).isFalse();
        assertThat(cursor.getNumberOfEntries()).isZero();
        assertThat(cursor.readEntries(5)).isEmpty();
        cursor.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void entriesAddedLaterAreNotSeen(Storage storage) throws Exception {
        String name = world(storage).freshName();
        stored(storage, name);
        ReadOnlyCursor cursor = open(storage, name, PositionFactory.EARLIEST);
        ManagedLedger ledger = world(storage).open(name);
        Ledgers.add(ledger, "later");
        List<String> read = new ArrayList<>(read(cursor, 100));
        read.addAll(read(cursor, 100));
        assertThat(read).isEqualTo(Reads.texts(0, ENTRIES));
        ledger.close();
        cursor.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readingDoesNotTakeTheLedgerFromItsOwner(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        Ledgers.addMany(ledger, 3);
        ReadOnlyCursor cursor =
            world.factory().openReadOnlyCursor(name, PositionFactory.EARLIEST, world.config());
        assertThat(read(cursor, 100)).isEqualTo(Reads.texts(0, 3));
        Ledgers.add(ledger, "e3");
        assertThat(ledger.getNumberOfEntries()).isEqualTo(4);
        cursor.close();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedOneRefusesReads(Storage storage) throws Exception {
        String name = world(storage).freshName();
        stored(storage, name);
        ReadOnlyCursor cursor = open(storage, name, PositionFactory.EARLIEST);
        CompletableFuture<Object> closed = new CompletableFuture<>();
        cursor.asyncClose(new CloseCallback() {
            @Override
            public void closeComplete(Object ctx) {
                closed.complete(ctx);
            }

            @Override
            public void closeFailed(ManagedLedgerException exception, Object ctx) {
                closed.completeExceptionally(exception);
            }
        }, "ctx");
        assertThat(Ledgers.await(closed)).isEqualTo("ctx");
        assertThat(Ledgers.failure(() -> cursor.readEntries(1))).isInstanceOf(CursorAlreadyClosedException.class);
    }
}
