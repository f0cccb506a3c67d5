package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.CursorCalls.assertBacklog;
import static io.nereus.pulsar.contract.CursorCalls.delete;
import static io.nereus.pulsar.contract.CursorCalls.earliest;
import static io.nereus.pulsar.contract.CursorCalls.markDelete;
import static io.nereus.pulsar.contract.CursorCalls.read;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Storage.STOCK;
import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.collect.Range;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

/** What acknowledging entries, one by one or up to a position, means. */
public class AckContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void markDeleteMovesTheReadPositionPastWhatIsAcknowledged(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 5);
        cursor.markDelete(positions.get(2));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(2));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(3));
        assertThat(read(cursor, 10)).containsExactly("e3", "e4");
        cursor.markDelete(positions.get(3));
        assertThat(cursor.getReadPosition()).as("not moved back").isEqualTo(positions.get(4).getNext());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theMarkDeletePositionIsTheEndOfTheAcknowledgedPrefix_case_043(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 6);
        Position before = cursor.getMarkDeletedPosition();
        cursor.delete(List.of(positions.get(1), positions.get(2), positions.get(4)));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(before);
        assertThat(cursor.getTotalNonContiguousDeletedMessagesRange()).isEqualTo(2);
        cursor.delete(positions.get(0));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(2));
        assertThat(cursor.getTotalNonContiguousDeletedMessagesRange()).isEqualTo(1);
        cursor.markDelete(positions.get(3));
        assertThat(cursor.getMarkDeletedPosition()).as("with what follows it").isEqualTo(positions.get(4));
        assertThat(cursor.getTotalNonContiguousDeletedMessagesRange()).isZero();
        assertBacklog(cursor, 1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acknowledgedEntriesAreNotReadNorCountedMore(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 6);
        cursor.delete(List.of(positions.get(1), positions.get(3)));
        assertThat(cursor.isMessageDeleted(positions.get(1))).isTrue();
        assertThat(cursor.isMessageDeleted(positions.get(2))).isFalse();
        assertBacklog(cursor, 4);
        assertThat(cursor.getNumberOfEntries()).isEqualTo(4);
        assertThat(read(cursor, 10)).containsExactly("e0", "e2", "e4", "e5");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acknowledgingAgainSucceedsAndChangesNothing_case_043(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 5);
        cursor.markDelete(positions.get(1));
        cursor.delete(positions.get(3));
        cursor.delete(List.of(positions.get(0), positions.get(1), positions.get(3)));
        cursor.markDelete(positions.get(1));
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(1));
        assertBacklog(cursor, 2);
    }

    /** The broker tells "acknowledged already" from a failure by this cause. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void markDeleteBehindTheMarkDeletePositionFailsWithAnIllegalArgument(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 4);
        cursor.markDelete(positions.get(2));
        assertThat(failure(() -> cursor.markDelete(positions.get(1))).getCause())
            .isInstanceOf(IllegalArgumentException.class);
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(2));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acksPastTheLastEntryAreRefusedAndChangeNothing(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        Position before = cursor.getMarkDeletedPosition();
        Position beyond = positions.get(2).getNext();
        assertThat(failure(() -> cursor.markDelete(beyond))).hasMessageStartingWith("Invalid mark deleted position");
        assertThat(failure(() -> cursor.delete(beyond))).hasMessageStartingWith("Invalid mark deleted position");
        assertThat(failure(() -> cursor.markDelete(PositionFactory.LATEST)))
            .hasMessageStartingWith("Invalid mark deleted position");
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(before);
        assertBacklog(cursor, 3);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAckOfALedgerBeforeTheFirstChangesNothing_case_033(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        cursor.markDelete(positions.get(0));
        Position older = PositionFactory.create(positions.get(0).getLedgerId() - 1, 2);
        await(delete(cursor, older));
        assertThat(failure(() -> cursor.markDelete(older)).getCause()).isInstanceOf(IllegalArgumentException.class);
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(1));
        assertBacklog(cursor, 2);
        assertThat(read(cursor, 10)).containsExactly("e1", "e2");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theLastAcknowledgedRangeIsOpenBelowAndClosedAbove(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        assertThat(cursor.getLastIndividualDeletedRange()).isNull();
        List<Position> positions = addMany(ledger, 8);
        cursor.delete(List.of(positions.get(2), positions.get(5), positions.get(6)));
        assertThat(cursor.getLastIndividualDeletedRange())
            .isEqualTo(Range.openClosed(positions.get(4), positions.get(6)));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void trimmingAListDropsAndReleasesWhatIsAcknowledged(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 4);
        List<Entry> entries = new ArrayList<>(cursor.readEntries(4));
        Entry dropped = entries.get(2);
        cursor.markDelete(positions.get(0));
        cursor.delete(positions.get(2));
        cursor.trimDeletedEntries(entries);
        assertThat(entries.stream().map(Entry::getPosition)).containsExactly(positions.get(1), positions.get(3));
        assertThat(dropped.getDataBuffer()).satisfiesAnyOf(buffer -> assertThat(buffer).isNull(),
            buffer -> assertThat(buffer.refCnt()).isZero());
        entries.forEach(Entry::release);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void skippingCountsUnacknowledgedEntriesOrAll_case_042(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<ManagedCursor> cursors = new ArrayList<>();
        for (String name : List.of("exclude", "include", "beyond")) {
            cursors.add(earliest(ledger, name));
        }
        List<Position> positions = addMany(ledger, 10);
        for (ManagedCursor cursor : cursors) {
            cursor.delete(List.of(positions.get(1), positions.get(3), positions.get(5)));
        }
        cursors.get(0).skipEntries(3, IndividualDeletedEntries.Exclude);
        assertThat(read(cursors.get(0), 1)).as("after the third unacknowledged one, e4").containsExactly("e6");
        assertBacklog(cursors.get(0), 4);
        cursors.get(1).skipEntries(3, IndividualDeletedEntries.Include);
        assertThat(read(cursors.get(1), 1)).as("after the third one, e2, and e3 is acknowledged").containsExactly("e4");
        cursors.get(2).skipEntries(100, IndividualDeletedEntries.Exclude);
        assertThat(cursors.get(2).getMarkDeletedPosition()).as("to the end").isEqualTo(positions.get(9));
        assertBacklog(cursors.get(2), 0);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void clearingTheBacklogAcknowledgesEverythingAndAgainIsNoFailure(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 5);
        cursor.delete(positions.get(2));
        cursor.clearBacklog();
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(4));
        assertBacklog(cursor, 0);
        assertThat(cursor.hasMoreEntries()).isFalse();
        cursor.clearBacklog();
        Ledgers.add(ledger, "next");
        assertThat(read(cursor, 10)).containsExactly("next");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyAckOfManyThreadsIsAnsweredOnceAndCounted(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 400);
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            int first = t;
            threads.add(new Thread(() -> {
                for (int i = first; i < 400; i += 4) {
                    CompletableFuture<Void> answer = i % 50 == 0 ? markDelete(cursor, positions.get(i), Map.of())
                        .exceptionally(late -> null) : delete(cursor, positions.get(i));
                    synchronized (answers) {
                        answers.add(answer);
                    }
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        CursorCalls.awaitAll(answers);
        assertThat(answers).hasSize(400);
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(399));
        assertThat(cursor.getTotalNonContiguousDeletedMessagesRange()).isZero();
        assertBacklog(cursor, 0);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void acksOnAClosedCursorFailAndThoseBeforeAreKept_case_087(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 4);
        CompletableFuture<Void> before = delete(cursor, positions.get(1));
        if (storage == STOCK) { // its close fails while the first ack makes a cursor ledger (case 29)
            await(before);
        }
        CompletableFuture<Void> closed = CursorCalls.close(cursor);
        CompletableFuture<Void> after = delete(cursor, positions.get(2));
        CompletableFuture<Void> afterToo = markDelete(cursor, positions.get(3), Map.of());
        await(closed);
        await(before);
        assertThat(failure(() -> await(after))).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(failure(() -> await(afterToo))).isInstanceOf(CursorAlreadyClosedException.class);
        world.restart();
        ManagedCursor again = earliest(world.open(name), "c");
        assertThat(again.isMessageDeleted(positions.get(1))).isTrue();
        assertThat(again.isMessageDeleted(positions.get(2))).isFalse();
        assertBacklog(again, 3);
    }
}
