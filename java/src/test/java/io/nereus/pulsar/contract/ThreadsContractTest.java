package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.close;
import static io.nereus.pulsar.contract.LedgerCalls.opened;
import static io.nereus.pulsar.contract.LedgerCalls.read;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.testng.annotations.Test;

/** On which threads a ledger calls back, what may be called from there, and that nothing waits for ever. */
public class ThreadsContractTest extends ContractTest {

    /** Well below the 30 seconds after which blocking calls give up, well above what any call takes. */
    private static final Duration PROMPT = Duration.ofSeconds(10);

    private static CompletableFuture<Thread> whereAddsComplete(ManagedLedger ledger, ThrowingTask inside) {
        CompletableFuture<Thread> done = new CompletableFuture<>();
        ledger.asyncAddEntry("x".getBytes(StandardCharsets.UTF_8), new AddEntryCallback() {
            @Override
            public void addComplete(Position position, ByteBuf data, Object ctx) {
                try {
                    inside.run(position);
                    done.complete(Thread.currentThread());
                } catch (Exception e) {
                    done.completeExceptionally(e);
                }
            }

            @Override
            public void addFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
        return done;
    }

    /** What a callback does. */
    @FunctionalInterface
    private interface ThrowingTask {
        void run(Position position) throws Exception;
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void noLockIsHeldAndNoSharedThreadUsedDuringACallback_case_075(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursor cursor = ledger.openCursor("c");
        // while a callback of this ledger is running, other threads can use it for everything that answers at once
        Thread where = await(whereAddsComplete(ledger, position -> CompletableFuture.runAsync(() -> {
            ledger.getLastConfirmedEntry();
            ledger.getNumberOfEntries();
            ledger.getLedgersInfo();
            ledger.getNextValidPosition(position);
            ledger.getStats().getAddEntryBytesTotal();
            cursor.getNumberOfEntriesInBacklog(true);
            cursor.rewind();
            ledger.asyncAddEntry("y".getBytes(StandardCharsets.UTF_8), new RecordedAdds(), null);
        }).get(PROMPT.toSeconds(), TimeUnit.SECONDS)));
        assertThat(where.getName()).as("not the native side's thread").doesNotContain("completion");
        assertThat(add(ledger, "z")).isNotNull();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void asynchronousCallsAreFreeInsideACallback_case_075(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        CompletableFuture<ManagedCursor> opened = new CompletableFuture<>();
        CompletableFuture<Entry> read = new CompletableFuture<>();
        await(whereAddsComplete(ledger, position -> {
            ledger.asyncOpenCursor("c", opened(opened), null);
            read(ledger, position).thenAccept(read::complete);
        }));
        assertThat(await(opened).getName()).isEqualTo("c");
        assertThat(texts(List.of(await(read)))).containsExactly("x");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aLedgerClosesFromItsOwnCallback(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        CompletableFuture<CompletableFuture<Void>> closed = new CompletableFuture<>();
        await(whereAddsComplete(ledger, position -> closed.complete(close(ledger))));
        await(await(closed));
        assertThat(world.open(name).getNumberOfEntries()).isEqualTo(1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void manyLedgersCloseAtOnceWithoutWaitingForEachOther(Storage storage) throws Exception {
        World world = freshWorld(storage);
        List<CompletableFuture<Void>> closes = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            ManagedLedger ledger = world.open(world.freshName());
            addMany(ledger, 3);
            closes.add(close(ledger));
        }
        assertThat(CompletableFuture.allOf(closes.toArray(CompletableFuture[]::new))).succeedsWithin(PROMPT);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aBlockingCallInACallbackOfTheSameLedgerEnds_case_075(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        if (storage == Storage.STOCK) { // stock waits for itself until its 30 seconds are over
            assertThat(await(whereAddsComplete(ledger, position -> { }))).isNotNull();
            return;
        }
        long start = System.nanoTime();
        CompletableFuture<Thread> blocked = whereAddsComplete(ledger, position -> ledger.setProperty("k", "v"));
        assertThat(blocked).failsWithin(PROMPT).withThrowableOfType(java.util.concurrent.ExecutionException.class)
            .havingCause().isInstanceOf(ManagedLedgerException.class).withMessageContaining("callback");
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(PROMPT);
        assertThat(add(ledger, "goes on")).isNotNull();
    }
}
