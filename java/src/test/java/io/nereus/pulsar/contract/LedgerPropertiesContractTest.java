package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.UpdatePropertiesCallback;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.testng.annotations.Test;

/** The properties of a ledger. */
public class LedgerPropertiesContractTest extends ContractTest {

    private static final class Updated implements UpdatePropertiesCallback {
        private final CompletableFuture<Map<String, String>> future = new CompletableFuture<>();

        @Override
        public void updatePropertiesComplete(Map<String, String> properties, Object ctx) {
            future.complete(new HashMap<>(properties));
        }

        @Override
        public void updatePropertiesFailed(ManagedLedgerException exception, Object ctx) {
            future.completeExceptionally(exception);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyFormOfChangeIsDurable(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        assertThat(ledger.getProperties()).isEmpty();
        ledger.setProperty("a", "1");
        ledger.setProperties(Map.of("b", "2", "c", "3"));
        ledger.deleteProperty("b");
        Updated set = new Updated();
        ledger.asyncSetProperty("d", "4", set, null);
        assertThat(await(set.future)).containsEntry("d", "4").containsEntry("a", "1");
        Updated more = new Updated();
        ledger.asyncSetProperties(Map.of("a", "one"), more, null);
        await(more.future);
        Updated deleted = new Updated();
        ledger.asyncDeleteProperty("c", deleted, null);
        assertThat(await(deleted.future)).isEqualTo(Map.of("a", "one", "d", "4"));
        assertThat(ledger.getProperties()).isEqualTo(Map.of("a", "one", "d", "4"));
        world.crash();
        assertThat(world.open(name).getProperties()).isEqualTo(Map.of("a", "one", "d", "4"));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void deletingAPropertyThatIsNotThereIsNoFailure(Storage storage) throws Exception {
        ManagedLedger ledger = world(storage).open(world(storage).freshName());
        ledger.setProperty("a", "1");
        ledger.deleteProperty("never");
        assertThat(ledger.getProperties()).isEqualTo(Map.of("a", "1"));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void changesTakeEffectInCallOrder(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        Updated[] updates = new Updated[20];
        for (int i = 0; i < updates.length; i++) {
            updates[i] = new Updated();
            ledger.asyncSetProperties(Map.of("last", Integer.toString(i), "key" + i, "v"), updates[i], null);
            if (storage == Storage.STOCK) {
                await(updates[i].future); // stock puts off what meets another change, without keeping the order
            }
        }
        for (Updated update : updates) {
            await(update.future);
        }
        assertThat(ledger.getProperties()).containsEntry("last", "19").hasSize(21);
        world.restart();
        assertThat(world.open(name).getProperties()).containsEntry("last", "19");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theCallersMapMayChangeAfterTheCall(Storage storage) throws Exception {
        ManagedLedger ledger = world(storage).open(world(storage).freshName());
        Map<String, String> map = new HashMap<>(Map.of("a", "1"));
        Updated updated = new Updated();
        ledger.asyncSetProperties(map, updated, null);
        map.put("a", "changed");
        assertThat(await(updated.future)).containsEntry("a", "1");
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
