package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ConcurrentWaitCallbackException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.NoMoreEntriesToReadException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

/** Reads that wait for entries. */
public class WaitingReadContractTest extends ContractTest {

    /** A ledger whose waits register at once, so that a test knows when they have. */
    private ManagedLedger promptLedger(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setNewEntriesCheckDelayInMillis(0);
        return world(storage).open(world(storage).freshName(), config);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitingReadGetsTheNextEntry(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10);
        assertThat(wait.isDone()).isFalse();
        Position position = Ledgers.add(ledger, "e0");
        assertThat(Ledgers.texts(wait.get())).containsExactly("e0");
        assertThat(cursor.getReadPosition()).isEqualTo(position.getNext());
        assertThat(wait.calls()).isEqualTo(1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReadThatNeedNotWaitIsServedAtOnce(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 4);
        assertThat(Ledgers.texts(Reads.readOrWait(cursor, 2).get())).isEqualTo(Reads.texts(0, 2));
        assertThat(Ledgers.texts(cursor.readEntriesOrWait(1))).isEqualTo(Reads.texts(2, 3));
        assertThat(Ledgers.texts(Reads.readOrWait(cursor, 10, positions.get(3)).get()))
            .isEqualTo(Reads.texts(3, 4));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aBlockingReadWaitsForTheNextEntry(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        CompletableFuture<List<String>> read = new CompletableFuture<>();
        Thread reader = new Thread(() -> {
            try {
                read.complete(Ledgers.texts(cursor.readEntriesOrWait(5, 1_000_000)));
            } catch (Exception e) {
                read.completeExceptionally(e);
            }
        });
        reader.start();
        Ledgers.await("the reader waits", () -> reader.getState() == Thread.State.WAITING
            || reader.getState() == Thread.State.TIMED_WAITING);
        Ledgers.add(ledger, "e0");
        assertThat(Ledgers.await(read)).containsExactly("e0");
        reader.join();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theSecondWaitOfACursorIsRefusedAndTheFirstGoesOn(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        ManagedCursor other = Reads.earliest(ledger, "other");
        Answer<List<Entry>> first = Reads.readOrWait(cursor, 10);
        Answer<List<Entry>> second = Reads.readOrWait(cursor, 10);
        assertThat(second.failure()).isInstanceOf(ConcurrentWaitCallbackException.class);
        Answer<List<Entry>> ofOther = Reads.readOrWait(other, 10);
        Ledgers.add(ledger, "e0");
        assertThat(Ledgers.texts(first.get())).containsExactly("e0");
        assertThat(Ledgers.texts(ofOther.get())).containsExactly("e0");
        assertThat(second.calls()).isEqualTo(1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitEndsWithWhatIsThereAndTheRestStaysReadable(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        for (int round = 0; round < 20; round++) {
            Answer<List<Entry>> wait = Reads.readOrWait(cursor, 100);
            Ledgers.addMany(ledger, 10);
            List<String> read = Ledgers.texts(wait.get());
            assertThat(read).isNotEmpty();
            List<String> all = new ArrayList<>(read);
            all.addAll(Reads.readAll(cursor));
            assertThat(all).isEqualTo(Reads.texts(0, 10));
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitDeliversAtMostWhatItAskedFor(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Answer<List<Entry>> wait = Reads.readOrWait(cursor, 1);
        Ledgers.addMany(ledger, 3);
        assertThat(Ledgers.texts(wait.get())).containsExactly("e0");
        assertThat(Reads.readAll(cursor)).containsExactly("e1", "e2");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitSkipsWhatItsConditionNames(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Position first = Ledgers.add(ledger, "e0");
        Ledgers.add(ledger, "e1");
        Answer<List<Entry>> wait = new Answer<>();
        cursor.asyncReadEntriesWithSkipOrWait(10, Answer.entries(wait), "ctx", PositionFactory.LATEST,
            first::equals);
        assertThat(Ledgers.texts(wait.get())).containsExactly("e1");
        assertThat(wait.ctx()).isEqualTo("ctx");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCancelledWaitIsNeverAnswered(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        assertThat(cursor.cancelPendingReadRequest()).as("nothing waits").isFalse();
        Answer<List<Entry>> cancelled = Reads.readOrWait(cursor, 10);
        assertThat(cursor.cancelPendingReadRequest()).isTrue();
        assertThat(cursor.cancelPendingReadRequest()).as("it is cancelled").isFalse();
        Answer<List<Entry>> next = Reads.readOrWait(cursor, 10);
        Ledgers.add(ledger, "e0");
        assertThat(Ledgers.texts(next.get())).containsExactly("e0");
        assertThat(cancelled.calls()).isZero();
        assertThat(cursor.cancelPendingReadRequest()).as("it was served").isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void closingACursorEndsItsWait(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor durable = Reads.earliest(ledger, "sub");
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.LATEST, "reader");
        List<Answer<List<Entry>>> waits = new ArrayList<>();
        for (ManagedCursor cursor : List.of(durable, reader)) {
            Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10);
            cursor.close();
            assertThat(wait.failure()).isInstanceOf(CursorAlreadyClosedException.class);
            assertThat(cursor.cancelPendingReadRequest()).isFalse();
            waits.add(wait);
        }
        Ledgers.add(ledger, "e0");
        assertThat(waits).allMatch(wait -> wait.calls() == 1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void closingTheLedgerEndsTheWaits(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        Answer<List<Entry>> durable = Reads.readOrWait(Reads.earliest(ledger, "sub"), 10);
        Answer<List<Entry>> reader =
            Reads.readOrWait(ledger.newNonDurableCursor(PositionFactory.LATEST, "reader"), 10);
        ledger.close();
        assertThat(durable.failure()).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(reader.failure()).isInstanceOf(CursorAlreadyClosedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletingACursorEndsItsWait(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10);
        ledger.deleteCursor("sub");
        assertThat(wait.failure()).isInstanceOf(CursorAlreadyClosedException.class);
        assertThat(Reads.readOrWait(cursor, 10).failure()).isInstanceOf(CursorAlreadyClosedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitPastTheEndOfATerminatedLedgerFails(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor behind = Reads.earliest(ledger, "behind");
        Ledgers.addMany(ledger, 2);
        ManagedCursor atEnd = Reads.latest(ledger, "end");
        assertThat(atEnd.readEntries(1)).as("answered once stock has notified of the appends").isEmpty();
        Answer<List<Entry>> waiting = Reads.readOrWait(atEnd, 10);
        Position last = ledger.terminate();
        if (storage == Storage.STOCK) {
            // stock does not wake who waits; the broker tells its consumers by other means
            atEnd.cancelPendingReadRequest();
        } else {
            assertThat(waiting.failure()).isInstanceOf(NoMoreEntriesToReadException.class);
        }
        assertThat(Reads.readOrWait(atEnd, 10).failure()).isInstanceOf(NoMoreEntriesToReadException.class);
        assertThat(Ledgers.texts(Reads.readOrWait(behind, 10).get())).isEqualTo(Reads.texts(0, 2));
        assertThat(Reads.readOrWait(behind, 10).failure()).isInstanceOf(NoMoreEntriesToReadException.class);
        assertThat(behind.readEntries(10)).as("a read that does not wait").isEmpty();
        assertThat(ledger.getLastConfirmedEntry()).isEqualTo(last);
    }

    /** No new entry can serve a caller whose own limit lies before the read position: it is told to ask again. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitWhoseLimitWasPassedEndsEmpty(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setNewEntriesCheckDelayInMillis(1);
        ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 4);
        assertThat(Reads.read(cursor, 2)).hasSize(2);
        assertThat(Reads.readOrWait(cursor, 10, positions.get(0)).get()).isEmpty();
        assertThat(Reads.readOrWait(cursor, 10, positions.get(1)).get()).isEmpty();
        assertThat(Ledgers.texts(Reads.readOrWait(cursor, 10, positions.get(2)).get())).containsExactly("e2");
        assertThat(cursor.cancelPendingReadRequest()).as("nothing waits any more").isFalse();
    }

    /** Transactions and the delayed look give a limit that new entries pass by: the wait ends, the entry stays. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEntryPastTheLimitOfAWaitIsNotDelivered(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Position first = Ledgers.add(ledger, "e0");
        assertThat(Reads.read(cursor, 1)).containsExactly("e0");
        Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10, first);
        Ledgers.add(ledger, "e1");
        assertThat(wait.get()).isEmpty();
        assertThat(Reads.read(cursor, 1)).containsExactly("e1");
    }

    /** Pulsar configures when to look again; no wait may be lost while it does. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void noWaitIsLostWhateverTheDelayOfTheSecondLook(Storage storage) throws Exception {
        for (int delay : new int[] {0, 1, 10}) {
            ManagedLedgerConfig config = world(storage).config();
            config.setNewEntriesCheckDelayInMillis(delay);
            ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
            ManagedCursor cursor = Reads.earliest(ledger, "sub");
            for (int round = 0; round < 30; round++) {
                Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10);
                Ledgers.add(ledger, "e" + round);
                assertThat(Reads.served(storage, cursor, wait)).containsExactly("e" + round);
            }
        }
    }

    /** Stock looks again only when the next entry comes. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitReadsOnFromWhereARewindLeadsIt(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 2);
        assertThat(Reads.readAll(cursor)).hasSize(2);
        Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10);
        cursor.rewind();
        if (storage == Storage.STOCK) {
            Ledgers.add(ledger, "e2");
            assertThat(Ledgers.texts(wait.get())).startsWith("e0", "e1");
            return;
        }
        assertThat(Ledgers.texts(wait.get())).isEqualTo(Reads.texts(0, 2));
        assertThat(cursor.cancelPendingReadRequest()).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCursorTakenOffTheWaitingListIsNotWokenAndItsReadCanBeCancelled(Storage storage) throws Exception {
        ManagedLedger ledger = promptLedger(storage);
        ManagedCursor removed = Reads.earliest(ledger, "removed");
        ManagedCursor other = Reads.earliest(ledger, "other");
        Answer<List<Entry>> ofRemoved = Reads.readOrWait(removed, 10);
        Answer<List<Entry>> ofOther = Reads.readOrWait(other, 10);
        ledger.removeWaitingCursor(removed);
        Ledgers.add(ledger, "e0");
        assertThat(Ledgers.texts(ofOther.get())).containsExactly("e0");
        assertThat(ofRemoved.calls()).isZero();
        assertThat(removed.cancelPendingReadRequest()).isTrue();
        assertThat(Ledgers.texts(Reads.readOrWait(removed, 10).get())).containsExactly("e0");
    }

    /** Case 35: at the border to an empty ledger one wait is registered, and the next entry comes once. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theNextEntryAfterARolledLedgerIsDeliveredOnce_case_035(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setMaxEntriesPerLedger(5);
        config.setNewEntriesCheckDelayInMillis(0);
        ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        for (int round = 0; round < 10; round++) {
            List<Position> positions = Ledgers.addMany(ledger, 5);
            Answer<List<Entry>> read = Reads.readLater(cursor, 5);
            cursor.delete(List.copyOf(positions));
            read.get().forEach(Entry::release);
            Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10);
            assertThat(Reads.readOrWait(cursor, 10).failure()).isInstanceOf(ConcurrentWaitCallbackException.class);
            Position next = Ledgers.add(ledger, "next");
            assertThat(Ledgers.texts(wait.get())).containsExactly("next");
            assertThat(wait.calls()).isEqualTo(1);
            cursor.markDelete(next);
            assertThat(cursor.readEntries(1)).isEmpty();
        }
    }
}
