package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertSame;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerImpl;
import org.testng.annotations.Test;

/** Who gets a ledger that can be cast to stock's class, and that it works as the ledger it stands for. */
public class ShownLedgersTest {

    private static final long SECONDS = 30;

    private interface Check {

        void on(NereusManagedLedger ledger) throws Exception;
    }

    /** As a class of the broker that casts. */
    private static final class Caster {

        static ManagedLedger ask(ManagedCursor cursor) {
            return cursor.getManagedLedger();
        }

        /** The lambda is a class of its own for the JVM, and the method in it is not. */
        static ManagedLedger askLater(ManagedCursor cursor) throws Exception {
            return CompletableFuture.supplyAsync(() -> cursor.getManagedLedger()).get(SECONDS, TimeUnit.SECONDS);
        }
    }

    private static void with(ShownLedgers shown, Check check) throws Exception {
        try (LedgerFixture fixture = new LedgerFixture(shown)) {
            check.on(fixture.ledger(LedgerFixture.freshName()));
        }
    }

    private static ShownLedgers casting() {
        return new ShownLedgers(Caster.class::equals, CastableLedger::of);
    }

    private static ManagedCursor reader(ManagedLedger ledger, String name) throws Exception {
        return ledger.newNonDurableCursor(PositionFactory.LATEST, name);
    }

    @Test
    public void whoCastsGetsOneOfStocksClassAlwaysTheSameAndNobodyElseDoes() throws Exception {
        with(casting(), ledger -> {
            ManagedCursor cursor = ledger.openCursor("sub");
            ManagedLedger castable = Caster.ask(cursor);
            assertSame(ManagedLedgerImpl.class.cast(castable), castable);
            assertSame(Caster.askLater(cursor), castable);
            assertSame(Caster.ask(reader(ledger, "reader")), castable, "one for the ledger");
            assertSame(Caster.ask(ledger.openCursor("other")), castable);
            assertSame(cursor.getManagedLedger(), ledger);
            assertSame(reader(ledger, "another").getManagedLedger(), ledger);
        });
    }

    /** What the replicator of some releases does with it, in the middle of its work as a cursor's callback. */
    @Test
    public void itWorksAsTheLedgerAndRunsWhatIsHandedToItsThreads() throws Exception {
        with(casting(), ledger -> {
            ManagedCursor cursor = ledger.openCursor("pulsar.repl.east");
            CastableLedger castable = (CastableLedger) Caster.ask(cursor);
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

    /** What the classic Key_Shared dispatcher does with it. */
    @Test
    public void itFindsTheNextPositionAsTheLedgerDoes() throws Exception {
        with(casting(), ledger -> {
            ManagedCursor cursor = ledger.openCursor("sub");
            Position first = ledger.addEntry("m0".getBytes());
            Position second = ledger.addEntry("m1".getBytes());
            assertEquals(((ManagedLedgerImpl) Caster.ask(cursor)).getNextValidPosition(first), second);
        });
    }

    @Test
    public void theLedgerItselfIsAnsweredWhereNoOtherCanBeMade() throws Exception {
        ShownLedgers failing = new ShownLedgers(Caster.class::equals, ledger -> {
            throw new ClassNotFoundException("thrown on purpose");
        });
        with(failing, ledger -> {
            assertSame(Caster.ask(ledger.openCursor("sub")), ledger);
            assertSame(Caster.ask(reader(ledger, "reader")), ledger);
        });
    }
}
