package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.opened;
import static io.nereus.pulsar.contract.LedgerCalls.stored;
import static io.nereus.pulsar.contract.LedgerCalls.updated;
import static io.nereus.pulsar.contract.Ledgers.await;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.testng.annotations.Test;

/** What goes on while the metadata store does not answer, and that everything recovers by itself when it does. */
public class TimeoutContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void appendsOutliveAMetadataStoreThatDoesNotAnswer_case_065(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedgerConfig config = world.config().setMaxEntriesPerLedger(2).setRetentionTime(-1, TimeUnit.MINUTES)
            .setRetentionSizeInMB(-1);
        ManagedLedger ledger = world.open(name, config);
        CompletableFuture<Void> until = new CompletableFuture<>();
        world.store().delayNext(FaultyStore.puts(World.registryNode(name)), until);
        RecordedAdds adds = new RecordedAdds();
        for (int i = 0; i < 6; i++) {
            ledger.asyncAddEntry(("e" + i).getBytes(StandardCharsets.UTF_8), adds, i);
        }
        if (storage == Storage.STOCK) { // a rollover needs the store
            await("the rollover to meet the store", () -> world.store().faultsMet());
            assertThat(adds.soFar()).hasSizeLessThanOrEqualTo(2);
        } else {
            assertThat(adds.await(6)).as("none needs the store").allMatch(RecordedAdds.Outcome::stored);
        }
        until.complete(null);
        assertThat(adds.await(6)).allMatch(RecordedAdds.Outcome::stored);
        assertThat(stored(ledger)).containsExactly("e0", "e1", "e2", "e3", "e4", "e5");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void cursorsAndPropertiesOutliveAMetadataStoreThatDoesNotAnswer_case_065(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        CompletableFuture<Void> until = new CompletableFuture<>();
        world.store().delayNext(FaultyStore.puts(World.registryNode(name)), until);
        world.store().delayNext(FaultyStore.puts(World.registryNode(name)), until);
        CompletableFuture<ManagedCursor> cursor = new CompletableFuture<>();
        ledger.asyncOpenCursor("c", opened(cursor), null);
        CompletableFuture<Map<String, String>> properties = new CompletableFuture<>();
        ledger.asyncSetProperty("k", "v", updated(properties), null);
        if (storage == Storage.STOCK) {
            await("both to meet the store", () -> world.store().faultsMet());
            assertThat(cursor).isNotDone();
            assertThat(properties).isNotDone();
        } else {
            assertThat(await(cursor).getName()).isEqualTo("c");
            assertThat(await(properties)).containsEntry("k", "v");
        }
        until.complete(null);
        assertThat(await(cursor).isDurable()).isTrue();
        assertThat(await(properties)).containsEntry("k", "v");
    }
}
