package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.netty.util.ReferenceCounted;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.testng.annotations.Test;

/** Redelivery: reading given entries again. */
public class ReplayContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReplayAnswersAtOnceWhatIsAcknowledgedAndReadsTheRest(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 9);
        assertThat(Reads.read(cursor, 9)).hasSize(9);
        cursor.markDelete(positions.get(0));
        cursor.delete(List.of(positions.get(2), positions.get(5)));
        Set<Position> wanted = new HashSet<>(List.of(positions.get(0), positions.get(1), positions.get(2),
            positions.get(3), positions.get(5), positions.get(7)));
        Answer<List<Entry>> answer = new Answer<>();
        Set<? extends Position> acknowledged =
            cursor.asyncReplayEntries(wanted, Answer.entries(answer), "ctx", true);
        assertThat(acknowledged).isEqualTo(Set.of(positions.get(0), positions.get(2), positions.get(5)));
        List<Entry> entries = answer.get();
        assertThat(entries).allMatch(entry -> ((ReferenceCounted) entry).refCnt() == 1);
        assertThat(entries).extracting(Entry::getPosition)
            .containsExactly(positions.get(1), positions.get(3), positions.get(7));
        assertThat(Ledgers.texts(entries)).containsExactly("e1", "e3", "e7");
        assertThat(answer.ctx()).isEqualTo("ctx");
        assertThat(answer.calls()).isEqualTo(1);
        assertThat(cursor.getReadPosition()).as("a replay moves nothing").isEqualTo(positions.get(8).getNext());
        assertThat(Ledgers.texts(cursor.replayEntries(Set.of(positions.get(8))))).containsExactly("e8");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void sortedReplaysComeInTheOrderOfPositions(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 40);
        Set<Position> wanted = new LinkedHashSet<>();
        List<String> expected = new ArrayList<>();
        for (int i = 39; i >= 0; i -= 3) {
            wanted.add(positions.get(i));
            expected.add(0, "e" + i);
        }
        Answer<List<Entry>> answer = new Answer<>();
        assertThat(cursor.asyncReplayEntries(wanted, Answer.entries(answer), null, true)).isEmpty();
        assertThat(Ledgers.texts(answer.get())).isEqualTo(expected);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReplayOfNothingIsAnEmptyList(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Answer<List<Entry>> answer = new Answer<>();
        assertThat(cursor.asyncReplayEntries(Set.of(), Answer.entries(answer), null)).isEmpty();
        assertThat(answer.get()).isEmpty();
        assertThat(answer.calls()).isEqualTo(1);
        assertThat(cursor.replayEntries(Set.of())).isEmpty();
    }

    /** The set that is returned says all; the broker expects no call then. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReplayOfAcknowledgedEntriesOnlyIsNotCalledBack(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 4);
        cursor.delete(List.of(positions.get(0), positions.get(2)));
        Answer<List<Entry>> answer = new Answer<>();
        Set<Position> wanted = Set.of(positions.get(0), positions.get(2));
        assertThat(cursor.asyncReplayEntries(wanted, Answer.entries(answer), null)).isEqualTo(wanted);
        assertThat(Ledgers.texts(cursor.readEntries(4))).containsExactly("e1", "e3");
        assertThat(answer.calls()).isZero();
    }

    /** An entry acknowledged in part is delivered again: its other messages are not acknowledged. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aBatchAcknowledgedInPartIsReplayed(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setDeletionAtBatchIndexLevelEnabled(true);
        ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Position position = Ledgers.add(ledger, "e0");
        Position partly = AckSetStateUtil.createPositionWithAckSet(position.getLedgerId(), position.getEntryId(),
            new long[] {0b1100});
        cursor.delete(partly);
        Answer<List<Entry>> answer = new Answer<>();
        assertThat(cursor.asyncReplayEntries(Set.of(position), Answer.entries(answer), null)).isEmpty();
        assertThat(Ledgers.texts(answer.get())).containsExactly("e0");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReplayOfTheNextEntryMovesTheReadPositionPastIt(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 4);
        assertThat(Reads.read(cursor, 1)).containsExactly("e0");
        assertThat(Ledgers.texts(Reads.replay(cursor, Set.of(positions.get(1))).get())).containsExactly("e1");
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(2));
        assertThat(Reads.readAll(cursor)).containsExactly("e2", "e3");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void oneEntryThatCannotBeReadFailsTheReplayOnce(Storage storage) throws Exception {
        Reopened reopened = Reopened.of(freshWorld(storage), storage, 8);
        ManagedCursor cursor = reopened.cursor();
        List<Position> positions = reopened.positions();
        reopened.hook().failReadsOf("e4");
        Set<Position> wanted =
            Set.of(positions.get(0), positions.get(2), positions.get(4), positions.get(6), positions.get(7));
        Answer<List<Entry>> answer = Reads.replay(cursor, wanted);
        answer.failure();
        assertThat(answer.calls()).isEqualTo(1);
        reopened.hook().onRead(text -> { });
        assertThat(Ledgers.texts(Reads.replay(cursor, wanted).get()))
            .containsExactlyInAnyOrder("e0", "e2", "e4", "e6", "e7");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPositionThatDoesNotExistYetFailsTheReplay(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 2);
        Answer<List<Entry>> answer =
            Reads.replay(cursor, Set.of(positions.get(0), positions.get(1).getPositionAfterEntries(5)));
        answer.failure();
        assertThat(answer.calls()).isEqualTo(1);
    }

    /** What lies before the mark-delete position counts as acknowledged, also in a ledger that is gone. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPositionOfALedgerThatIsGoneIsAcknowledged(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Position present = Ledgers.add(ledger, "e0");
        ManagedCursor cursor = ledger.newNonDurableCursor(present, "reader");
        Position gone = PositionFactory.create(present.getLedgerId() - 1, 5);
        Answer<List<Entry>> answer = new Answer<>();
        assertThat(cursor.asyncReplayEntries(Set.of(gone), Answer.entries(answer), null)).isEqualTo(Set.of(gone));
        assertThat(answer.calls()).isZero();
    }
}
