package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import java.util.List;
import java.util.function.Predicate;
import java.util.stream.StreamSupport;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

/** Which cursors count as active, and the last position that may be dispatched. */
public class ActiveCursorContractTest extends ContractTest {

    private static List<String> active(ManagedLedger ledger) {
        return StreamSupport.stream(ledger.getActiveCursors().spliterator(), false).map(ManagedCursor::getName)
            .sorted().toList();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void cursorsAreActiveFromTheStartAndWhileTheyAreToldTo(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor durable = Reads.earliest(ledger, "durable");
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        assertThat(durable.isActive()).isTrue();
        assertThat(reader.isActive()).isTrue();
        assertThat(active(ledger)).containsExactly("durable", "reader");
        durable.setInactive();
        durable.setInactive();
        assertThat(durable.isActive()).isFalse();
        assertThat(active(ledger)).containsExactly("reader");
        durable.setActive();
        durable.setActive();
        assertThat(active(ledger)).containsExactly("durable", "reader");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void alwaysInactiveIsForEver(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        cursor.setAlwaysInactive();
        assertThat(cursor.isActive()).isFalse();
        cursor.setActive();
        assertThat(cursor.isActive()).isFalse();
        assertThat(active(ledger)).isEmpty();
        Ledgers.add(ledger, "e0");
        assertThat(Reads.readAll(cursor)).as("it reads all the same").containsExactly("e0");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedOrDeletedCursorIsInactive(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor closed = Reads.earliest(ledger, "closed");
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        Reads.earliest(ledger, "deleted");
        closed.close();
        reader.close();
        ledger.deleteCursor("deleted");
        assertThat(active(ledger)).isEmpty();
    }

    /** Whether reads fill a cache is no business of theirs: with a request to cache entries nothing changes. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void checkingWhatToCacheChangesNoCursor(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 3);
        ledger.checkCursorsToCacheEntries();
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(0, 3));
    }

    /** The broker looks for the last entry that is not a marker, to answer what the last message id is. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theLastDispatchablePositionIsFoundBackwards(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Predicate<Entry> even = entry -> Reads.number(entry) % 2 == 0;
        assertThat(Ledgers.await(ledger.getLastDispatchablePosition(even, ledger.getLastConfirmedEntry()))
            .getEntryId()).as("an empty ledger").isEqualTo(-1);
        List<Position> positions = Ledgers.addMany(ledger, 6);
        assertThat(Ledgers.await(ledger.getLastDispatchablePosition(even, positions.get(5))))
            .isEqualTo(positions.get(4));
        assertThat(Ledgers.await(ledger.getLastDispatchablePosition(even, positions.get(2))))
            .isEqualTo(positions.get(2));
        assertThat(Ledgers.await(ledger.getLastDispatchablePosition(entry -> false, positions.get(5))).getEntryId())
            .as("nothing but markers").isEqualTo(-1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aLongRunOfMarkersIsPassedWithoutALimitOfDepth(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        int markers = 300;
        List<Position> positions = Ledgers.addMany(ledger, markers + 1);
        int[] deepest = {0};
        Position found = Ledgers.await(ledger.getLastDispatchablePosition(entry -> {
            deepest[0] = Math.max(deepest[0], new Throwable().getStackTrace().length);
            return Reads.number(entry) == 0;
        }, positions.get(markers)));
        assertThat(found).isEqualTo(positions.get(0));
        assertThat(deepest[0]).isLessThan(100);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPredicateThatThrowsFailsTheSearchBackwards(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> positions = Ledgers.addMany(ledger, 2);
        assertThat(catchThrowable(() -> Ledgers.await(
            ledger.getLastDispatchablePosition(entry -> {
                throw new IllegalStateException("of the predicate");
            }, positions.get(1))))).hasStackTraceContaining("of the predicate");
    }
}
