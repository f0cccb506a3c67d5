package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.readOrWait;
import static io.nereus.pulsar.contract.LedgerCalls.terminate;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerTerminatedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.NoMoreEntriesToReadException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** Ledgers that end: terminated and migrated. */
public class TerminateContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theFinalPositionIsPersistentAndStaysReadable(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        Position last = addMany(ledger, 3).get(2);
        assertThat(ledger.isTerminated()).isFalse();
        assertThat(ledger.terminate()).isEqualTo(last);
        assertThat(ledger.isTerminated()).isTrue();
        assertThat(ledger.getLastConfirmedEntry()).isEqualTo(last);
        assertThat(texts(cursor.readEntries(10))).containsExactly("e0", "e1", "e2");
        cursor.markDelete(last);
        world.crash();
        ManagedLedger again = world.open(name);
        assertThat(again.isTerminated()).isTrue();
        assertThat(again.isMigrated()).isFalse();
        assertThat(again.getLastConfirmedEntry()).isEqualTo(last);
        assertThat(failure(() -> add(again, "late"))).isInstanceOf(ManagedLedgerTerminatedException.class);
        assertThat(again.openCursor("c").hasMoreEntries()).isFalse();
        assertThat(texts(again.openCursor("new", InitialPosition.Earliest).readEntries(10))).hasSize(3);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void terminatingAgainAnswersTheSame(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Position last = add(ledger, "a");
        assertThat(ledger.terminate()).isEqualTo(last);
        assertThat(ledger.terminate()).isEqualTo(last);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void terminationsAtOnceAnswerTheSame(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Position last = addMany(ledger, 3).get(2);
        CompletableFuture<Position> first = terminate(ledger);
        CompletableFuture<Position> second = terminate(ledger);
        assertThat(await(second)).isEqualTo(last);
        assertThat(await(first)).isEqualTo(last);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEmptyLedgerTerminatesBeforeItsFirstEntry(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        assertThat(ledger.terminate()).isEqualTo(ledger.getFirstPosition());
        assertThat(failure(() -> add(ledger, "late"))).isInstanceOf(ManagedLedgerTerminatedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void waitsPastTheEndOfATerminatedLedgerFail(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = ledger.openCursor("c");
        add(ledger, "a");
        assertThat(texts(await(readOrWait(cursor)))).containsExactly("a");
        CompletableFuture<List<Entry>> waiting = readOrWait(cursor);
        assertThat(waiting).isNotDone();
        ledger.terminate();
        if (storage == Storage.NEREUS) { // stock leaves it waiting; its broker cancels
            assertThat(failure(() -> await(waiting))).isInstanceOf(NoMoreEntriesToReadException.class);
        } else {
            cursor.cancelPendingReadRequest();
        }
        assertThat(failure(() -> await(readOrWait(cursor)))).isInstanceOf(NoMoreEntriesToReadException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDeletedLedgerCannotBeTerminated(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ledger.delete();
        assertThat(failure(ledger::terminate)).isInstanceOf(ManagedLedgerFencedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aMigratedLedgerIsTerminatedAndSaysSoForEver(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        Position last = add(ledger, "a");
        assertThat(ledger.isMigrated()).isFalse();
        assertThat(await(ledger.asyncMigrate())).isEqualTo(last);
        assertThat(ledger.isMigrated()).isTrue();
        assertThat(ledger.isTerminated()).isTrue();
        world.restart();
        assertThat(world.open(name).isMigrated()).isTrue();
        assertThat(failure(() -> add(world.open(name), "late"))).isInstanceOf(ManagedLedgerTerminatedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void appendsAreRefusedFromTheCallOfATerminationOrMigrationOn(Storage storage) throws Exception {
        for (boolean migrate : List.of(false, true)) {
            ManagedLedger ledger = ledger(storage);
            Position last = add(ledger, "a");
            CompletableFuture<Position> end = migrate ? ledger.asyncMigrate() : terminate(ledger);
            assertThat(failure(() -> add(ledger, "late"))).isInstanceOf(ManagedLedgerTerminatedException.class);
            if (storage == Storage.NEREUS) { // stock tells it when the end is durable
                assertThat(ledger.isMigrated()).isEqualTo(migrate);
            }
            assertThat(await(end)).isEqualTo(last);
            assertThat(ledger.isMigrated()).isEqualTo(migrate);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aTerminatedLedgerCanBeTruncatedAndDeleted(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        addMany(ledger, 3);
        ledger.terminate();
        await(ledger.asyncTruncate());
        ledger.delete();
        assertThat(await(world.factory().asyncExists(name))).isFalse();
    }
}
