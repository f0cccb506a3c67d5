package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.updated;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.testng.annotations.Test;

/** The properties of a ledger. */
public class LedgerPropertiesContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyFormOfChangeIsDurable(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        assertThat(ledger.getProperties()).isEmpty();
        ledger.setProperty("a", "1");
        ledger.setProperties(Map.of("b", "2", "c", "3"));
        ledger.deleteProperty("b");
        CompletableFuture<Map<String, String>> set = new CompletableFuture<>();
        ledger.asyncSetProperty("d", "4", updated(set), null);
        assertThat(await(set)).containsEntry("d", "4").containsEntry("a", "1");
        CompletableFuture<Map<String, String>> more = new CompletableFuture<>();
        ledger.asyncSetProperties(Map.of("a", "one"), updated(more), null);
        await(more);
        CompletableFuture<Map<String, String>> deleted = new CompletableFuture<>();
        ledger.asyncDeleteProperty("c", updated(deleted), null);
        assertThat(await(deleted)).isEqualTo(Map.of("a", "one", "d", "4"));
        assertThat(ledger.getProperties()).isEqualTo(Map.of("a", "one", "d", "4"));
        world.crash();
        assertThat(world.open(name).getProperties()).isEqualTo(Map.of("a", "one", "d", "4"));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletingAPropertyThatIsNotThereIsNoFailure(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ledger.setProperty("a", "1");
        ledger.deleteProperty("never");
        assertThat(ledger.getProperties()).isEqualTo(Map.of("a", "1"));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void changesTakeEffectInCallOrder(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        List<CompletableFuture<Map<String, String>>> updates = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            CompletableFuture<Map<String, String>> update = new CompletableFuture<>();
            updates.add(update);
            ledger.asyncSetProperties(Map.of("last", Integer.toString(i), "key" + i, "v"), updated(update), null);
            if (storage == Storage.STOCK) {
                await(update); // stock puts off what meets another change, without keeping the order
            }
        }
        for (CompletableFuture<Map<String, String>> update : updates) {
            await(update);
        }
        assertThat(ledger.getProperties()).containsEntry("last", "19").hasSize(21);
        world.restart();
        assertThat(world.open(name).getProperties()).containsEntry("last", "19");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theCallersMapMayChangeAfterTheCall(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Map<String, String> map = new HashMap<>(Map.of("a", "1"));
        CompletableFuture<Map<String, String>> change = new CompletableFuture<>();
        ledger.asyncSetProperties(map, updated(change), null);
        map.put("a", "changed");
        assertThat(await(change)).containsEntry("a", "1");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void thePropertiesOfTheConfigurationAreThoseOfANewLedger(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedgerConfig config = world.config();
        config.setProperties(new HashMap<>(Map.of("source", "x")));
        assertThat(world.open(name, config).getProperties()).isEqualTo(Map.of("source", "x"));
        world.restart();
        assertThat(world.open(name).getProperties()).isEqualTo(Map.of("source", "x"));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedLedgerDoesNotChange(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ledger.setProperty("a", "1");
        ledger.close();
        if (storage == Storage.NEREUS) { // stock writes, without owning the ledger any more
            assertThat(failure(() -> ledger.setProperty("a", "2"))).isInstanceOf(ManagedLedgerException.class);
        }
        assertThat(world.open(name).getProperties()).containsEntry("a", "1");
    }
}
