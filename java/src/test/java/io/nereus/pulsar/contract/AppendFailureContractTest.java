package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.close;
import static io.nereus.pulsar.contract.LedgerCalls.stored;
import static io.nereus.pulsar.contract.LedgerCalls.terminate;
import static io.nereus.pulsar.contract.LedgerCalls.trim;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerTerminatedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.testng.annotations.Test;

/** Appends that fail: with which type, in which order, and what is stored then. */
public class AppendFailureContractTest extends ContractTest {

    private static ByteBuf buffer(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return PooledByteBufAllocator.DEFAULT.directBuffer(bytes.length).writeBytes(bytes);
    }

    /** Appends {@code count} entries without waiting, and gives every buffer back. */
    private static List<ByteBuf> start(ManagedLedger ledger, RecordedAdds adds, int count) {
        List<ByteBuf> buffers = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            ByteBuf buffer = buffer("e" + i);
            buffers.add(buffer);
            ledger.asyncAddEntry(buffer, adds, i);
            buffer.release();
        }
        return buffers;
    }

    /** In call order: some that were stored, then only failures of one type. */
    private static List<String> storedPrefix(List<RecordedAdds.Outcome> outcomes,
                                             Class<? extends ManagedLedgerException> type) {
        List<String> prefix = new ArrayList<>();
        for (int i = 0; i < outcomes.size(); i++) {
            RecordedAdds.Outcome outcome = outcomes.get(i);
            assertThat(outcome.ctx()).as("outcomes in call order").isEqualTo(i);
            if (outcome.stored()) {
                assertThat(prefix).as("nothing is stored behind a failure").hasSize(i);
                prefix.add(outcome.text());
            } else {
                assertThat(outcome.failure()).isInstanceOf(type);
            }
        }
        return prefix;
    }

    /** What can be said of stock's appends while their ledger is closed, deleted or taken over: none ends twice. */
    private static void assertNoneEndedTwice(RecordedAdds adds) {
        assertThat(adds.soFar()).extracting(RecordedAdds.Outcome::ctx).doesNotHaveDuplicates();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedLedgerRefusesWithAlreadyClosed(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ledger.close();
        assertThat(failure(() -> add(ledger, "late"))).isInstanceOf(ManagedLedgerAlreadyClosedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aTerminatedLedgerRefusesWithTerminated(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        add(ledger, "a");
        ledger.terminate();
        assertThat(failure(() -> add(ledger, "late"))).isInstanceOf(ManagedLedgerTerminatedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDeletedLedgerRefusesWithFenced(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ledger.delete();
        assertThat(failure(() -> add(ledger, "late"))).isInstanceOf(ManagedLedgerFencedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aFencedLedgerStaysFencedWhateverTheBrokerCalls_case_004(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger first = world.open(name);
        ManagedCursor cursor = first.openCursor("c");
        Position position = add(first, "a");
        ManagedLedger second = world.secondBroker().open(name, world.config());
        assertThat(failure(() -> add(first, "late"))).isInstanceOf(ManagedLedgerFencedException.class);
        first.readyToCreateNewLedger();
        first.unfenceForInterceptorException();
        if (storage == Storage.STOCK) {
            // stock goes on with a ledger of its own, and is fenced by the next change of the topic's ledger list
            cursor.markDelete(position);
            return;
        }
        assertThat(failure(() -> add(first, "later"))).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(() -> trim(first))).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(() -> cursor.markDelete(position))).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(first::terminate)).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(() -> first.openCursor("new"))).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(() -> first.setProperty("k", "v"))).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(first::close)).isInstanceOf(ManagedLedgerFencedException.class);
        add(second, "b");
        assertThat(stored(second)).containsExactly("a", "b");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whatFailedIsNotStoredAndNothingOvertakesIt_case_003(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger first = world.open(name);
        RecordedAdds adds = new RecordedAdds();
        start(first, adds, 50);
        ManagedLedger second = world.secondBroker().open(name, world.config());
        for (int i = 50; i < 60; i++) {
            first.asyncAddEntry(("e" + i).getBytes(StandardCharsets.UTF_8), adds, i);
        }
        if (storage == Storage.STOCK) {
            assertNoneEndedTwice(adds); // stock may write the rest to a ledger that the next owner does not know
            return;
        }
        List<RecordedAdds.Outcome> outcomes = adds.await(60);
        assertThat(outcomes.get(59).stored()).isFalse();
        List<String> prefix = storedPrefix(outcomes, ManagedLedgerFencedException.class);
        assertThat(stored(second)).isEqualTo(prefix);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aMetadataFaultWhileAppendingLeavesNoGap_case_003(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name, world.config().setMaxEntriesPerLedger(3));
        RecordedAdds adds = new RecordedAdds();
        MetadataStoreException fault = new MetadataStoreException("of the test");
        if (storage == Storage.STOCK) { // an append that comes behind the failure begins a new ledger and is stored
            CompletableFuture<Void> until = new CompletableFuture<>();
            world.store().delayNext(FaultyStore.puts(World.registryNode(name)), until);
            start(ledger, adds, 10);
            adds.await(3);
            await("the others to wait for the rollover", () -> ledger.getPendingAddEntriesCount() == 7);
            until.completeExceptionally(fault);
        } else {
            world.store().failNext(FaultyStore.puts(World.registryNode(name)), fault);
            start(ledger, adds, 10);
        }
        List<String> prefix = storedPrefix(adds.await(10), ManagedLedgerException.class);
        if (storage == Storage.STOCK) {
            assertThat(prefix).as("the rollover fails, and what waits for it").hasSize(3);
        } else {
            assertThat(prefix).as("no append needs the metadata store").hasSize(10);
        }
        ledger.readyToCreateNewLedger();
        add(ledger, "again");
        assertThat(stored(ledger)).startsWith(prefix.toArray(String[]::new)).endsWith("again")
            .hasSize(prefix.size() + 1);
        world.store().reset();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCloseAnswersEveryPendingAppendOnce_case_022(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        RecordedAdds adds = new RecordedAdds();
        List<ByteBuf> buffers = start(ledger, adds, 100);
        ledger.close();
        if (storage == Storage.STOCK) {
            assertNoneEndedTwice(adds); // later ones are refused before earlier ones end, some never end
            return;
        }
        assertThat(adds.soFar()).as("before the close answers").hasSize(100);
        List<String> prefix = storedPrefix(adds.await(100), ManagedLedgerException.class);
        assertThat(buffers).allMatch(buffer -> buffer.refCnt() == 0);
        assertThat(stored(world.open(name))).isEqualTo(prefix);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aDeletionAnswersEveryPendingAppendOnce_case_022(Storage storage) throws Exception {
        ManagedLedger ledger = freshWorld(storage).open("public/default/persistent/deleted");
        RecordedAdds adds = new RecordedAdds();
        List<ByteBuf> buffers = start(ledger, adds, 100);
        ledger.delete();
        if (storage == Storage.STOCK) {
            assertNoneEndedTwice(adds);
            return;
        }
        assertThat(adds.soFar()).as("before the deletion answers").hasSize(100);
        storedPrefix(adds.await(100), ManagedLedgerException.class);
        assertThat(buffers).allMatch(buffer -> buffer.refCnt() == 0);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aTerminationAnswersEveryPendingAppendOnce_case_012(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        add(ledger, "first");
        RecordedAdds adds = new RecordedAdds();
        List<ByteBuf> buffers = start(ledger, adds, 100);
        Position last = await(terminate(ledger));
        if (storage == Storage.STOCK) {
            assertNoneEndedTwice(adds); // what was on its way when the ledger was closed may never end
            return;
        }
        assertThat(adds.soFar()).as("before the termination answers").hasSize(100);
        List<RecordedAdds.Outcome> outcomes = adds.await(100);
        List<String> prefix = storedPrefix(outcomes, ManagedLedgerTerminatedException.class);
        assertThat(outcomes).filteredOn(RecordedAdds.Outcome::stored)
            .allMatch(outcome -> outcome.position().compareTo(last) <= 0);
        assertThat(buffers).allMatch(buffer -> buffer.refCnt() == 0);
        assertThat(ledger.getLastConfirmedEntry()).isEqualTo(last);
        world.restart();
        ManagedLedger again = world.open(name);
        assertThat(again.getLastConfirmedEntry()).isEqualTo(last);
        assertThat(stored(again)).hasSize(prefix.size() + 1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCloseAfterManyFailuresIsPrompt_case_061(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger first = world.open(name);
        world.secondBroker().open(name, world.config());
        RecordedAdds adds = new RecordedAdds();
        start(first, adds, 30);
        try {
            await(close(first));
        } catch (ManagedLedgerFencedException e) {
            assertThat(e).as("the answer for a ledger that was fenced by then").isNotNull();
        }
        if (storage == Storage.STOCK) {
            assertNoneEndedTwice(adds);
            return;
        }
        assertThat(adds.await(30)).noneMatch(RecordedAdds.Outcome::stored);
        assertThat(first.getPendingAddEntriesCount()).isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void becomingReadyIsNothingForAHealthyLedger(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        add(ledger, "a");
        ledger.readyToCreateNewLedger();
        add(ledger, "b");
        assertThat(stored(ledger)).containsExactly("a", "b");
        ledger.close();
        ledger.readyToCreateNewLedger();
        assertThat(failure(() -> add(ledger, "c"))).isInstanceOf(ManagedLedgerAlreadyClosedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCallbackThatThrowsStopsNobody(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        RecordedAdds adds = new RecordedAdds();
        ledger.asyncAddEntry("a".getBytes(StandardCharsets.UTF_8), new RecordedThenThrown(adds), 0);
        ledger.asyncAddEntry("b".getBytes(StandardCharsets.UTF_8), adds, 1);
        assertThat(adds.await(2)).extracting(RecordedAdds.Outcome::text).containsExactly("a", "b");
        assertThat(add(ledger, "c")).isEqualTo(ledger.getLastConfirmedEntry());
    }

    /** Throws after it has recorded. */
    private record RecordedThenThrown(RecordedAdds adds)
            implements org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback {

        @Override
        public void addComplete(Position position, ByteBuf data, Object ctx) {
            adds.addComplete(position, data, ctx);
            throw new IllegalStateException("of the test");
        }

        @Override
        public void addFailed(ManagedLedgerException exception, Object ctx) {
            adds.addFailed(exception, ctx);
        }
    }
}
