package io.nereus.pulsar.contract;

import static org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries.Exclude;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.Position;
import org.testng.annotations.AfterClass;
import org.testng.annotations.Test;

/** Reads beside acknowledgements, closes and a change of the owner. */
public class ReadConcurrencyContractTest extends ContractTest {

    private final ExecutorService threads = Executors.newCachedThreadPool();

    /** Ends the threads of the tests. */
    @AfterClass(alwaysRun = true)
    public void endThreads() {
        threads.shutdownNow();
    }

    private void atOnce(List<Callable<?>> bodies) throws Exception {
        CyclicBarrier start = new CyclicBarrier(bodies.size());
        List<Future<?>> running = new ArrayList<>();
        for (Callable<?> body : bodies) {
            running.add(threads.submit(() -> {
                start.await();
                return body.call();
            }));
        }
        for (Future<?> run : running) {
            run.get(Ledgers.PATIENCE.toSeconds(), TimeUnit.SECONDS);
        }
    }

    /** Reads go on while the cursor is mark-deleted ahead of them: nothing fails, the order stays. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readsAndMarkDeletesGoOnTogether(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 300);
        List<Position> read = new ArrayList<>();
        atOnce(List.of(() -> {
            for (Position position : positions) {
                cursor.markDelete(position);
            }
            return null;
        }, () -> {
            while (cursor.hasMoreEntries()) {
                for (Entry entry : cursor.readEntries(7)) {
                    read.add(entry.getPosition());
                    entry.release();
                }
            }
            return null;
        }));
        assertThat(read).isSorted().doesNotHaveDuplicates();
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(299));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(299).getNext());
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
    }

    /** A read that races with the close of its cursor ends with entries or with a refusal, never not at all. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readsThatRaceWithACloseEnd(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Ledgers.addMany(ledger, 20);
        for (int round = 0; round < 30; round++) {
            ManagedCursor cursor = Reads.earliest(ledger, "sub-" + round);
            List<Answer<List<Entry>>> reads = new ArrayList<>();
            atOnce(List.of(() -> {
                for (int i = 0; i < 10; i++) {
                    reads.add(Reads.readLater(cursor, 3));
                }
                return null;
            }, () -> {
                cursor.close();
                return null;
            }));
            for (Answer<List<Entry>> read : reads) {
                read.await();
                if (!read.failed()) {
                    read.get().forEach(Entry::release);
                }
                assertThat(read.calls()).isEqualTo(1);
            }
        }
    }

    /** The count of the backlog and the acks of others go on together. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void peeksAndAcksGoOnTogether(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 200);
        Callable<?> peek = () -> {
            for (int n = 1; n <= 100; n++) {
                Entry entry = cursor.getNthEntry(n, Exclude);
                if (entry != null) {
                    entry.release();
                }
            }
            return null;
        };
        atOnce(List.of(peek, peek, () -> {
            for (int i = 0; i < 200; i += 2) {
                cursor.delete(positions.get(i));
            }
            return null;
        }));
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(100);
        assertThat(Ledgers.text(cursor.getNthEntry(100, Exclude))).isEqualTo("e199");
        assertThat(cursor.getNthEntry(101, Exclude)).isNull();
    }

    /** The place of a reader is not stored: after a reopen reading begins with the first unacknowledged entry. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theReadPositionIsNotPersisted(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 8);
        assertThat(Reads.readAll(cursor)).hasSize(8);
        cursor.markDelete(positions.get(1));
        cursor.delete(positions.get(3));
        world.restart();
        ManagedCursor reopened = Reads.earliest(world.open(name), "sub");
        assertThat(reopened.getReadPosition()).isEqualTo(positions.get(2));
        assertThat(Reads.readAll(reopened)).containsExactly("e2", "e4", "e5", "e6", "e7");
    }

    /** Every read that is under way when its broker stops is answered. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readsUnderWayWhenTheBrokerStopsAreAnswered(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        Ledgers.addMany(ledger, 100);
        List<Answer<List<Entry>>> reads = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            ManagedCursor cursor = Reads.earliest(ledger, "sub-" + i);
            reads.add(Reads.readLater(cursor, 50));
            reads.add(Reads.readLater(cursor, 50));
            if (storage == Storage.NEREUS) {
                reads.add(Reads.readOrWait(Reads.latest(ledger, "end-" + i), 1));
            }
        }
        if (storage == Storage.STOCK) {
            for (Answer<List<Entry>> read : reads) {
                read.await(); // what stock's threads have not done when they are shut down is never answered
            }
        }
        world.restart();
        for (Answer<List<Entry>> read : reads) {
            read.await();
            if (!read.failed()) {
                read.get().forEach(Entry::release);
            }
            assertThat(read.calls()).isEqualTo(1);
        }
    }

    /** Once another broker owns the ledger, the former one reads no more entries that it could not know about. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theFormerOwnerEndsItsWaits(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger former = world.open(name);
        ManagedCursor cursor = Reads.earliest(former, "sub");
        List<Position> positions = Ledgers.addMany(former, 3);
        assertThat(Reads.readAll(cursor)).hasSize(3);
        Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10);
        ManagedLedgerFactory next = world.secondBroker();
        ManagedLedger taken = next.open(name, world.config());
        Ledgers.add(taken, "e3");
        assertThat(Ledgers.failure(() -> Ledgers.add(former, "lost"))).isInstanceOf(ManagedLedgerException.class);
        former.asyncClose(CloseIgnored.CALLBACK, null);
        if (storage == Storage.STOCK) {
            // stock refuses to close what it has lost, and leaves the wait to whoever cancels it
            assertThat(wait.isDone()).isFalse();
            assertThat(cursor.cancelPendingReadRequest()).isTrue();
        } else {
            wait.failure();
            assertThat(wait.calls()).isEqualTo(1);
        }
        ManagedCursor moved = Reads.earliest(taken, "sub");
        assertThat(moved.getReadPosition()).isEqualTo(positions.get(0));
        assertThat(Reads.readAll(moved)).isEqualTo(Reads.texts(0, 4));
    }

    /** Whether a ledger that was taken away closes cleanly is no matter of these tests. */
    private static final class CloseIgnored {
        private static final CloseCallback CALLBACK =
            new CloseCallback() {
                @Override
                public void closeComplete(Object ctx) {
                }

                @Override
                public void closeFailed(ManagedLedgerException exception, Object ctx) {
                }
            };
    }
}
