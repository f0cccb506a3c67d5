package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/** Faults that users of other storages reported, restated for a ledger. The numbers are those of the list of cases. */
public class ReportedFaultsIT {

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

    /** Hears of appends; every callback leaves one line. */
    private static final class Heard implements AddEntryCallback {
        private final List<String> lines = Collections.synchronizedList(new ArrayList<>());
        private final CountDownLatch open;

        Heard(int expected) {
            open = new CountDownLatch(expected);
        }

        @Override
        public void addComplete(Position position, ByteBuf data, Object ctx) {
            lines.add(ctx + " stored " + (data == null ? null : data.toString(StandardCharsets.UTF_8)));
            open.countDown();
        }

        @Override
        public void addFailed(ManagedLedgerException exception, Object ctx) {
            lines.add(ctx + " failed");
            open.countDown();
        }

        List<String> all() throws InterruptedException {
            assertThat(open.await(TIMEOUT_SECONDS, TimeUnit.SECONDS)).as("callbacks still missing").isTrue();
            return List.copyOf(lines);
        }
    }

    private static ByteBuf buffer(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return PooledByteBufAllocator.DEFAULT.directBuffer(bytes.length).writeBytes(bytes);
    }

    private static List<String> stored(NereusManagedLedger ledger) throws Exception {
        ManagedCursor cursor = ledger.newNonDurableCursor(PositionFactory.EARLIEST);
        List<String> texts = new ArrayList<>();
        while (cursor.hasMoreEntries()) {
            for (Entry entry : cursor.readEntries(100)) {
                texts.add(LedgerFixture.text(entry));
            }
        }
        return texts;
    }

    @Test
    public void everyPendingAppendIsAnsweredOnceBeforeACloseAnswers_case_022() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        Heard heard = new Heard(100);
        List<ByteBuf> buffers = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            ByteBuf buffer = buffer("e" + i);
            buffers.add(buffer);
            ledger.asyncAddEntry(buffer, heard, i);
        }
        ledger.close();
        List<String> atClose = List.copyOf(heard.lines);
        assertThat(atClose).hasSize(100);
        assertThat(heard.all()).hasSize(100);
        for (int i = 0; i < 100; i++) {
            assertThat(atClose.get(i)).startsWith(i + " ");
        }
        buffers.forEach(ByteBuf::release);
        assertThat(buffers).as("nobody else holds a buffer").allMatch(buffer -> buffer.refCnt() == 0);
        long kept = atClose.stream().filter(line -> line.contains("stored")).count();
        assertThat(stored(fixture.ledger(ledger.getName()))).hasSize((int) kept);
    }

    @Test
    public void anInterceptorThatThrowsFailsItsAppendAndTheOthersStayInOrder_case_059() throws Exception {
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        config.setManagedLedgerInterceptor(new ThrowsOnThird());
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName(), config);
        Heard heard = new Heard(6);
        for (int i = 1; i <= 6; i++) {
            ledger.asyncAddEntry(("e" + i).getBytes(StandardCharsets.UTF_8), heard, i);
        }
        assertThat(heard.all()).containsExactly("1 stored e1", "2 stored e2", "3 failed", "4 stored e4", "5 stored e5",
            "6 stored e6");
        assertThat(ledger.getLastConfirmedEntry().getEntryId()).isEqualTo(4);
        ledger.close();
        assertThat(stored(fixture.ledger(ledger.getName()))).containsExactly("e1", "e2", "e4", "e5", "e6");
    }

    /** Fails the third append. */
    private static final class ThrowsOnThird implements ManagedLedgerInterceptor {
        private int calls;

        @Override
        public void beforeAddEntry(AddEntryOperation op, int numberOfMessages) {
            if (++calls == 3) {
                throw new IllegalStateException("of the test");
            }
        }

        @Override
        public void onManagedLedgerPropertiesInitialize(Map<String, String> propertiesMap) {
        }

        @Override
        public CompletableFuture<Void> onManagedLedgerLastLedgerInitialize(String name,
                LastEntryHandle handle) {
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public void onUpdateManagedLedgerInfo(Map<String, String> propertiesMap) {
        }
    }

    /** The broker refuses such a subscription when it sees a cursor that is not durable; nothing may be left of the attempt. */
    @Test
    public void nothingIsStoredForADurableCursorWhoseNameANonDurableOneHas_case_071() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        LedgerFixture.add(ledger, "e1");
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "s", InitialPosition.Earliest, false);
        ManagedCursor opened = ledger.openCursor("s");
        assertThat(opened.isDurable()).isFalse();
        assertThat(opened).isSameAs(reader);
        ledger.close();
        assertThat(fixture.ledger(ledger.getName()).getCursors()).as("nothing was stored").isEmpty();
    }

    @Test
    public void anAppendsCallbackSeesItsBytesAndNoBufferLeaks_case_079() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        Heard heard = new Heard(50);
        List<ByteBuf> buffers = new ArrayList<>();
        List<String> expected = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            ByteBuf buffer = buffer("bytes of " + i);
            buffers.add(buffer);
            expected.add(i + " stored bytes of " + i);
            ledger.asyncAddEntry(buffer, heard, i);
        }
        assertThat(heard.all()).isEqualTo(expected);
        ledger.close();
        assertThat(buffers).as("only the caller holds a buffer").allMatch(buffer -> buffer.refCnt() == 1);
        buffers.forEach(ByteBuf::release);
    }
}
