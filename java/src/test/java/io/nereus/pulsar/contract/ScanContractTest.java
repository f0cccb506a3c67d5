package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.ScanOutcome;
import org.testng.annotations.Test;

/** Analyze-backlog: a scan of what a cursor has not acknowledged. */
public class ScanContractTest extends ContractTest {

    private static final long LONG = 60_000;

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aScanShowsEveryUnacknowledgedEntryInOrder(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 10);
        cursor.markDelete(positions.get(1));
        cursor.delete(List.of(positions.get(4), positions.get(9)));
        assertThat(Reads.read(cursor, 3)).hasSize(3);
        Position readPosition = cursor.getReadPosition();
        for (int batch : new int[] {1, 3, 100}) {
            List<Integer> seen = new ArrayList<>();
            assertThat(Ledgers.await(cursor.scan(Optional.empty(), entry -> seen.add(Reads.number(entry)), batch, 100,
                LONG))).isEqualTo(ScanOutcome.COMPLETED);
            assertThat(seen).containsExactly(2, 3, 5, 6, 7, 8);
        }
        // stock takes the read position along; the broker scans a duplicate of the cursor
        assertThat(cursor.getReadPosition())
            .isEqualTo(storage == Storage.STOCK ? positions.get(9).getNext() : readPosition);
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(6);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aScanBeginsWhereItIsTold(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 6);
        List<Integer> seen = new ArrayList<>();
        Ledgers.await(cursor.scan(Optional.of(positions.get(3)), entry -> seen.add(Reads.number(entry)), 10, 100,
            LONG));
        assertThat(seen).containsExactly(3, 4, 5);
        seen.clear();
        assertThat(Ledgers.await(cursor.scan(Optional.of(positions.get(5).getNext()),
            entry -> seen.add(Reads.number(entry)), 10, 100, LONG))).isEqualTo(ScanOutcome.COMPLETED);
        assertThat(seen).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aScanOfNothingIsComplete(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        assertThat(Ledgers.await(cursor.scan(Optional.empty(), entry -> {
            throw new AssertionError("there is no entry");
        }, 10, 100, LONG))).isEqualTo(ScanOutcome.COMPLETED);
        List<Position> positions = Ledgers.addMany(ledger, 3);
        cursor.markDelete(positions.get(2));
        assertThat(Ledgers.await(cursor.scan(Optional.empty(), entry -> {
            throw new AssertionError("there is no entry");
        }, 10, 100, LONG))).isEqualTo(ScanOutcome.COMPLETED);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theUserInterruptsAScan(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 10);
        List<Integer> seen = new ArrayList<>();
        assertThat(Ledgers.await(cursor.scan(Optional.empty(), entry -> {
            seen.add(Reads.number(entry));
            return seen.size() < 4;
        }, 3, 100, LONG))).isEqualTo(ScanOutcome.USER_INTERRUPTED);
        assertThat(seen).containsExactly(0, 1, 2, 3);
    }

    /** Stock 4.0 counts the entry that reaches the limit without showing it. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aScanStopsAtItsLimitOfEntries(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 10);
        for (int batch : new int[] {1, 3, 100}) {
            List<Integer> seen = new ArrayList<>();
            assertThat(Ledgers.await(cursor.scan(Optional.empty(), entry -> seen.add(Reads.number(entry)), batch, 6,
                LONG))).isEqualTo(ScanOutcome.ABORTED);
            assertThat(seen).hasSizeBetween(storage == Storage.STOCK ? 5 : 6, 6);
        }
        assertThat(Ledgers.await(cursor.scan(Optional.empty(), entry -> true, 4, 10, LONG)))
            .as("a limit that is reached with the last entry")
            .isIn(ScanOutcome.COMPLETED, storage == Storage.STOCK ? ScanOutcome.ABORTED : ScanOutcome.COMPLETED);
        assertThat(Ledgers.await(cursor.scan(Optional.empty(), entry -> true, 4, 11, LONG)))
            .isEqualTo(ScanOutcome.COMPLETED);
        assertThat(Ledgers.await(cursor.scan(Optional.empty(), entry -> true, 4, 0, LONG)))
            .isEqualTo(ScanOutcome.ABORTED);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aScanStopsAtItsDeadline(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 3);
        assertThat(Ledgers.await(cursor.scan(Optional.empty(), entry -> true, 1, 100, -1)))
            .isEqualTo(ScanOutcome.ABORTED);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aScanOfNoEntriesAtATimeIsRefused(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        assertThatThrownBy(() -> cursor.scan(Optional.empty(), entry -> true, 0, 100, LONG))
            .isInstanceOf(IllegalArgumentException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPredicateThatThrowsFailsTheScan(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 3);
        assertThatThrownBy(() -> Ledgers.await(cursor.scan(Optional.empty(), entry -> {
            throw new IllegalStateException("of the predicate");
        }, 1, 100, LONG))).isInstanceOf(ManagedLedgerException.class).hasStackTraceContaining("of the predicate");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aScanThatCannotReadFails(Storage storage) throws Exception {
        Reopened reopened = Reopened.of(freshWorld(storage), storage, 5);
        ManagedCursor cursor = reopened.cursor();
        reopened.hook().failReadsOf("e3");
        List<Integer> seen = new ArrayList<>();
        assertThatThrownBy(() -> Ledgers.await(cursor.scan(Optional.empty(),
            entry -> seen.add(Reads.number(entry)), 1, 100, LONG))).isInstanceOf(ManagedLedgerException.class);
        assertThat(seen).containsExactly(0, 1, 2);
    }
}
