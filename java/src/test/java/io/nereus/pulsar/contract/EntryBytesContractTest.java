package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.CompositeByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.buffer.Unpooled;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerAlreadyClosedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** Entries of every size and kind of buffer, and who owns a buffer when. */
public class EntryBytesContractTest extends ContractTest {

    /** The broker's default for a message, and what it allows for its own metadata. */
    private static final int MAX_MESSAGE_BYTES = 5 * 1024 * 1024;

    private static byte[] random(int length) {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return bytes;
    }

    private static byte[] bytes(Entry entry) {
        try {
            return entry.getData();
        } finally {
            entry.release();
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everySizeUpToTheBrokersLimitComesBack_case_058(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        int[] sizes = {0, 1, 2, 4095, 4096, 4097, 65_536, 1 << 20, MAX_MESSAGE_BYTES - 1, MAX_MESSAGE_BYTES,
            MAX_MESSAGE_BYTES + 8 * 1024};
        long total = 0;
        for (int size : sizes) {
            ledger.addEntry(random(size));
            total += size;
        }
        assertThat(ledger.getTotalSize()).isEqualTo(total);
        world.restart();
        ManagedLedger again = world.open(name);
        ManagedCursor cursor = again.openCursor("c", InitialPosition.Earliest);
        for (int size : sizes) {
            List<Entry> entries = cursor.readEntries(1);
            assertThat(entries).hasSize(1);
            assertThat(entries.get(0).getLength()).isEqualTo(size);
            assertThat(bytes(entries.get(0))).isEqualTo(random(size));
        }
        assertThat(cursor.hasMoreEntries()).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEntryWithoutBytesIsAnEntry_case_057(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        Position empty = ledger.addEntry(new byte[0]);
        Position next = await(LedgerCalls.add(ledger, Unpooled.EMPTY_BUFFER));
        assertThat(next).isGreaterThan(empty);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(2);
        assertThat(ledger.getTotalSize()).isZero();
        world.restart();
        ManagedCursor cursor = world.open(name).openCursor("c", InitialPosition.Earliest);
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(2);
        assertThat(cursor.readEntries(10)).hasSize(2).allMatch(entry -> bytes(entry).length == 0);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEntryThatIsTooLargeIsRefusedAndTheTopicGoesOn_case_058(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        Position first = add(ledger, "a");
        byte[] large = new byte[MAX_MESSAGE_BYTES + 4 * 1024 * 1024];
        if (storage == Storage.STOCK) { // the mock of BookKeeper takes any size; bookies drop the connection
            assertThat(ledger.addEntry(large)).isGreaterThan(first);
            return;
        }
        ManagedLedgerException refusal = failure(() -> ledger.addEntry(large));
        assertThat(refusal).isNotInstanceOf(ManagedLedgerAlreadyClosedException.class)
            .hasMessageContaining(large.length + " bytes").hasMessageContaining("limit");
        assertThat(ledger.getNumberOfEntries()).isEqualTo(1);
        assertThat(add(ledger, "b").getEntryId()).as("it took no place").isEqualTo(first.getEntryId() + 1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void buffersOfEveryKindAreStoredAlikeAndGivenBack_case_077(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = ledger.openCursor("c");
        byte[] text = "some bytes of an entry".getBytes();
        ByteBuf heap = Unpooled.copiedBuffer(text);
        ByteBuf direct = PooledByteBufAllocator.DEFAULT.directBuffer().writeByte('x').writeBytes(text).writeByte('x');
        ByteBuf slice = direct.retainedSlice(1, text.length);
        CompositeByteBuf two = PooledByteBufAllocator.DEFAULT.compositeBuffer()
            .addComponent(true, PooledByteBufAllocator.DEFAULT.directBuffer().writeBytes(text, 0, 5))
            .addComponent(true, Unpooled.copiedBuffer(text, 5, text.length - 5));
        CompositeByteBuf many = PooledByteBufAllocator.DEFAULT.compositeBuffer(100);
        for (byte one : text) {
            many.addComponent(true, PooledByteBufAllocator.DEFAULT.directBuffer(1).writeByte(one));
        }
        ByteBuf readOnly = Unpooled.copiedBuffer(text).asReadOnly();
        List<ByteBuf> buffers = List.of(heap, slice, two, many, readOnly);
        for (ByteBuf buffer : buffers) {
            int reader = buffer.readerIndex();
            await(LedgerCalls.add(ledger, buffer));
            assertThat(buffer.readerIndex()).as("the caller's indexes").isEqualTo(reader);
        }
        for (Entry entry : cursor.readEntries(10)) {
            assertThat(bytes(entry)).isEqualTo(text);
        }
        for (ByteBuf buffer : buffers) {
            await("only the caller to hold " + buffer, () -> buffer.refCnt() == 1);
            buffer.release();
        }
        assertThat(direct.release()).isTrue();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theCallerMayReleaseItsBufferAtOnce_case_077(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = ledger.openCursor("c");
        RecordedAdds adds = new RecordedAdds();
        List<ByteBuf> buffers = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            ByteBuf buffer = PooledByteBufAllocator.DEFAULT.directBuffer().writeInt(i);
            buffers.add(buffer);
            ledger.asyncAddEntry(buffer, adds, i);
            buffer.release();
        }
        adds.await(50);
        for (ByteBuf buffer : buffers) {
            await("every buffer to be given back", () -> buffer.refCnt() == 0);
        }
        int expected = 0;
        for (Entry entry : cursor.readEntries(50)) {
            assertThat(entry.getDataBuffer().getInt(entry.getDataBuffer().readerIndex())).isEqualTo(expected++);
            entry.release();
        }
        assertThat(expected).isEqualTo(50);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEntryThatWasReadBelongsToItsReader_case_078(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = ledger.openCursor("c");
        for (int i = 0; i < 20; i++) {
            ledger.addEntry(random(100 + i));
        }
        List<Entry> first = cursor.readEntries(20);
        cursor.rewind();
        List<Entry> second = cursor.readEntries(20);
        for (int i = 0; i < 20; i++) {
            assertThat(bytes(first.get(i))).as("of the first reader").isEqualTo(random(100 + i));
        }
        await(ledger.asyncTruncate());
        for (int i = 0; i < 20; i++) {
            assertThat(bytes(second.get(i))).as("of the second, after the data is gone").isEqualTo(random(100 + i));
        }
    }
}
