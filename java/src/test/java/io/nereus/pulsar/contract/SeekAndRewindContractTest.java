package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.Position;
import org.testng.annotations.Test;

/** Moving the read position without moving what is acknowledged. */
public class SeekAndRewindContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aRewindGoesBackToTheFirstUnacknowledgedEntry(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        cursor.rewind();
        assertThat(cursor.readEntries(1)).isEmpty();
        List<Position> positions = Ledgers.addMany(ledger, 6);
        assertThat(Reads.readAll(cursor)).hasSize(6);
        cursor.rewind();
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(0));
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(0, 6));
        cursor.markDelete(positions.get(1));
        cursor.delete(positions.get(3));
        for (boolean readCompacted : new boolean[] {false, true}) {
            cursor.rewind(readCompacted);
            assertThat(cursor.getReadPosition()).isEqualTo(positions.get(2));
            assertThat(cursor.getNumberOfEntries()).isEqualTo(3);
            assertThat(Reads.readAll(cursor)).containsExactly("e2", "e4", "e5");
        }
        cursor.markDelete(positions.get(5));
        cursor.rewind();
        assertThat(cursor.hasMoreEntries()).isFalse();
        Ledgers.add(ledger, "e6");
        assertThat(Reads.readAll(cursor)).containsExactly("e6");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSeekMovesTheReadPositionButNotBehindTheMarkDeletePosition(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 10);
        cursor.seek(positions.get(4));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(4));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).as("a seek acknowledges nothing").isEqualTo(10);
        assertThat(Reads.read(cursor, 2)).containsExactly("e4", "e5");
        cursor.seek(positions.get(0));
        assertThat(Reads.read(cursor, 1)).containsExactly("e0");
        cursor.markDelete(positions.get(2));
        cursor.seek(positions.get(1));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(3));
        cursor.seek(positions.get(2));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(3));
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(3, 10));
    }

    /** Compacted data may lie before the mark-delete position; the topic's own entries there stay acknowledged. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aForcedSeekGoesAnywhere(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 6);
        cursor.markDelete(positions.get(3));
        cursor.seek(positions.get(1), true);
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(1));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(3));
        assertThat(Reads.readAll(cursor)).containsExactly("e4", "e5");
    }

    /** Stock would leave out the entries between the end and a place that does not exist yet. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSeekPastTheEndWaitsForTheNextEntry(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 2);
        cursor.seek(positions.get(1).getPositionAfterEntries(3));
        assertThat(cursor.hasMoreEntries()).isFalse();
        assertThat(cursor.getNumberOfEntries()).isZero();
        Ledgers.add(ledger, "e2");
        Ledgers.add(ledger, "e3");
        Ledgers.add(ledger, "e4");
        assertThat(Reads.readAll(cursor))
            .isEqualTo(storage == Storage.STOCK ? Reads.texts(4, 5) : Reads.texts(2, 5));
    }

    /** Case 94: what an overtaken read was about to deliver is read again from the new place. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReadOvertakenByARewindMovesNothing_case_094(Storage storage) throws Exception {
        assertOvertaken(storage, ManagedCursor::rewind);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReadOvertakenByASeekMovesNothing_case_094(Storage storage) throws Exception {
        assertOvertaken(storage, cursor -> cursor.seek(cursor.getMarkDeletedPosition().getNext()));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReadOvertakenByAResetMovesNothing_case_094(Storage storage) throws Exception {
        assertOvertaken(storage, cursor -> cursor.resetCursor(cursor.getMarkDeletedPosition().getNext()));
    }

    private interface Move {
        void go(ManagedCursor cursor) throws Exception;
    }

    /** The move happens while the read chooses its entries, which is after it has taken its place. */
    private void assertOvertaken(Storage storage, Move move) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 6);
        assertThat(Reads.read(cursor, 3)).hasSize(3);
        AtomicBoolean moved = new AtomicBoolean();
        Predicate<Position> moving = position -> {
            if (moved.compareAndSet(false, true)) {
                try {
                    move.go(cursor);
                } catch (Exception e) {
                    throw new AssertionError(e);
                }
            }
            return false;
        };
        Answer<List<Entry>> overtaken = Reads.readSkipping(cursor, 2, moving);
        List<String> delivered = Ledgers.texts(overtaken.get());
        if (storage == Storage.STOCK) {
            assertThat(delivered).as("stock delivers").containsExactly("e3", "e4");
            assertThat(Reads.readAll(cursor)).as("and loses the move").containsExactly("e5");
            return;
        }
        assertThat(delivered).isEmpty();
        assertThat(overtaken.calls()).isEqualTo(1);
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(0, 6));
    }

    /** The broker asks this once a period to see stuck subscriptions: at the tail counts as progress. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void progressIsAReadPositionThatMovedOrIsAtTheTail(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("nothing to read").isTrue();
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("still nothing to read").isTrue();
        Ledgers.addMany(ledger, 5);
        cursor.checkAndUpdateReadPositionChanged();
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("nobody has read").isFalse();
        assertThat(Reads.read(cursor, 2)).hasSize(2);
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("it moved").isTrue();
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("it stands").isFalse();
        assertThat(Reads.read(cursor, 3)).hasSize(3);
        assertThat(cursor.checkAndUpdateReadPositionChanged()).isTrue();
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("at the tail").isTrue();
        cursor.rewind();
        assertThat(cursor.checkAndUpdateReadPositionChanged()).as("it moved back").isTrue();
        assertThat(cursor.checkAndUpdateReadPositionChanged()).isFalse();
    }
}
