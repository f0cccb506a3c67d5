package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.testng.annotations.Test;

/** The fixture keeps its word on both storages. */
public class ContractFixtureTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void methodsOfAClassShareAWorldAndFreshWorldsAreTheirOwn(Storage storage) throws Exception {
        assertThat(world(storage)).isSameAs(world(storage));
        assertThat(freshWorld(storage)).isNotSameAs(world(storage));
        assertThat(world(storage).storage()).isEqualTo(storage);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whatWasAddedIsRead(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursor cursor = ledger.openCursor("c");
        add(ledger, "a");
        add(ledger, "b");
        assertThat(texts(cursor.readEntries(10))).containsExactly("a", "b");
        assertThat(world.factory().getManagedLedgers()).containsValue(ledger);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aRestartFindsDataAndCursorsAgain(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = ledger.openCursor("c");
        Position first = add(ledger, "a");
        Position second = add(ledger, "b");
        cursor.markDelete(first);
        world.restart();
        ManagedLedger again = world.open(name);
        assertThat(again).isNotSameAs(ledger);
        assertThat(again.getLastConfirmedEntry()).isEqualTo(second);
        assertThat(texts(again.openCursor("c").readEntries(10))).containsExactly("b");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCrashKeepsWhatWasAcknowledgedAndSilencesTheKilledBroker(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger killed = world.open(name);
        add(killed, "a");
        world.crash();
        ManagedLedger ledger = world.open(name);
        add(ledger, "b");
        assertThat(texts(ledger.openCursor("c", InitialPosition.Earliest).readEntries(10))).containsExactly("a", "b");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSecondBrokerFencesTheFirst(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger first = world.open(name);
        add(first, "a");
        ManagedLedger second = world.secondBroker().open(name, world.config());
        add(second, "b");
        assertThat(failure(() -> add(first, "late"))).isInstanceOf(ManagedLedgerFencedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anArmedFaultHitsOneCall(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        CompletableFuture<Void> until = new CompletableFuture<>();
        world.store().delayNext(call -> call.path().contains(name), until);
        CompletableFuture<ManagedLedger> opening = CompletableFuture.supplyAsync(() -> {
            try {
                return world.open(name);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        await("the delayed call", () -> world.store().faultsMet());
        assertThat(opening).isNotDone();
        until.complete(null);
        assertThat(await(opening).getName()).isEqualTo(name);
        assertThat(world.store().calls()).anyMatch(call -> call.path().contains(name));
        world.store().failNext(call -> true, new MetadataStoreException("armed, not met"));
        assertThat(world.store().faultsMet()).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theClockOfAConfigurationStandsUntilItIsMoved(Storage storage) throws Exception {
        World world = freshWorld(storage);
        long start = world.config().getClock().millis();
        world.clock().advance(Duration.ofHours(1));
        assertThat(world.config().getClock().millis()).isEqualTo(start + 3_600_000);
    }
}
