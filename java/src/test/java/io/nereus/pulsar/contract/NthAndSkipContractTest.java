package io.nereus.pulsar.contract;

import static org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries.Exclude;
import static org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries.Include;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.netty.util.ReferenceCounted;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.Position;
import org.testng.annotations.Test;

/** Entries counted from the first unacknowledged one: peek and skip. */
public class NthAndSkipContractTest extends ContractTest {

    private static String nthText(ManagedCursor cursor, int n, IndividualDeletedEntries deleted) throws Exception {
        Entry entry = cursor.getNthEntry(n, deleted);
        return entry == null ? null : Ledgers.text(entry);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void entriesOfTheBacklogAreCountedFromOne(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        assertThat(nthText(cursor, 1, Exclude)).as("an empty ledger").isNull();
        List<Position> positions = Ledgers.addMany(ledger, 10);
        assertThat(nthText(cursor, 1, Exclude)).isEqualTo("e0");
        assertThat(nthText(cursor, 10, Include)).isEqualTo("e9");
        assertThat(nthText(cursor, 11, Exclude)).isNull();
        assertThat(Reads.read(cursor, 5)).hasSize(5);
        assertThat(nthText(cursor, 1, Exclude)).as("reading does not count").isEqualTo("e0");
        cursor.markDelete(positions.get(2));
        assertThat(nthText(cursor, 1, Exclude)).isEqualTo("e3");
        assertThat(nthText(cursor, 7, Exclude)).isEqualTo("e9");
        assertThat(nthText(cursor, 8, Exclude)).isNull();
        assertThat(cursor.getReadPosition()).as("nothing moves").isEqualTo(positions.get(5));
        Answer<Entry> answer = Reads.nth(cursor, 2, Exclude);
        assertThat(((ReferenceCounted) answer.get()).refCnt()).isEqualTo(1);
        assertThat(Ledgers.text(answer.get())).isEqualTo("e4");
        assertThat(answer.calls()).isEqualTo(1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void entriesAcknowledgedOneByOneCountOnlyIfAskedFor(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 10);
        cursor.delete(List.of(positions.get(1), positions.get(2), positions.get(5), positions.get(9)));
        List<String> unacknowledged = List.of("e0", "e3", "e4", "e6", "e7", "e8");
        for (int n = 1; n <= 6; n++) {
            assertThat(nthText(cursor, n, Exclude)).as("entry %s", n).isEqualTo(unacknowledged.get(n - 1));
            assertThat(nthText(cursor, n, Include)).as("entry %s", n).isEqualTo("e" + (n - 1));
        }
        assertThat(nthText(cursor, 7, Exclude)).isNull();
        // stock measures the backlog without the acknowledged entries, and then counts with them
        assertThat(nthText(cursor, 10, Include)).isEqualTo(storage == Storage.STOCK ? null : "e9");
        assertThat(nthText(cursor, 11, Include)).isNull();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anImpossibleCountAndAClosedCursorAreRefused(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 1);
        assertThatThrownBy(() -> cursor.getNthEntry(0, Exclude)).isInstanceOf(IllegalArgumentException.class);
        cursor.close();
        assertThat(Reads.nth(cursor, 1, Exclude).failure()).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(Ledgers.failure(() -> cursor.getNthEntry(1, Include)))
            .isInstanceOf(CursorAlreadyClosedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEntryThatCannotBeReadFailsOnce(Storage storage) throws Exception {
        Reopened reopened = Reopened.of(freshWorld(storage), storage, 3);
        ManagedCursor cursor = reopened.cursor();
        reopened.hook().failReadsOf("e1");
        Answer<Entry> answer = Reads.nth(cursor, 2, Exclude);
        answer.failure();
        assertThat(answer.calls()).isEqualTo(1);
        assertThat(nthText(cursor, 3, Exclude)).isEqualTo("e2");
    }

    /** Case 18: with an empty tail after a reopen the count ends at the last entry. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theCountEndsAtTheLastEntryAlsoAfterAReopen_case_018(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 100);
        for (int n : new int[] {1, 99, 100, 101}) {
            ledger.close();
            ledger = world.open(name);
            ManagedCursor cursor = Reads.earliest(ledger, "sub");
            assertThat(nthText(cursor, n, Exclude)).isEqualTo(n > 100 ? null : "e" + (n - 1));
            ManagedCursor skipping = cursor.duplicateNonDurableCursor("skip-" + n);
            skipping.skipEntries(n, Exclude);
            assertThat(skipping.getMarkDeletedPosition()).isEqualTo(positions.get(Math.min(n, 100) - 1));
            assertThat(skipping.getNumberOfEntriesInBacklog(true)).isEqualTo(Math.max(0, 100 - n));
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void skippingAcknowledgesTheFirstOfTheBacklog(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 10);
        cursor.skipEntries(3, Include);
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(2));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(7);
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(3));
        Answer<Void> none = Reads.skip(cursor, 0, Exclude);
        none.get();
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(2));
        cursor.skipEntries(100, Exclude);
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(9));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
        Answer<Void> pastEnd = Reads.skip(cursor, 5, Exclude);
        pastEnd.get();
        assertThat(pastEnd.calls()).isEqualTo(1);
        Ledgers.add(ledger, "e10");
        assertThat(Reads.readAll(cursor)).containsExactly("e10");
    }

    /** Case 42: with holes, what was acknowledged one by one is not counted. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void skippingCountsAroundHoles_case_042(Storage storage) throws Exception {
        for (int perLedger : new int[] {100, 3}) {
            ManagedLedgerConfig config = world(storage).config();
            config.setMaxEntriesPerLedger(perLedger);
            config.setRetentionTime(-1, TimeUnit.DAYS);
            config.setRetentionSizeInMB(-1);
            ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
            ManagedCursor excluding = Reads.earliest(ledger, "excluding");
            ManagedCursor including = Reads.earliest(ledger, "including");
            List<Position> positions = Ledgers.addMany(ledger, 10);
            List<Position> holes = List.of(positions.get(2), positions.get(4), positions.get(6));
            excluding.delete(holes);
            including.delete(holes);
            excluding.skipEntries(3, Exclude);
            assertThat(excluding.getMarkDeletedPosition()).as("entry 4 was acknowledged").isEqualTo(positions.get(4));
            assertThat(Reads.readAll(excluding)).containsExactly("e5", "e7", "e8", "e9");
            including.skipEntries(3, Include);
            assertThat(including.getMarkDeletedPosition()).isEqualTo(positions.get(2));
            assertThat(Reads.readAll(including)).containsExactly("e3", "e5", "e7", "e8", "e9");
        }
    }

    /** Case 42: acknowledgements that go on meanwhile never move the cursor back or past what is unacknowledged. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void skippingWhileAcksGoOnEndsOnce_case_042(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 60);
        for (int i = 0; i < 20; i++) {
            Answer<Void> skip = Reads.skip(cursor, 1, Exclude);
            cursor.delete(positions.get(59 - i));
            skip.get();
            assertThat(skip.calls()).isEqualTo(1);
        }
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(19));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(20);
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(20, 40));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void clearingTheBacklogGoesToTheEnd(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        cursor.clearBacklog();
        List<Position> positions = Ledgers.addMany(ledger, 5);
        cursor.delete(positions.get(3));
        Answer<Void> cleared = new Answer<>();
        cursor.asyncClearBacklog(Answer.cleared(cleared), "ctx");
        cleared.get();
        assertThat(cleared.ctx()).isEqualTo("ctx");
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(4));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
        assertThat(cursor.hasMoreEntries()).isFalse();
        cursor.clearBacklog();
        Ledgers.add(ledger, "e5");
        assertThat(Reads.readAll(cursor)).containsExactly("e5");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedCursorSkipsAndClearsNothing(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 5);
        cursor.close();
        assertThat(Reads.skip(cursor, 1, Exclude).failure()).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(Ledgers.failure(() -> cursor.skipEntries(1, Include)))
            .isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(Ledgers.failure(cursor::clearBacklog)).isInstanceOf(CursorAlreadyClosedException.class);
    }
}
