package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.AfterClass;
import org.testng.annotations.Test;

/**
 * Case 17: a waiting read races with everything that may end it. However the race ends, the read ends exactly once, no
 * wait is lost, and the next wait works.
 */
public class WaitingReadRaceContractTest extends ContractTest {

    private static final int ROUNDS = 400;

    private final ExecutorService racer = Executors.newSingleThreadExecutor();

    /** Ends the racing thread. */
    @AfterClass(alwaysRun = true)
    public void endRacer() {
        racer.shutdownNow();
    }

    /** One of the two sides of a race. */
    private interface Step {
        void go() throws Exception;
    }

    private void race(Step one, Step other) throws Exception {
        CyclicBarrier start = new CyclicBarrier(2);
        Future<?> racing = racer.submit(() -> {
            start.await();
            other.go();
            return null;
        });
        start.await();
        one.go();
        racing.get(Ledgers.PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    private ManagedLedger ledger(Storage storage, int delay) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setNewEntriesCheckDelayInMillis(delay);
        return world(storage).open(world(storage).freshName(), config);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitThatRacesWithAnAddIsServed_case_017(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage, 0);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Answer<List<Entry>>> waits = new ArrayList<>();
        for (int i = 0; i < ROUNDS; i++) {
            String text = "e" + i;
            race(() -> waits.add(Reads.readOrWait(cursor, 10)), () -> Ledgers.add(ledger, text));
            assertThat(Reads.served(storage, cursor, waits.get(i))).containsExactly(text);
        }
        assertThat(waits).allMatch(wait -> wait.calls() == 1);
        assertThat(cursor.cancelPendingReadRequest()).isFalse();
    }

    /** A cancelled wait is never called; one that was not cancelled is called once; no entry is lost between them. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void cancelAndNotificationCannotBothWin_case_017(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage, 0);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        int cancelled = 0;
        for (int i = 0; i < ROUNDS; i++) {
            String text = "e" + i;
            boolean[] won = {false};
            Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10);
            if (storage == Storage.STOCK) {
                // a late notification of stock may wake the wrong wait, or serve the cancelled one: no race there
                won[0] = cursor.cancelPendingReadRequest();
                Ledgers.add(ledger, text);
            } else {
                race(() -> won[0] = cursor.cancelPendingReadRequest(), () -> Ledgers.add(ledger, text));
            }
            if (won[0]) {
                cancelled++;
                List<String> next = Ledgers.texts(Reads.readOrWait(cursor, 10).get());
                assertThat(next).containsExactly(text);
                assertThat(wait.calls()).as("a cancelled wait").isZero();
            } else {
                assertThat(Reads.served(storage, cursor, wait)).containsExactly(text);
                assertThat(wait.calls()).isEqualTo(1);
            }
        }
        assertThat(cancelled).as("rounds that the cancel won").isBetween(0, ROUNDS);
        assertThat(cursor.cancelPendingReadRequest()).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitThatRacesWithACloseEndsOnce_case_017(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage, 0);
        for (int i = 0; i < ROUNDS / 4; i++) {
            ManagedCursor cursor = ledger.newNonDurableCursor(PositionFactory.LATEST, "reader-" + i);
            List<Answer<List<Entry>>> wait = new ArrayList<>();
            race(() -> wait.add(Reads.readOrWait(cursor, 10)), cursor::close);
            Answer<List<Entry>> answer = wait.get(0);
            if (storage == Storage.STOCK) {
                answer.failure(); // stock may also say that another read waits, or answer twice
                assertThat(answer.calls()).isPositive();
            } else {
                assertThat(answer.failure()).isInstanceOf(CursorAlreadyClosedException.class);
                assertThat(answer.calls()).isEqualTo(1);
            }
            ledger.deleteCursor(cursor.getName());
        }
    }

    /** Rewinds race with waits and adds: every entry comes at least once after the last rewind, and no wait hangs. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitThatRacesWithARewindIsServed_case_017(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage, 0);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Random random = new Random(17);
        for (int i = 0; i < ROUNDS / 4; i++) {
            String text = "e" + i;
            Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10_000);
            race(() -> {
                if (random.nextBoolean()) {
                    cursor.rewind();
                }
            }, () -> Ledgers.add(ledger, text));
            List<String> read = new ArrayList<>(Ledgers.texts(wait.get()));
            assertThat(wait.calls()).isEqualTo(1);
            read.addAll(Reads.readAll(cursor));
            assertThat(read).as("round %s", i).endsWith(text);
        }
        cursor.rewind();
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(0, ROUNDS / 4));
    }
}
