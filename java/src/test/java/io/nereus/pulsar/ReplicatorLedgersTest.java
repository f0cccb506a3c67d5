package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertNotSame;
import static org.testng.Assert.assertSame;

import io.nereus.pulsar.compat.ReplicatorCast;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerImpl;
import org.testng.annotations.Test;

/** Which cursors answer a ledger that can be cast to stock's class, and that it works as the ledger it stands for. */
public class ReplicatorLedgersTest {

    private static final String TO_CLUSTER = "pulsar.repl.east";
    private static final String TO_SHADOW = "pulsar.repl-persistent%3A%2F%2Fpublic%2Fdefault%2Fshadow";
    private static final long SECONDS = 30;

    private interface Check {

        void on(NereusManagedLedger ledger) throws Exception;
    }

    private static void with(ReplicatorLedgers replicators, Check check) throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(replicators)) {
            check.on(fixture.ledger(LedgerFixture.freshName()));
        }
    }

    private static ReplicatorLedgers casting() {
        return new ReplicatorLedgers(true, "pulsar.repl", CastableLedger::of);
    }

    private static ManagedCursor reader(ManagedLedger ledger, String name) throws Exception {
        return ledger.newNonDurableCursor(PositionFactory.LATEST, name);
    }

    @Test
    public void cursorsOfReplicatorsAloneAnswerOneOfStocksClassAlwaysTheSame() throws Exception {
        with(casting(), ledger -> {
            ManagedLedger castable = ledger.openCursor(TO_CLUSTER).getManagedLedger();
            assertSame(ManagedLedgerImpl.class.cast(castable), castable);
            assertSame(reader(ledger, TO_SHADOW).getManagedLedger(), castable, "one for the ledger");
            assertSame(ledger.openCursor(TO_CLUSTER).getManagedLedger(), castable);
            for (String name : List.of("sub", "pulsar", "a.pulsar.repl.east", "pulsar.dedup")) {
                assertSame(ledger.openCursor(name).getManagedLedger(), ledger, name);
            }
            assertSame(reader(ledger, "reader").getManagedLedger(), ledger);
        });
    }

    /** What the replicator of those releases does with it, in the middle of its work as a cursor's callback. */
    @Test
    public void itWorksAsTheLedgerAndRunsWhatIsHandedToItsThreads() throws Exception {
        with(casting(), ledger -> {
            ManagedCursor cursor = ledger.openCursor(TO_CLUSTER);
            CastableLedger castable = (CastableLedger) cursor.getManagedLedger();
            assertEquals(castable.addEntry("m0".getBytes()), ledger.getLastConfirmedEntry());
            assertEquals(castable.getLastConfirmedEntry(), ledger.getLastConfirmedEntry());
            assertEquals(castable.getName(), ledger.getName());
            assertEquals(castable.toString(), ledger.toString());
            assertSame(castable.getCursors(), ledger.getCursors());
            assertEquals(LedgerFixture.texts(cursor.readEntries(5)), List.of("m0"));
            CompletableFuture<Boolean> ran = new CompletableFuture<>();
            castable.getScheduledExecutor().schedule(
                () -> castable.getExecutor().execute(() -> ran.complete(ledger.isOnExecutor())), 1, TimeUnit.MILLISECONDS);
            assertEquals(ran.get(SECONDS, TimeUnit.SECONDS), true, "on the ledger's own thread");
            castable.close();
            assertEquals(ledger.isClosed(), true);
        });
    }

    @Test
    public void aBrokerThatCastsNothingSeesTheLedgerItself() throws Exception {
        with(new ReplicatorLedgers(false, "pulsar.repl", CastableLedger::of), ledger -> {
            assertSame(ledger.openCursor(TO_CLUSTER).getManagedLedger(), ledger);
            assertSame(reader(ledger, TO_SHADOW).getManagedLedger(), ledger);
        });
    }

    @Test
    public void theBrokerOfThisReleaseSeesWhatItNeeds() throws Exception {
        with(ReplicatorLedgers.ofBroker("pulsar.repl"), ledger ->
            assertEquals(ledger.openCursor(TO_CLUSTER).getManagedLedger() != ledger, ReplicatorCast.exists()));
    }

    @Test
    public void theBrokersOwnPrefixCounts() throws Exception {
        with(new ReplicatorLedgers(true, "geo", CastableLedger::of), ledger -> {
            assertNotSame(ledger.openCursor("geo.east").getManagedLedger(), ledger);
            assertSame(ledger.openCursor(TO_CLUSTER).getManagedLedger(), ledger);
        });
    }

    @Test
    public void theLedgerItselfIsAnsweredWhereNoOtherCanBeMade() throws Exception {
        ReplicatorLedgers failing = new ReplicatorLedgers(true, "pulsar.repl", ledger -> {
            throw new ClassNotFoundException("thrown on purpose");
        });
        with(failing, ledger -> {
            assertSame(ledger.openCursor(TO_CLUSTER).getManagedLedger(), ledger);
            assertSame(reader(ledger, TO_SHADOW).getManagedLedger(), ledger);
        });
    }
}
