package io.nereus.pulsar;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.util.internal.PlatformDependent;
import io.nereus.pulsar.bridge.EngineState;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.common.allocator.PulsarByteBufAllocator;

/** Opens, fills, reads, acknowledges and closes topics over and over, and compares what memory is left. Forked. */
public final class LeakMain {

    private static final int ROUNDS = 3;
    private static final int TOPICS = 60;
    private static final int ENTRIES = 30;
    private static final int PATIENCE_SECONDS = 30;
    private static final int SETTLE_MILLIS = 300;
    /** Accounts of what may stay until the engine closes, or is wanted by others: bounded, and the caches' business. */
    private static final List<String> KEPT = List.of("slice cache", "commit pages", "metadata store");

    private LeakMain() {
    }

    /** What is left of everything that topics use. */
    private static Map<String, Long> left(LedgerFixture fixture) throws Exception {
        Map<String, Long> left = new TreeMap<>();
        EngineState state = fixture.engine().state(ForkJoinPool.commonPool()).get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        left.put("streams", state.streams());
        left.put("results", state.results());
        for (EngineState.Account account : state.memory()) {
            if (!KEPT.contains(account.name())) {
                left.put("account " + account.name(), account.used());
            }
        }
        left.put("ledgers", (long) fixture.factory().getManagedLedgers().size());
        left.put("direct memory", PlatformDependent.usedDirectMemory());
        return left;
    }

    /** What is left once nothing changes any more. */
    private static Map<String, Long> settled(LedgerFixture fixture) throws Exception {
        Map<String, Long> before = left(fixture);
        while (true) {
            TimeUnit.MILLISECONDS.sleep(SETTLE_MILLIS);
            Map<String, Long> now = left(fixture);
            if (now.equals(before)) {
                return now;
            }
            before = now;
        }
    }

    /** Waits for what ends just after its callback. */
    private static void expect(LedgerFixture fixture, Map<String, Long> start, String when) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        Map<String, Long> now = left(fixture);
        while (!now.equals(start)) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(when + " there is left " + now + ", at the start there was " + start);
            }
            TimeUnit.MILLISECONDS.sleep(10);
            now = left(fixture);
        }
    }

    /** Bytes in each form in which the broker hands them over. */
    private static ByteBuf payload(int number) {
        byte[] bytes = new byte[100 + number * 100];
        return switch (number % 3) {
            case 0 -> Unpooled.wrappedBuffer(bytes);
            case 1 -> PulsarByteBufAllocator.DEFAULT.directBuffer(bytes.length).writeBytes(bytes);
            default -> Unpooled.wrappedBuffer(PulsarByteBufAllocator.DEFAULT.directBuffer(bytes.length).writeBytes(bytes),
                PulsarByteBufAllocator.DEFAULT.directBuffer(bytes.length).writeBytes(bytes));
        };
    }

    private static List<Position> produce(ManagedLedger ledger) throws Exception {
        List<CompletableFuture<Position>> adding = new ArrayList<>();
        for (int i = 0; i < ENTRIES; i++) {
            CompletableFuture<Position> added = new CompletableFuture<>();
            ByteBuf payload = payload(i);
            ledger.asyncAddEntry(payload, Callbacks.added(added), null);
            payload.release();
            adding.add(added);
        }
        List<Position> positions = new ArrayList<>();
        for (CompletableFuture<Position> one : adding) {
            positions.add(one.get(PATIENCE_SECONDS, TimeUnit.SECONDS));
        }
        return positions;
    }

    private static void read(ManagedCursor cursor, int count) throws Exception {
        List<Entry> entries = new ArrayList<>();
        while (entries.size() < count) {
            entries.addAll(cursor.readEntries(count - entries.size()));
        }
        entries.forEach(Entry::release);
    }

    /** A read that waits when the ledger closes, or finds an entry. */
    private static void leaveAReadWaiting(ManagedCursor cursor) {
        cursor.asyncReadEntriesOrWait(1, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                entries.forEach(Entry::release);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                // the ledger closes
            }
        }, null, PositionFactory.LATEST);
    }

    private static void live(LedgerFixture fixture, int topic) throws Exception {
        ManagedLedger ledger = fixture.factory().open(LedgerFixture.freshName());
        ManagedCursor durable = ledger.openCursor("durable", InitialPosition.Earliest);
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        List<Position> positions = produce(ledger);
        read(durable, ENTRIES);
        read(reader, ENTRIES);
        durable.delete(List.of(positions.get(3), positions.get(5)));
        durable.markDelete(positions.get(2));
        durable.replayEntries(new HashSet<>(positions.subList(10, 20))).forEach(Entry::release);
        durable.getNthEntry(2, ManagedCursor.IndividualDeletedEntries.Include).release();
        durable.findNewestMatching(entry -> {
            entry.release();
            return true;
        });
        ReadOnlyCursor cold =
            fixture.factory().openReadOnlyCursor(ledger.getName(), PositionFactory.EARLIEST, ledger.getConfig());
        cold.readEntries(ENTRIES).forEach(Entry::release);
        cold.close();
        leaveAReadWaiting(reader);
        if (topic % 2 == 0) {
            ledger.close();
        } else {
            ledger.delete();
        }
    }

    /** Exits with 0 if nothing is left over. */
    public static void main(String[] arguments) throws Exception {
        try (LedgerFixture fixture = new LedgerFixture()) {
            live(fixture, 0); // what is made once, by the first of all
            Map<String, Long> start = settled(fixture);
            for (int round = 0; round < ROUNDS; round++) {
                for (int topic = 0; topic < TOPICS; topic++) {
                    live(fixture, topic);
                }
                expect(fixture, start, "after round " + round);
            }
            System.out.println("left after every round: " + start);
        }
        System.gc(); // a leak is told when its buffer is collected
        PulsarByteBufAllocator.DEFAULT.directBuffer(1).release();
        System.out.println("all memory is back");
    }
}
