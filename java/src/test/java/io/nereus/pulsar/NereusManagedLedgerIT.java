package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.common.collect.Range;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.buffer.Unpooled;
import io.nereus.pulsar.compat.LedgerDetails;
import io.nereus.pulsar.compat.LedgerInfoReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OffloadCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorNotFoundException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerTerminatedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

public class NereusManagedLedgerIT {

    private static final long TIMEOUT_SECONDS = 60;

    private LedgerFixture fixture;

    @BeforeClass
    public void openFixture() throws Exception {
        fixture = new LedgerFixture();
    }

    @AfterClass(alwaysRun = true)
    public void closeFixture() {
        if (fixture != null) {
            fixture.close();
        }
    }

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    private static String read(NereusManagedLedger ledger, Position position) throws Exception {
        CompletableFuture<Entry> entry = new CompletableFuture<>();
        ledger.asyncReadEntry(position, Callbacks.entry(entry, read -> read), null);
        return LedgerFixture.text(get(entry));
    }

    private static List<String> readAll(ManagedCursor cursor) throws Exception {
        List<String> texts = new ArrayList<>();
        while (cursor.hasMoreEntries()) {
            texts.addAll(LedgerFixture.texts(cursor.readEntries(100)));
        }
        return texts;
    }

    @Test
    public void l01_whatWasAppendedIsReadBackAfterAReopen() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        List<Position> positions = new ArrayList<>();
        List<String> texts = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            texts.add("entry " + i);
            positions.add(LedgerFixture.add(ledger, texts.get(i)));
        }
        ledger.close();
        NereusManagedLedger again = fixture.ledger(name);
        assertThat(again).isNotSameAs(ledger);
        assertThat(again.getLastConfirmedEntry()).isEqualTo(positions.get(99));
        assertThat(again.getNumberOfEntries()).isEqualTo(100);
        assertThat(again.getTotalSize()).isEqualTo(texts.stream().mapToLong(String::length).sum());
        for (int i = 0; i < 100; i += 9) {
            assertThat(read(again, positions.get(i))).isEqualTo(texts.get(i));
        }
        assertThat(readAll(again.newNonDurableCursor(PositionFactory.EARLIEST))).isEqualTo(texts);
    }

    @Test
    public void aNeverWrittenLedgerStandsBeforeItsFirstEntry() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        assertThat(ledger.getLastConfirmedEntry().getEntryId()).isEqualTo(-1);
        assertThat(ledger.getFirstPosition()).isEqualTo(ledger.getLastConfirmedEntry());
        assertThat(ledger.getLedgersInfo().lastKey()).isEqualTo(ledger.getLastConfirmedEntry().getLedgerId());
        assertThat(ledger.getNumberOfEntries()).isZero();
        Position first = LedgerFixture.add(ledger, "a");
        assertThat(first).isEqualTo(PositionFactory.create(ledger.getFirstPosition().getLedgerId(), 0));
    }

    @Test
    public void manyOutstandingAppendsCompleteInOrder() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        int count = 2_000;
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch done = new CountDownLatch(count);
        AtomicInteger failures = new AtomicInteger();
        AtomicInteger late = new AtomicInteger();
        for (int i = 0; i < count; i++) {
            ledger.asyncAddEntry(("n" + i).getBytes(StandardCharsets.UTF_8), new AddEntryCallback() {
                @Override
                public void addComplete(Position position, ByteBuf data, Object ctx) {
                    order.add((Integer) ctx);
                    if (ledger.getLastConfirmedEntry().compareTo(position) < 0) {
                        late.incrementAndGet();
                    }
                    done.countDown();
                }

                @Override
                public void addFailed(ManagedLedgerException exception, Object ctx) {
                    failures.incrementAndGet();
                    done.countDown();
                }
            }, i);
        }
        assertThat(done.await(TIMEOUT_SECONDS, TimeUnit.SECONDS)).isTrue();
        assertThat(failures).hasValue(0);
        assertThat(late).as("callbacks that saw an older last confirmed entry").hasValue(0);
        assertThat(order).isSorted().hasSize(count);
        assertThat(ledger.getPendingAddEntriesCount()).isZero();
    }

    @Test
    public void bufferKindsAreStoredAlikeAndGivenBack() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        ByteBuf heap = Unpooled.copiedBuffer("heap", StandardCharsets.UTF_8);
        ByteBuf direct = PooledByteBufAllocator.DEFAULT.directBuffer().writeBytes("xdirect".getBytes());
        direct.skipBytes(1);
        ByteBuf composite = Unpooled.wrappedBuffer(Unpooled.copiedBuffer("com", StandardCharsets.UTF_8),
            PooledByteBufAllocator.DEFAULT.directBuffer().writeBytes("posite".getBytes()));
        for (ByteBuf buffer : List.of(heap, direct, composite)) {
            CompletableFuture<Position> added = new CompletableFuture<>();
            ledger.asyncAddEntry(buffer, Callbacks.added(added), null);
            get(added);
        }
        ledger.close();
        assertThat(List.of(heap, direct, composite)).allMatch(buffer -> buffer.refCnt() == 1);
        List.of(heap, direct, composite).forEach(ByteBuf::release);
        NereusManagedLedger again = fixture.ledger(ledger.getName());
        assertThat(readAll(again.newNonDurableCursor(PositionFactory.EARLIEST)))
            .containsExactly("heap", "direct", "composite");
    }

    @Test
    public void anEntryAboveTheLimitIsRefusedAndTheNextOneTakesItsPlace() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        assertThatThrownBy(() -> ledger.addEntry(new byte[LedgerFixture.MAX_ENTRY_BYTES + 1]))
            .isInstanceOf(ManagedLedgerException.class).hasMessageContaining("above the limit");
        assertThat(ledger.addEntry(new byte[LedgerFixture.MAX_ENTRY_BYTES]).getEntryId()).isZero();
    }

    @Test
    public void spansStandForLedgers() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        int count = 65_536 + 3;
        CountDownLatch done = new CountDownLatch(count);
        AtomicInteger failures = new AtomicInteger();
        byte[] data = "x".getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < count; i++) {
            ledger.asyncAddEntry(data, new AddEntryCallback() {
                @Override
                public void addComplete(Position position, ByteBuf entryData, Object ctx) {
                    done.countDown();
                }

                @Override
                public void addFailed(ManagedLedgerException exception, Object ctx) {
                    failures.incrementAndGet();
                    done.countDown();
                }
            }, null);
        }
        assertThat(done.await(TIMEOUT_SECONDS, TimeUnit.SECONDS)).isTrue();
        assertThat(failures).hasValue(0);
        long first = ledger.getFirstPosition().getLedgerId();
        assertThat(ledger.getLastConfirmedEntry()).isEqualTo(PositionFactory.create(first + 1, 2));
        assertSpans(ledger, first);
        ledger.close();
        NereusManagedLedger again = fixture.ledger(ledger.getName());
        assertSpans(again, first);
        assertThat(again.getNextValidPosition(PositionFactory.create(first, 65_535)))
            .isEqualTo(PositionFactory.create(first + 1, 0));
        assertThat(again.getNumberOfEntries(Range.closed(PositionFactory.create(first, 65_535),
            PositionFactory.create(first + 1, 2)))).isEqualTo(4);
        CompletableFuture<Void> trimmed = new CompletableFuture<>();
        again.trimConsumedLedgersInBackground(trimmed);
        get(trimmed);
        long left = again.getNumberOfEntries();
        assertThat(left).as("no cursor, no retention: 50,000 entries fill a part").isLessThanOrEqualTo(count - 50_000);
        assertThat(again.getTotalSize()).isEqualTo(left);
        assertThat(again.getLastConfirmedEntry()).isEqualTo(PositionFactory.create(first + 1, 2));
        get(again.asyncTruncate());
        assertThat(spans(again)).containsExactly(first + 1);
        assertThat(again.getFirstPosition()).isEqualTo(PositionFactory.create(first + 1, 2));
    }

    private static Set<Long> spans(ManagedLedger ledger) {
        return ledger.getLedgersInfo().keySet();
    }

    private static void assertSpans(ManagedLedger ledger, long first) {
        assertThat(spans(ledger)).containsExactly(first, first + 1);
        LedgerDetails closed = LedgerInfoReader.read(ledger.getLedgersInfo().get(first));
        assertThat(closed.entries()).isEqualTo(65_536);
        assertThat(closed.bytes()).isEqualTo(65_536);
        assertThat(closed.closedMillis()).isPositive();
        assertThat(LedgerInfoReader.read(ledger.getLedgersInfo().get(first + 1)).closedMillis()).isZero();
    }

    @Test
    public void aTerminatedLedgerRefusesAppendsAndStaysReadable() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        Position last = LedgerFixture.add(ledger, "last");
        assertThat(ledger.terminate()).isEqualTo(last);
        assertThat(ledger.terminate()).as("idempotent").isEqualTo(last);
        assertThat(ledger.isTerminated()).isTrue();
        assertThatThrownBy(() -> LedgerFixture.add(ledger, "more"))
            .isInstanceOf(ManagedLedgerTerminatedException.class);
        ledger.close();
        NereusManagedLedger again = fixture.ledger(name);
        assertThat(again.isTerminated()).isTrue();
        assertThat(again.getLastConfirmedEntry()).isEqualTo(last);
        assertThat(read(again, last)).isEqualTo("last");
        assertThatThrownBy(() -> LedgerFixture.add(again, "more"))
            .isInstanceOf(ManagedLedgerTerminatedException.class);
    }

    @Test
    public void migrationTerminatesAndIsRemembered() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        Position last = LedgerFixture.add(ledger, "a");
        assertThat(get(ledger.asyncMigrate())).isEqualTo(last);
        ledger.close();
        assertThat(fixture.ledger(name).isMigrated()).isTrue();
    }

    @Test
    public void truncateDropsWhatIsStoredAndKeepsTheLastEntryReadable() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        ManagedCursor cursor = ledger.openCursor("sub", InitialPosition.Earliest);
        Position last = null;
        for (int i = 0; i < 10; i++) {
            last = LedgerFixture.add(ledger, "t" + i);
        }
        get(ledger.asyncTruncate());
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
        assertThat(ledger.getNumberOfEntries()).isZero();
        assertThat(ledger.getTotalSize()).isZero();
        assertThat(ledger.getLastConfirmedEntry()).as("the last position never goes back").isEqualTo(last);
        assertThat(read(ledger, last)).isEqualTo("t9");
        Position next = LedgerFixture.add(ledger, "after");
        assertThat(next.getEntryId()).isEqualTo(10);
        assertThat(LedgerFixture.texts(cursor.readEntries(10))).containsExactly("after");
        ledger.close();
        NereusManagedLedger again = fixture.ledger(name);
        assertThat(again.getLastConfirmedEntry()).isEqualTo(next);
        assertThat(again.getNumberOfEntries()).isEqualTo(1);
    }

    @Test
    public void l16_trimmingStopsAtTheSlowestCursorAndAtTheOpenSpan() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        ManagedCursor cursor = ledger.openCursor("sub", InitialPosition.Earliest);
        for (int i = 0; i < 5; i++) {
            LedgerFixture.add(ledger, "k" + i);
        }
        CompletableFuture<Void> trimmed = new CompletableFuture<>();
        ledger.trimConsumedLedgersInBackground(trimmed);
        get(trimmed);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(5);
        assertThat(readAll(cursor)).hasSize(5);
    }

    @Test
    public void cursorsAreRecoveredBeforeTheOpenCompletes() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        ledger.openCursor("a", InitialPosition.Earliest);
        ManagedCursor b = ledger.openCursor("b", InitialPosition.Earliest, Map.of("p", 7L), Map.of("c", "v"));
        Position first = LedgerFixture.add(ledger, "1");
        LedgerFixture.add(ledger, "2");
        b.markDelete(first, Map.of("p", 8L));
        assertThat(ledger.getSlowestConsumer().getName()).isEqualTo("a");
        ledger.close();
        NereusManagedLedger again = fixture.ledger(name);
        List<String> names = new ArrayList<>();
        again.getCursors().forEach(cursor -> names.add(cursor.getName()));
        assertThat(names).containsExactlyInAnyOrder("a", "b");
        ManagedCursor recovered = again.openCursor("b");
        assertThat(recovered.getMarkDeletedPosition()).isEqualTo(first);
        assertThat(recovered.getProperties()).containsEntry("p", 8L);
        assertThat(recovered.getCursorProperties()).containsEntry("c", "v");
        assertThat(readAll(recovered)).containsExactly("2");
    }

    @Test
    public void concurrentOpensOfACursorShareOne() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        List<CompletableFuture<ManagedCursor>> opens = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            opens.add(CompletableFuture.supplyAsync(() -> {
                try {
                    return ledger.openCursor("one");
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }));
        }
        ManagedCursor first = get(opens.get(0));
        for (CompletableFuture<ManagedCursor> open : opens) {
            assertThat(get(open)).isSameAs(first);
        }
    }

    @Test
    public void aDeletedCursorIsGoneAlsoAfterAReopen() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        ledger.openCursor("gone");
        ledger.deleteCursor("gone");
        assertThatThrownBy(() -> ledger.deleteCursor("gone")).isInstanceOf(CursorNotFoundException.class);
        assertThatThrownBy(() -> ledger.deleteCursor("never")).isInstanceOf(CursorNotFoundException.class);
        ledger.close();
        assertThat(fixture.ledger(name).getCursors()).isEmpty();
    }

    @Test
    public void nonDurableCursorsStartWhereStocksDo() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        Position a = LedgerFixture.add(ledger, "a");
        LedgerFixture.add(ledger, "b");
        assertThat(readAll(ledger.newNonDurableCursor(a))).as("the position is already consumed").containsExactly("b");
        assertThat(readAll(ledger.newNonDurableCursor(PositionFactory.EARLIEST))).containsExactly("a", "b");
        assertThat(readAll(ledger.newNonDurableCursor(PositionFactory.LATEST))).isEmpty();
        assertThat(readAll(ledger.newNonDurableCursor(null, "n1", InitialPosition.Earliest, false)))
            .containsExactly("a", "b");
        assertThat(readAll(ledger.newNonDurableCursor(PositionFactory.create(3, 3)))).as("a foreign, older ledger")
            .containsExactly("a", "b");
        Position truncatedLatest = PositionFactory.create(Long.MAX_VALUE, (1L << 48) - 1);
        assertThat(readAll(ledger.newNonDurableCursor(truncatedLatest))).isEmpty();
        assertThat(ledger.newNonDurableCursor(a, "n1")).as("same name, same cursor")
            .isSameAs(ledger.newNonDurableCursor(null, "n1"));
    }

    @Test
    public void propertiesSurviveAReopenAndPassTheInterceptor() throws Exception {
        String name = LedgerFixture.freshName();
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        config.setProperties(Map.of("initial", "1"));
        Recorder recorder = new Recorder();
        config.setManagedLedgerInterceptor(recorder);
        NereusManagedLedger ledger = fixture.ledger(name, config);
        assertThat(ledger.getProperties()).containsEntry("initial", "1");
        ledger.setProperty("a", "x");
        ledger.setProperties(Map.of("b", "y", "c", "z"));
        ledger.deleteProperty("c");
        assertThat(ledger.getProperties()).containsOnly(Map.entry("initial", "1"), Map.entry("a", "x"),
            Map.entry("b", "y"), Map.entry("seen", "3"));
        ledger.close();
        assertThat(fixture.ledger(name).getProperties()).containsEntry("b", "y").containsEntry("seen", "3");
        assertThat(get(fixture.factory().getManagedLedgerPropertiesAsync(name))).containsEntry("a", "x");
    }

    /** Sees what an interceptor sees at open and when properties are written. */
    private static final class Recorder implements ManagedLedgerInterceptor {
        private int updates;
        private Map<String, String> initial;
        private String lastEntry;

        @Override
        public void beforeAddEntry(AddEntryOperation op, int numberOfMessages) {
        }

        @Override
        public void onManagedLedgerPropertiesInitialize(Map<String, String> propertiesMap) {
            initial = propertiesMap;
        }

        @Override
        public CompletableFuture<Void> onManagedLedgerLastLedgerInitialize(String name, LastEntryHandle handle) {
            return handle.readLastEntryAsync()
                .thenAccept(entry -> lastEntry = entry.map(LedgerFixture::text).orElse(null));
        }

        @Override
        public void onUpdateManagedLedgerInfo(Map<String, String> propertiesMap) {
            propertiesMap.put("seen", Integer.toString(++updates));
        }
    }

    @Test
    public void theInterceptorSeesPropertiesAndLastEntryAtOpen() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        ledger.setProperty("k", "v");
        LedgerFixture.add(ledger, "first");
        LedgerFixture.add(ledger, "second");
        ledger.close();
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        Recorder recorder = new Recorder();
        config.setManagedLedgerInterceptor(recorder);
        fixture.ledger(name, config);
        assertThat(recorder.initial).containsEntry("k", "v");
        assertThat(recorder.lastEntry).isEqualTo("second");
    }

    @Test
    public void searchesFindPositions() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        List<Position> positions = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            positions.add(LedgerFixture.add(ledger, String.format("%02d", i)));
        }
        assertThat(get(ledger.asyncFindPosition(entry -> LedgerFixture.text(entry).compareTo("12") <= 0)))
            .as("the one after the newest that matches").isEqualTo(positions.get(13));
        assertThat(get(ledger.asyncFindPosition(entry -> {
            entry.release();
            return false;
        }))).isEqualTo(positions.get(0));
        assertThat(get(ledger.getLastDispatchablePosition(entry -> new String(entry.getData()).endsWith("5"),
            ledger.getLastConfirmedEntry()))).isEqualTo(positions.get(15));
    }

    @Test
    public void readingWhatIsNotThereFailsByName() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        Position last = LedgerFixture.add(ledger, "a");
        assertThatThrownBy(() -> read(ledger, last.getNext())).rootCause()
            .isInstanceOf(ManagedLedgerException.class)
            .isNotInstanceOf(ManagedLedgerException.NonRecoverableLedgerException.class);
        // Of no cursor's reads: what an admin asks for by a position of another ledger is "not found".
        for (Position foreign : List.of(PositionFactory.create(1, 1), PositionFactory.LATEST)) {
            assertThatThrownBy(() -> read(ledger, foreign)).rootCause()
                .isInstanceOf(ManagedLedgerException.LedgerNotExistException.class);
        }
    }

    @Test
    public void aClosedLedgerRefusesAppendsAndIsReplacedByTheNextOpen() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        LedgerFixture.add(ledger, "a");
        ledger.close();
        ledger.close();
        assertThatThrownBy(() -> LedgerFixture.add(ledger, "b"))
            .isInstanceOf(ManagedLedgerAlreadyClosedException.class);
        assertThatThrownBy(() -> ledger.openCursor("c")).isInstanceOf(ManagedLedgerAlreadyClosedException.class);
        NereusManagedLedger again = fixture.ledger(name);
        assertThat(LedgerFixture.add(again, "b").getEntryId()).isEqualTo(1);
    }

    @Test
    public void statisticsTellWhatHappened() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        ledger.openCursor("sub", InitialPosition.Earliest);
        LedgerFixture.add(ledger, "12345");
        LedgerFixture.add(ledger, "123");
        assertThat(ledger.getStats().getAddEntrySucceedTotal()).isEqualTo(2);
        assertThat(ledger.getStats().getAddEntryBytesTotal()).isEqualTo(8);
        assertThat(ledger.getStats().getStoredMessagesSize()).isEqualTo(8);
        assertThat(ledger.getStats().getNumberOfMessagesInBacklog()).isEqualTo(2);
        assertThat(ledger.getEstimatedBacklogSize()).isEqualTo(8);
        assertThat(ledger.getNumberOfActiveEntries()).isEqualTo(2);
        assertThat(ledger.getStats().getName()).isEqualTo(ledger.getName());
        var internal = get(ledger.getManagedLedgerInternalStats(true));
        assertThat(internal.state).isEqualTo("LedgerOpened");
        assertThat(internal.lastConfirmedEntry).isEqualTo(ledger.getLastConfirmedEntry().toString());
        assertThat(internal.ledgers).hasSize(1);
        assertThat(internal.cursors).containsKey("sub");
    }

    @Test
    public void l14_offloadingIsRefusedByName() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        Position last = LedgerFixture.add(ledger, "a");
        assertThatThrownBy(() -> ledger.offloadPrefix(last)).isInstanceOf(ManagedLedgerException.class)
            .hasMessageContaining("offloaders");
        CompletableFuture<Void> refused = new CompletableFuture<>();
        ledger.asyncOffloadPrefix(last, new OffloadCallback() {
            @Override
            public void offloadComplete(Position pos, Object ctx) {
                refused.completeExceptionally(new IllegalStateException("offloaded"));
            }

            @Override
            public void offloadFailed(ManagedLedgerException exception, Object ctx) {
                refused.complete(null);
            }
        }, null);
        get(refused);
    }
}
