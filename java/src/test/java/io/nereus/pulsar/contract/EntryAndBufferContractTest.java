package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import io.netty.util.ReferenceCounted;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.AckSetState;
import org.testng.annotations.Test;

/**
 * Entries, their positions and who owns their bytes. Every test of the build runs with Netty's paranoid leak detection,
 * which fails it for a buffer that nobody released.
 */
public class EntryAndBufferContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEntryIsTheBytesThatWereAddedAndTheirPosition(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        byte[] bytes = "the bytes of an entry".getBytes(StandardCharsets.UTF_8);
        Position position = ledger.addEntry(bytes);
        Entry entry = cursor.readEntries(1).get(0);
        assertThat(entry.getPosition()).isEqualTo(position);
        assertThat(entry.getLedgerId()).isEqualTo(position.getLedgerId());
        assertThat(entry.getEntryId()).isEqualTo(position.getEntryId());
        assertThat(entry.getLength()).isEqualTo(bytes.length);
        assertThat(entry.getData()).isEqualTo(bytes);
        assertThat(entry.getData()).as("asked twice").isEqualTo(bytes);
        ByteBuf data = entry.getDataBuffer();
        assertThat(data.readableBytes()).isEqualTo(bytes.length);
        data.skipBytes(3);
        assertThat(entry.getDataAndRelease()).as("what is left to read").hasSize(bytes.length - 3);
        assertThat(((ReferenceCounted) entry).refCnt()).isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void emptyEntriesAndLargeOnesAreEntries(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        byte[] large = new byte[1024 * 1024];
        new Random(7).nextBytes(large);
        ledger.addEntry(new byte[0]);
        ledger.addEntry(large);
        ledger.addEntry(new byte[] {1});
        List<byte[]> read = new ArrayList<>();
        while (read.size() < 3) {
            cursor.readEntriesOrWait(3).forEach(entry -> read.add(entry.getDataAndRelease()));
        }
        assertThat(read.get(0)).isEmpty();
        assertThat(read.get(1)).isEqualTo(large);
        assertThat(read.get(2)).isEqualTo(new byte[] {1});
    }

    /** Positions are values, and equal to those that the broker makes of two numbers. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void positionsAreValues(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 3);
        List<Entry> entries = cursor.readEntries(3);
        for (int i = 0; i < 3; i++) {
            Position made =
                PositionFactory.create(positions.get(i).getLedgerId(), positions.get(i).getEntryId());
            for (Position position : List.of(positions.get(i), entries.get(i).getPosition())) {
                assertThat(position).isEqualTo(made).hasSameHashCodeAs(made);
                assertThat(made).isEqualTo(position);
                assertThat(position.hashCodeForPosition()).isEqualTo(made.hashCodeForPosition());
                assertThat(position.compareTo(made)).isZero();
                assertThat(position.hasExtension(AckSetState.class)).isFalse();
                assertThat(position.getNext()).isEqualTo(PositionFactory.create(made.getLedgerId(),
                    made.getEntryId() + 1));
                assertThat(position.getPositionAfterEntries(2)).isEqualTo(PositionFactory.create(made.getLedgerId(),
                    made.getEntryId() + 2));
            }
        }
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(2).getNext());
        cursor.markDelete(positions.get(1));
        assertThat(Set.of(positions.get(1))).contains(cursor.getMarkDeletedPosition());
        assertThat(positions).isSorted();
        entries.forEach(Entry::release);
    }

    /** Entries stay what they are however long they are held, whatever else is read and released. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void heldEntriesKeepTheirBytes(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 60);
        List<Entry> held = new ArrayList<>();
        for (int round = 0; round < 20; round++) {
            cursor.rewind();
            List<Entry> entries = cursor.readEntries(60);
            held.add(entries.remove(round));
            entries.forEach(Entry::release);
        }
        for (int round = 0; round < 20; round++) {
            assertThat(Ledgers.text(held.get(round))).isEqualTo("e" + round);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void heldEntriesOutliveTheirCursorAndTheirLedger(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 3);
        List<Entry> held = cursor.readEntries(3);
        ledger.deleteCursor("sub");
        ledger.close();
        assertThat(Ledgers.texts(held)).isEqualTo(Reads.texts(0, 3));
    }

    /** Case 78: bytes always match their position, however many read the same range at once. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void concurrentReadersSeeTheBytesOfTheirPositions_case_078(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        int count = 300;
        Map<Position, String> expected = new ConcurrentHashMap<>();
        for (int i = 0; i < count; i++) {
            expected.put(Ledgers.add(ledger, "e" + i), "e" + i);
        }
        List<CompletableFuture<Set<Position>>> readers = new ArrayList<>();
        for (int reader = 0; reader < 6; reader++) {
            ManagedCursor cursor = ledger.newNonDurableCursor(PositionFactory.EARLIEST);
            Random random = new Random(reader);
            readers.add(CompletableFuture.supplyAsync(() -> readAll(cursor, random, expected)));
        }
        for (CompletableFuture<Set<Position>> reader : readers) {
            assertThat(Ledgers.await(reader)).isEqualTo(expected.keySet());
        }
    }

    private static Set<Position> readAll(ManagedCursor cursor, Random random, Map<Position, String> expected) {
        Set<Position> seen = new HashSet<>();
        try {
            for (int round = 0; round < 3; round++) {
                cursor.rewind();
                while (cursor.hasMoreEntries()) {
                    for (Entry entry : cursor.readEntries(1 + random.nextInt(40))) {
                        Position position = entry.getPosition();
                        assertThat(Ledgers.text(entry)).isEqualTo(expected.get(position));
                        seen.add(position);
                    }
                }
            }
            return seen;
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    /** Case 77: no way for a read to end leaves a buffer behind. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void noEndOfAReadLeaksABuffer_case_077(Storage storage) throws Exception {
        World world = freshWorld(storage);
        PayloadHook hook = new PayloadHook(storage);
        ManagedLedgerConfig config = world.config();
        config.setManagedLedgerInterceptor(hook);
        config.setNewEntriesCheckDelayInMillis(0);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name, config);
        Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 20);
        ledger.close();
        ledger = world.open(name, config);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        // a read whose last entries cannot be had
        hook.failReadsOf("e5");
        Answer<List<Entry>> failing = Reads.readLater(cursor, 10);
        failing.await();
        if (!failing.failed()) {
            failing.get().forEach(Entry::release);
        }
        Reads.replay(cursor, Set.of(positions.get(3), positions.get(5), positions.get(9))).failure();
        hook.onRead(text -> { });
        // entries that are acknowledged between their read and their delivery
        cursor.rewind();
        cursor.delete(List.of(positions.get(2), positions.get(4)));
        Reads.readLater(cursor, 8).get().forEach(Entry::release);
        // a read that is overtaken, a wait that is cancelled, and a close while reads are under way
        Reads.readSkipping(cursor, 5, position -> {
            cursor.rewind();
            return false;
        }).get().forEach(Entry::release);
        assertThat(Reads.readAll(cursor)).isNotEmpty();
        Reads.readOrWait(cursor, 1);
        assertThat(cursor.cancelPendingReadRequest()).isTrue();
        cursor.rewind();
        List<Answer<List<Entry>>> underWay = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            underWay.add(Reads.readLater(cursor, 2));
        }
        ledger.close();
        for (Answer<List<Entry>> read : underWay) {
            read.await();
            if (!read.failed()) {
                read.get().forEach(Entry::release);
            }
            assertThat(read.calls()).isEqualTo(1);
        }
        System.gc(); // lets the detector see what is unreachable; the build fails for what it finds
    }
}
