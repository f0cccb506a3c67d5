package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenLedgerCallback;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

/** Opens, closes and deletions of one name that meet each other. */
public class OpenRaceTest extends ContractTest {

    private static final int ROUNDS = 30;

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void twoBrokersThatCreateANameAtOnceEndWithOneOwner_case_069(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedgerFactory first = world.factory();
        ManagedLedgerFactory second = world.secondBroker();
        for (int round = 0; round < ROUNDS; round++) {
            String name = world.freshName();
            List<CompletableFuture<ManagedLedger>> opens =
                List.of(Factories.open(first, name, world.config()), Factories.open(second, name, world.config()));
            List<ManagedLedger> opened = new ArrayList<>();
            for (CompletableFuture<ManagedLedger> open : opens) {
                Throwable failure = await(open.handle((ledger, thrown) -> thrown));
                if (failure == null) {
                    opened.add(open.join());
                } else { // stock fails the loser; Nereus lets both open and fences one
                    assertThat(storage).isEqualTo(Storage.STOCK);
                }
            }
            if (storage == Storage.STOCK) { // two that met may also both have lost
                continue;
            }
            int working = 0;
            for (ManagedLedger ledger : opened) {
                try {
                    add(ledger, "a");
                    working++;
                } catch (ManagedLedgerException e) {
                    assertThat(e).isInstanceOf(ManagedLedgerException.ManagedLedgerFencedException.class);
                }
            }
            assertThat(working).as("owners that can write").isEqualTo(1);
        }
        assertThat(add(world.open(world.freshName()), "the world goes on")).isNotNull();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anOpenThatRacesWithACloseNeverGetsAClosedLedger_case_074(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        int expected = 0;
        for (int round = 0; round < ROUNDS; round++) {
            ManagedLedger closing = ledger;
            CompletableFuture<Void> closed = CompletableFuture.runAsync(() -> {
                try {
                    closing.close();
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
            if (storage == Storage.STOCK) { // hands the closing one out
                await(closed);
            }
            do { // one that was taken before the close began may come back once more
                ledger = await(Factories.open(world.factory(), name, world.config()));
            } while (ledger == closing && !closed.isDone());
            await(closed);
            if (ledger == closing) {
                ledger = world.open(name);
            }
            add(ledger, "a");
            expected++;
        }
        assertThat(ledger.getNumberOfEntries()).isEqualTo(expected);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void opensClosesAndDeletionsOfOneNameAllEnd_case_074(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        List<CompletableFuture<?>> all = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            int what = ThreadLocalRandom.current().nextInt(4);
            CompletableFuture<?> ending = switch (what) {
                case 0 -> Factories.delete(world.factory(), name);
                case 1 -> Factories.open(world.factory(), name, world.config()).thenAccept(OpenRaceTest::closeQuietly);
                case 2 -> world.factory().asyncExists(name);
                default -> Factories.open(world.factory(), name, world.config());
            };
            all.add(ending.handle((done, failure) -> null));
        }
        await(CompletableFuture.allOf(all.toArray(CompletableFuture[]::new)));
        if (storage == Storage.STOCK) { // a deletion that met an open may have left half a ledger
            assertThat(add(world.open(world.freshName()), "the factory goes on")).isNotNull();
            return;
        }
        Ledgers.await("the name in rest", () -> {
            ManagedLedger ledger = await(Factories.open(world.factory(), name, world.config()));
            try {
                add(ledger, "a");
                return true;
            } catch (ManagedLedgerException e) {
                return false; // a close that was asked for last came after this open
            }
        });
        world.factory().delete(name);
        assertThat(await(world.factory().asyncExists(name))).isFalse();
    }

    private static void closeQuietly(ManagedLedger ledger) {
        ledger.asyncClose(new org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback() {
            @Override
            public void closeComplete(Object ctx) {
                // what the race is about
            }

            @Override
            public void closeFailed(ManagedLedgerException exception, Object ctx) {
                // deleted meanwhile
            }
        }, null);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void manyLedgersOpenAtOnce(Storage storage) throws Exception {
        World world = world(storage);
        List<CompletableFuture<ManagedLedger>> opens = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            opens.add(Factories.open(world.factory(), world.freshName(), world.config()));
        }
        for (CompletableFuture<ManagedLedger> open : opens) {
            ManagedLedger ledger = await(open);
            assertThat(world.factory().getManagedLedgers()).containsEntry(ledger.getName(), ledger);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theFactoryMayBeAskedInACallbackAndABlockingCallOnItsThreadIsRefused_case_075(Storage storage)
            throws Exception {
        World world = world(storage);
        String name = world.freshName();
        CompletableFuture<ManagedLedger> asynchronous = new CompletableFuture<>();
        CompletableFuture<List<Exception>> blocking = new CompletableFuture<>();
        world.factory().asyncOpen(name, world.config(), new OpenLedgerCallback() {
            @Override
            public void openLedgerComplete(ManagedLedger ledger, Object ctx) {
                Factories.open(world.factory(), name, world.config()).thenAccept(asynchronous::complete);
                blocking.complete(storage == Storage.STOCK ? List.of() // would wait for itself for ever
                    : List.of(failure(() -> world.factory().getManagedLedgerInfo(name)),
                        failure(() -> world.factory().openReadOnlyCursor(name, PositionFactory.EARLIEST,
                            world.config()))));
            }

            @Override
            public void openLedgerFailed(ManagedLedgerException exception, Object ctx) {
                asynchronous.completeExceptionally(exception);
            }
        }, null, null);
        assertThat(await(asynchronous)).isSameAs(world.open(name));
        assertThat(await(blocking)).allSatisfy(refused -> assertThat(refused).hasMessageContaining("callback"));
    }
}
