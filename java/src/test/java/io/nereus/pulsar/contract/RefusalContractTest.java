package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.lang.reflect.Method;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OffloadCallback;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.testng.annotations.Test;

/** What a ledger of Nereus refuses by name, and the answers that are constants. */
public class RefusalContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void offloadingIsRefusedBeforeAnyEffect(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Position last = addMany(ledger, 3).get(2);
        CompletableFuture<Position> offloaded = new CompletableFuture<>();
        ledger.asyncOffloadPrefix(last, new OffloadCallback() {
            @Override
            public void offloadComplete(Position position, Object ctx) {
                offloaded.complete(position);
            }

            @Override
            public void offloadFailed(ManagedLedgerException exception, Object ctx) {
                offloaded.completeExceptionally(exception);
            }
        }, null);
        if (storage == Storage.STOCK) { // without an offloader stock has nothing to do, or refuses
            assertThat(offloaded.handle((position, failure) -> true)).succeedsWithin(Ledgers.PATIENCE);
        } else {
            assertThat(failure(() -> await(offloaded))).hasMessageContaining("offloaders");
            assertThat(failure(() -> ledger.offloadPrefix(last))).hasMessageContaining("offloaders");
        }
        assertThat(ledger.getOffloadedSize()).isZero();
        assertThat(ledger.getLastOffloadedLedgerId()).isZero();
        assertThat(ledger.getLastOffloadedSuccessTimestamp()).isZero();
        assertThat(ledger.getLastOffloadedFailureTimestamp()).isZero();
        assertThat(ledger.getNumberOfEntries()).isEqualTo(3);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void noAnswerIsLeftToADefaultOfTheInterface(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Set<String> left = new TreeSet<>();
        for (Method method : ManagedLedger.class.getMethods()) {
            if (method.isDefault() && ledger.getClass().getMethod(method.getName(), method.getParameterTypes())
                    .getDeclaringClass() == ManagedLedger.class) {
                left.add(method.getName());
            }
        }
        if (storage == Storage.NEREUS) { // it only derives names for metrics from the ledger's name
            assertThat(left).isSubsetOf("getManagedLedgerAttributes");
        }
        assertThat(ledger.getManagedLedgerAttributes().getAttributes()).isNotNull();
    }

    /** Called as Pulsar 4.1 and later call it; 4.0 does not know these methods. */
    private static CompletableFuture<?> call(ManagedLedger ledger, String method, Object... arguments) throws Exception {
        for (Method candidate : ledger.getClass().getMethods()) {
            if (candidate.getName().equals(method)) {
                candidate.setAccessible(true);
                return (CompletableFuture<?>) candidate.invoke(ledger, arguments);
            }
        }
        return null;
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void propertiesOfSingleLedgersAreRefusedByName(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        addMany(ledger, 1);
        long id = ledger.getLastConfirmedEntry().getLedgerId();
        CompletableFuture<?> added = call(ledger, "asyncAddLedgerProperty", id, "k", "v");
        if (storage == Storage.STOCK) { // Pulsar 4.0 has no such method
            assertThat(added == null || added.handle((done, failure) -> true).join().equals(true)).isTrue();
            return;
        }
        assertThat(failure(() -> await(added))).hasMessageContaining("properties of single ledgers");
        assertThat(failure(() -> await(call(ledger, "asyncRemoveLedgerProperty", id, "k"))))
            .hasMessageContaining("properties of single ledgers");
        assertThat(failure(() -> await(call(ledger, "asyncGetLedgerProperty", id, "k"))))
            .hasMessageContaining("properties of single ledgers");
        assertThat(ledger.getProperties()).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void housekeepingOfCachesAndCursorLedgersDisturbsNothing(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ledger.openCursor("c");
        Position last = addMany(ledger, 3).get(2);
        ledger.checkCursorsToCacheEntries();
        ledger.rolloverCursorsInBackground();
        ledger.skipNonRecoverableLedger(last.getLedgerId() + 1_000);
        if (storage == Storage.NEREUS) {
            assertThat(ledger.getCacheSize()).as("entries are cached natively, for all topics together").isZero();
        } else {
            assertThat(ledger.getCacheSize()).isNotNegative();
        }
        assertThat(ledger.getNumberOfEntries()).isEqualTo(3);
        assertThat(ledger.openCursor("c").getNumberOfEntriesInBacklog(true)).isEqualTo(3);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theTimesOfCreationAndOfTheLastAppendAreTold(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        long created = System.currentTimeMillis();
        ManagedLedger ledger = world.open(name);
        addMany(ledger, 1);
        if (storage == Storage.STOCK) { // Pulsar has them from 4.0.9 on
            assertThat(ledger.getNumberOfEntries()).isEqualTo(1);
            return;
        }
        world.restart();
        ManagedLedger again = world.open(name);
        assertThat(time(again, "getMetadataCreationTimestamp")).isBetween(created, System.currentTimeMillis());
        assertThat(time(again, "getLastAddEntryTime")).as("also of an earlier life of the broker")
            .isBetween(created, System.currentTimeMillis());
        assertThat(time(world.open(world.freshName()), "getLastAddEntryTime")).as("never written").isZero();
    }

    private static long time(ManagedLedger ledger, String method) throws Exception {
        Method getter = ledger.getClass().getMethod(method);
        getter.setAccessible(true);
        return (long) getter.invoke(ledger);
    }
}
