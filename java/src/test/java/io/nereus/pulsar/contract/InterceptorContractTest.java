package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.textAt;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Ledgers.text;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerInterceptException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerTerminatedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** What an interceptor and its payload processor see, and what their failures do. */
public class InterceptorContractTest extends ContractTest {

    private static ManagedLedgerConfig with(World world, RecordingInterceptor interceptor) {
        ManagedLedgerConfig config = world.config();
        config.setManagedLedgerInterceptor(interceptor);
        return config;
    }

    private static ByteBuf addBuffer(ManagedLedger ledger, RecordedAdds adds, String text, Object ctx) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ByteBuf buffer = PooledByteBufAllocator.DEFAULT.directBuffer(bytes.length).writeBytes(bytes);
        ledger.asyncAddEntry(buffer, 3, adds, ctx);
        buffer.release();
        return buffer;
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theBytesAfterTheInterceptorAreStoredAndHandedToTheCallback(Storage storage) throws Exception {
        World world = world(storage);
        RecordingInterceptor interceptor = new RecordingInterceptor();
        ManagedLedger ledger = world.open(world.freshName(), with(world, interceptor));
        assertThat(ledger.getManagedLedgerInterceptor()).isSameAs(interceptor);
        RecordedAdds adds = new RecordedAdds();
        ByteBuf buffer = addBuffer(ledger, adds, "a", "mine");
        RecordedAdds.Outcome outcome = adds.await(1).get(0);
        assertThat(outcome.text()).isEqualTo("+a");
        assertThat(interceptor.calls).startsWith("properties null").endsWith("before a of 3 ctx mine");
        assertThat(textAt(ledger, outcome.position())).isEqualTo("+a");
        assertThat(ledger.getTotalSize()).isEqualTo(2);
        await("the buffer to be given back", () -> buffer.refCnt() == 0);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void interceptorsSeeEntriesInTheOrderOfPositions(Storage storage) throws Exception {
        World world = world(storage);
        RecordingInterceptor interceptor = new RecordingInterceptor();
        ManagedLedger ledger = world.open(world.freshName(), with(world, interceptor));
        ManagedCursor cursor = ledger.openCursor("c");
        RecordedAdds adds = new RecordedAdds();
        for (int i = 0; i < 20; i++) {
            addBuffer(ledger, adds, "e" + i, i);
        }
        adds.await(20);
        List<String> read = texts(cursor.readEntries(20));
        assertThat(interceptor.calls.stream().filter(call -> call.startsWith("before"))
            .map(call -> "+" + call.split(" ")[1]).toList()).isEqualTo(read);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anInterceptorThatThrowsFailsItsAppendAlone_case_059(Storage storage) throws Exception {
        World world = world(storage);
        RecordingInterceptor interceptor = new RecordingInterceptor();
        interceptor.failBefore = "e3";
        ManagedLedger ledger = world.open(world.freshName(), with(world, interceptor));
        ManagedCursor cursor = ledger.openCursor("c");
        RecordedAdds adds = new RecordedAdds();
        for (int i = 1; i <= 6; i++) {
            addBuffer(ledger, adds, "e" + i, i);
        }
        List<RecordedAdds.Outcome> outcomes = adds.await(6);
        assertThat(outcomes).filteredOn(outcome -> !outcome.stored()).singleElement().satisfies(failed -> {
            assertThat(failed.ctx()).isEqualTo(3);
            assertThat(failed.failure()).isInstanceOf(ManagedLedgerInterceptException.class);
        });
        assertThat(interceptor.calls).contains("failed 3");
        assertThat(texts(cursor.readEntries(10))).containsExactly("+e1", "+e2", "+e4", "+e5", "+e6");
        assertThat(ledger.getPendingAddEntriesCount()).isZero();
        if (storage == Storage.NEREUS) { // stock tells of the failure at once, ahead of what is on its way
            assertThat(outcomes).extracting(RecordedAdds.Outcome::ctx).containsExactly(1, 2, 3, 4, 5, 6);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPayloadProcessorThatThrowsStopsTheLedgerUntilItIsUnfenced_case_059(Storage storage) throws Exception {
        World world = world(storage);
        RecordingInterceptor interceptor = new RecordingInterceptor();
        interceptor.failProcessor = "+e3";
        ManagedLedger ledger = world.open(world.freshName(), with(world, interceptor));
        ManagedCursor cursor = ledger.openCursor("c");
        RecordedAdds adds = new RecordedAdds();
        for (int i = 1; i <= 6; i++) {
            addBuffer(ledger, adds, "e" + i, i);
        }
        List<RecordedAdds.Outcome> outcomes = adds.await(6);
        assertThat(outcomes.stream().filter(RecordedAdds.Outcome::stored).map(RecordedAdds.Outcome::text))
            .containsExactly("+e1", "+e2");
        assertThat(outcomes.stream().filter(outcome -> !outcome.stored()).map(RecordedAdds.Outcome::failure))
            .hasSize(4).allMatch(ManagedLedgerInterceptException.class::isInstance);
        await("the queue to be empty", () -> ledger.getPendingAddEntriesCount() == 0);
        ledger.unfenceForInterceptorException();
        add(ledger, "e7");
        assertThat(texts(cursor.readEntries(10))).containsExactly("+e1", "+e2", "+e7");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void afterEveryFailedAppendTheInterceptorIsToldOnce(Storage storage) throws Exception {
        World world = world(storage);
        RecordingInterceptor interceptor = new RecordingInterceptor();
        ManagedLedger ledger = world.open(world.freshName(), with(world, interceptor));
        add(ledger, "a");
        ledger.terminate();
        interceptor.calls.clear();
        assertThat(failure(() -> add(ledger, "b"))).isInstanceOf(ManagedLedgerTerminatedException.class);
        long before = interceptor.calls.stream().filter(call -> call.startsWith("before")).count();
        assertThat(interceptor.calls).filteredOn(call -> call.startsWith("failed")).hasSize((int) before);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void thePayloadProcessorWorksOnWhatIsStoredAndOnWhatIsRead(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        RecordingInterceptor interceptor = new RecordingInterceptor();
        interceptor.processes = true;
        ManagedLedger ledger = world.open(name, with(world, interceptor));
        RecordedAdds adds = new RecordedAdds();
        addBuffer(ledger, adds, "text", null);
        Position position = adds.await(1).get(0).position();
        assertThat(adds.soFar().get(0).text()).as("the bytes before the processor").isEqualTo("+text");
        world.restart();
        assertThat(textAt(world.open(name), position)).as("without the processor").isEqualTo("+TEXT");
        world.restart();
        ManagedLedger again = world.open(name, with(world, interceptor));
        assertThat(texts(again.openCursor("c", InitialPosition.Earliest).readEntries(1))).containsExactly("+text");
        if (storage == Storage.NEREUS) { // stock gives the last one back when its cache lets go of the entry
            await("every payload to be given back",
                () -> interceptor.processed.stream().allMatch(payload -> payload.refCnt() == 0));
        } else {
            assertThat(interceptor.processed).isNotEmpty();
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void propertiesAndLastEntryAreShownAtOpenAndPropertiesAreCompletedWhenTheyPersist(Storage storage)
            throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        RecordingInterceptor interceptor = new RecordingInterceptor();
        ManagedLedger ledger = world.open(name, with(world, interceptor));
        add(ledger, "a");
        add(ledger, "b");
        interceptor.index = "41";
        ledger.setProperty("k", "v");
        assertThat(ledger.getProperties()).containsEntry("k", "v").containsEntry("index", "41");
        world.restart();
        RecordingInterceptor next = new RecordingInterceptor();
        ManagedLedger again = world.open(name, with(world, next));
        assertThat(next.calls).containsExactly("properties 41", "last +b");
        assertThat(again.getProperties()).containsEntry("k", "v");
    }
}
