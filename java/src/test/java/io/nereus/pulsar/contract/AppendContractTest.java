package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.rollIfFull;
import static io.nereus.pulsar.contract.LedgerCalls.stored;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** Appends that succeed: order, positions, callbacks. */
public class AppendContractTest extends ContractTest {

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void outcomesComeInTheOrderOfTheCalls(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        RecordedAdds adds = new RecordedAdds();
        for (int i = 0; i < 200; i++) {
            ledger.asyncAddEntry(bytes("e" + i), adds, i);
        }
        List<RecordedAdds.Outcome> outcomes = adds.await(200);
        assertThat(outcomes).allMatch(RecordedAdds.Outcome::stored);
        assertThat(outcomes).extracting(RecordedAdds.Outcome::ctx)
            .isEqualTo(IntStream.range(0, 200).boxed().toList());
        assertThat(outcomes.stream().map(RecordedAdds.Outcome::position).toList()).isSorted();
        assertThat(ledger.getPendingAddEntriesCount()).isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void callbacksOfOneLedgerRunOnOneThread(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        RecordedAdds adds = new RecordedAdds();
        for (int i = 0; i < 50; i++) {
            ledger.asyncAddEntry(bytes("e" + i), adds, i);
        }
        assertThat(adds.await(50).stream().map(RecordedAdds.Outcome::thread).distinct()).hasSize(1)
            .doesNotContain(Thread.currentThread());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void entryIdsAreDenseAndLedgerIdsRise(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName(), world.config().setMaxEntriesPerLedger(4));
        Position previous = PositionFactory.create(-1, -1);
        for (Position position : Ledgers.addMany(ledger, 10)) {
            if (position.getLedgerId() == previous.getLedgerId()) {
                assertThat(position.getEntryId()).isEqualTo(previous.getEntryId() + 1);
            } else {
                assertThat(position.getLedgerId()).isGreaterThan(previous.getLedgerId());
                assertThat(position.getEntryId()).isZero();
            }
            previous = position;
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyFormOfAppendStoresItsBytes(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        RecordedAdds adds = new RecordedAdds();
        ledger.addEntry(bytes("whole"));
        ledger.addEntry(bytes("whole, two messages"), 2);
        ledger.addEntry(bytes("whole, no message"), 0);
        ledger.addEntry(bytes("<cut>"), 1, 3);
        ledger.addEntry(bytes("<cut two>"), 2, 1, 7);
        ledger.asyncAddEntry(bytes("array"), adds, 0);
        ledger.asyncAddEntry(bytes("<array cut>"), 1, 9, adds, 1);
        ledger.asyncAddEntry(bytes("<array two>"), 2, 1, 9, adds, 2);
        ledger.asyncAddEntry(Unpooled.wrappedBuffer(bytes("buffer")), adds, 3);
        ledger.asyncAddEntry(Unpooled.wrappedBuffer(bytes("buffer two")), 2, adds, 4);
        assertThat(adds.await(5)).extracting(RecordedAdds.Outcome::text)
            .containsExactly("array", "array cut", "array two", "buffer", "buffer two");
        assertThat(stored(ledger)).containsExactly("whole", "whole, two messages", "whole, no message", "cut",
            "cut two", "array", "array cut", "array two", "buffer", "buffer two");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theLastConfirmedEntryMovesBeforeTheCallback(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        int count = 50;
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CompletableFuture<Void> last = new CompletableFuture<>();
        for (int i = 0; i < count; i++) {
            ledger.asyncAddEntry(bytes("e" + i), new AddEntryCallback() {
                @Override
                public void addComplete(Position position, ByteBuf data, Object ctx) {
                    if (ledger.getLastConfirmedEntry().compareTo(position) < 0) {
                        seen.add(ledger.getLastConfirmedEntry() + " in the callback of " + position);
                    }
                    if ((Integer) ctx == count - 1) {
                        last.complete(null);
                    }
                }

                @Override
                public void addFailed(ManagedLedgerException exception, Object ctx) {
                    last.completeExceptionally(exception);
                }
            }, i);
        }
        await(last);
        assertThat(seen).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theCallbacksBytesAreReadOnlyAndComplete_case_079(Storage storage) throws Exception {
        World world = world(storage);
        // every append closes its ledger, which is where the bytes were lost
        ManagedLedger ledger = world.open(world.freshName(), world.config().setMaxEntriesPerLedger(1));
        CompletableFuture<Boolean> readOnly = new CompletableFuture<>();
        RecordedAdds adds = new RecordedAdds();
        for (int i = 0; i < 5; i++) {
            ledger.asyncAddEntry(bytes("e" + i), new AddEntryCallback() {
                @Override
                public void addComplete(Position position, ByteBuf data, Object ctx) {
                    readOnly.complete(data.isReadOnly());
                    adds.addComplete(position, data, ctx);
                }

                @Override
                public void addFailed(ManagedLedgerException exception, Object ctx) {
                    adds.addFailed(exception, ctx);
                }
            }, i);
        }
        assertThat(adds.await(5)).extracting(RecordedAdds.Outcome::text).containsExactly("e0", "e1", "e2", "e3", "e4");
        assertThat(await(readOnly)).isTrue();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void waitingReadersAreWokenAfterTheCallback(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = ledger.openCursor("c");
        List<String> events = Collections.synchronizedList(new ArrayList<>());
        CompletableFuture<List<Entry>> read = new CompletableFuture<>();
        cursor.asyncReadEntriesOrWait(10, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                events.add("read");
                read.complete(entries);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                read.completeExceptionally(exception);
            }
        }, null, PositionFactory.LATEST);
        ledger.asyncAddEntry(bytes("a"), new AddEntryCallback() {
            @Override
            public void addComplete(Position position, ByteBuf data, Object ctx) {
                events.add("added");
            }

            @Override
            public void addFailed(ManagedLedgerException exception, Object ctx) {
                events.add("failed " + exception);
            }
        }, null);
        assertThat(texts(await(read))).containsExactly("a");
        assertThat(events).containsExactly("added", "read");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whoReturnsFirstIsStoredFirst_case_063(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        RecordedAdds adds = new RecordedAdds();
        List<Integer> called = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(16);
        try {
            List<Future<?>> writers = new ArrayList<>();
            for (int thread = 0; thread < 16; thread++) {
                int first = thread * 10;
                writers.add(threads.submit(() -> {
                    for (int i = first; i < first + 10; i++) {
                        synchronized (called) {
                            ledger.asyncAddEntry(bytes("e" + i), adds, i);
                            called.add(i);
                        }
                    }
                }));
            }
            for (Future<?> writer : writers) {
                writer.get(Ledgers.PATIENCE.toSeconds(), TimeUnit.SECONDS);
            }
        } finally {
            threads.shutdownNow();
        }
        List<RecordedAdds.Outcome> outcomes = adds.await(160);
        assertThat(outcomes).extracting(RecordedAdds.Outcome::ctx).isEqualTo(called);
        assertThat(stored(ledger)).isEqualTo(called.stream().map(i -> "e" + i).toList());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAcknowledgedEntryIsThereOnceAfterEveryWayToComeBack_case_001(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        add(world.open(name), "a");
        world.restart();
        add(world.open(name), "b");
        world.crash();
        add(world.open(name), "c");
        assertThat(stored(world.open(name))).containsExactly("a", "b", "c");
        assertThat(world.open(name).getNumberOfEntries()).isEqualTo(3);
        world.crash();
        assertThat(stored(world.open(name))).containsExactly("a", "b", "c");
        assertThat(texts(world.open(name).openCursor("late", InitialPosition.Earliest).readEntries(10)))
            .containsExactly("a", "b", "c");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aRolloverInTheMiddleLosesNoEntry_case_023(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedgerConfig keepsAll = world.config().setMaxEntriesPerLedger(3)
            .setRetentionTime(-1, TimeUnit.MINUTES).setRetentionSizeInMB(-1);
        ManagedLedger ledger = world.open(name, keepsAll);
        RecordedAdds adds = new RecordedAdds();
        for (int i = 0; i < 20; i++) {
            ledger.asyncAddEntry(bytes("e" + i), adds, i);
            if (i % 5 == 0) {
                rollIfFull(ledger);
            }
        }
        assertThat(adds.await(20)).allMatch(RecordedAdds.Outcome::stored);
        world.restart();
        assertThat(stored(world.open(name, keepsAll))).isEqualTo(IntStream.range(0, 20).mapToObj(i -> "e" + i).toList());
    }

}
