package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ResetCursorCallback;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/**
 * What a reader finds in a ledger of which everything is consumed and let go. The broker tells clients a last message if
 * the ledgers' list has the last confirmed entry's ledger, and a client reads until it has met that message: one that is
 * told and cannot be read keeps it waiting for ever (case 93).
 */
public class KeptLastEntryContractTest extends ContractTest {

    private static ManagedLedger emptied(World world, List<Position> added) throws Exception {
        ManagedLedger ledger = world.open(world.freshName(), world.config().setMaxEntriesPerLedger(5));
        ledger.openCursor("c");
        added.addAll(addMany(ledger, 5));
        await(ledger.asyncTruncate());
        await("everything is let go", () -> ledger.getNumberOfEntries() == 0);
        return ledger;
    }

    /** Whether the broker tells a client that there is a last message. */
    private static boolean lastMessageIsTold(ManagedLedger ledger) {
        Position last = ledger.getLastConfirmedEntry();
        return last.getEntryId() >= 0 && ledger.getLedgersInfo().containsKey(last.getLedgerId());
    }

    private static List<String> readAll(ManagedCursor reader) throws Exception {
        return reader.hasMoreEntries() ? texts(reader.readEntries(10)) : List.of();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReaderFindsTheLastMessageExactlyIfItIsTold_case_093(Storage storage) throws Exception {
        World world = world(storage);
        List<Position> added = new ArrayList<>();
        ManagedLedger ledger = emptied(world, added);
        boolean told = lastMessageIsTold(ledger);
        assertThat(told).isEqualTo(storage == Storage.NEREUS); // stock tells "none", and forgets the id
        List<String> kept = told ? List.of("e4") : List.of();
        assertThat(readAll(ledger.newNonDurableCursor(PositionFactory.EARLIEST, "earliest"))).isEqualTo(kept);
        assertThat(readAll(ledger.newNonDurableCursor(added.get(1), "older"))).isEqualTo(kept);
        assertThat(readAll(ledger.newNonDurableCursor(added.get(4), "last"))).isEmpty();
        assertThat(readAll(ledger.newNonDurableCursor(PositionFactory.LATEST, "latest"))).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReaderThatSeeksBackFindsTheLastMessageAgainIfItIsTold_case_093(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = emptied(world, new ArrayList<>());
        List<String> kept = lastMessageIsTold(ledger) ? List.of("e4") : List.of();
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.LATEST, "reader");
        CompletableFuture<Object> reset = new CompletableFuture<>();
        reader.asyncResetCursor(PositionFactory.EARLIEST, false, new ResetCursorCallback() {
            @Override
            public void resetComplete(Object ctx) {
                reset.complete(ctx);
            }

            @Override
            public void resetFailed(ManagedLedgerException exception, Object ctx) {
                reset.completeExceptionally(exception);
            }
        });
        await(reset);
        assertThat(readAll(reader)).isEqualTo(kept);
        assertThat(readAll(reader)).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aNewEntryTakesThePlaceOfTheKeptOne(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = emptied(world, new ArrayList<>());
        ManagedCursor early = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "early");
        add(ledger, "new");
        assertThat(readAll(early)).containsExactly("new");
        assertThat(readAll(ledger.newNonDurableCursor(PositionFactory.EARLIEST, "late"))).containsExactly("new");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theKeptEntryIsNoBacklogOfADurableCursor(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = emptied(world, new ArrayList<>());
        ManagedCursor durable = ledger.openCursor("fresh",
            InitialPosition.Earliest);
        assertThat(durable.hasMoreEntries()).isFalse();
        if (storage == Storage.NEREUS) { // stock may count what it has let go
            assertThat(durable.getNumberOfEntriesInBacklog(true)).isZero();
        }
        add(ledger, "new");
        assertThat(texts(durable.readEntries(10))).containsExactly("new");
    }
}
