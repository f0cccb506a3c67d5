package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/** What retention lets go, and when, over a real engine: Pulsar's rollover settings say where it may stop. */
public class RetentionTest {

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

    /** The machine's clock, put forward at will. */
    private static final class MovedClock extends Clock {
        private volatile Duration forward = Duration.ZERO;

        @Override
        public Instant instant() {
            return Instant.now().plus(forward);
        }

        @Override
        public ZoneId getZone() {
            return ZoneId.of("UTC");
        }

        @Override
        public Clock withZone(ZoneId zone) {
            throw new UnsupportedOperationException("a test has one zone");
        }
    }

    private final MovedClock clock = new MovedClock();

    /** Stock's defaults: retention 0, a ledger is rolled after 50,000 entries, 100 MB or four hours. */
    private ManagedLedgerConfig config() {
        clock.forward = Duration.ZERO;
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        config.setClock(clock);
        return config;
    }

    private ManagedLedgerConfig config(int maxEntries) {
        return config().setMaxEntriesPerLedger(maxEntries);
    }

    private static Position add(NereusManagedLedger ledger, int count, int bytes) throws Exception {
        Position last = null;
        for (int i = 0; i < count; i++) {
            last = ledger.addEntry(new byte[bytes]);
        }
        return last;
    }

    private static void trim(NereusManagedLedger ledger) throws Exception {
        CompletableFuture<Void> trimmed = new CompletableFuture<>();
        ledger.trimConsumedLedgersInBackground(trimmed);
        trimmed.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    private static int read(NereusManagedLedger ledger, Position position) throws Exception {
        CompletableFuture<Entry> entry = new CompletableFuture<>();
        ledger.asyncReadEntry(position, Callbacks.entry(entry, found -> found), null);
        Entry found = entry.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
        try {
            return found.getLength();
        } finally {
            found.release();
        }
    }

    @Test
    public void aQuietConsumedLedgerGoesByTheLongestRolloverTime_case_050() throws Exception {
        ManagedLedgerConfig config = config();
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name, config);
        ManagedCursor cursor = ledger.openCursor("sub", InitialPosition.Earliest);
        Position last = add(ledger, 10, 100);
        cursor.markDelete(last);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).as("the open part stays").isEqualTo(10);
        clock.forward = Duration.ofHours(4);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).isZero();
        assertThat(ledger.getTotalSize()).isZero();
        assertThat(ledger.getLastConfirmedEntry()).isEqualTo(last);
        assertThat(read(ledger, last)).as("the last entry stays readable by position").isEqualTo(100);
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
        ledger.close();

        NereusManagedLedger again = fixture.ledger(name, config);
        assertThat(again.getLastConfirmedEntry()).isEqualTo(last);
        assertThat(read(again, last)).isEqualTo(100);
        assertThat(again.newNonDurableCursor(PositionFactory.EARLIEST).getNumberOfEntries()).as("the last entry").isEqualTo(1);
        assertThat(add(again, 1, 5).compareTo(last)).isPositive();
        assertThat(again.openCursor("sub").readEntries(10)).hasSize(1).allMatch(Entry::release);
    }

    @Test
    public void retentionTimeCountsFromTheLastAppendOfAPart() throws Exception {
        ManagedLedgerConfig config = config(10);
        config.setRetentionTime(60, TimeUnit.MINUTES);
        config.setRetentionSizeInMB(-1);
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName(), config);
        add(ledger, 35, 10);
        clock.forward = Duration.ofMinutes(59);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(35);
        clock.forward = Duration.ofMinutes(61);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).as("three parts of ten").isEqualTo(5);
        clock.forward = Duration.ofHours(4);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).isZero();
    }

    @Test
    public void retentionSizeKeepsWhatFillsIt() throws Exception {
        ManagedLedgerConfig config = config(2);
        config.setRetentionTime(-1, TimeUnit.MINUTES);
        config.setRetentionSizeInMB(1);
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName(), config);
        add(ledger, 12, 200_000);
        trim(ledger);
        assertThat(ledger.getTotalSize()).isEqualTo(6 * 200_000);
        config.setRetentionSizeInMB(-1);
        clock.forward = Duration.ofDays(1000);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).as("kept for ever").isEqualTo(6);
    }

    @Test
    public void aPartIsClosedByItsSizeToo() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName(), config().setMaxSizePerLedgerMb(1));
        add(ledger, 8, 300_000);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).as("four entries pass 1 MB, twice").isZero();
    }

    @Test
    public void l16_retentionStopsAtTheSlowestDurableCursorAndAtALiveReader() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName(), config(5));
        ManagedCursor slow = ledger.openCursor("slow", InitialPosition.Earliest);
        ManagedCursor fast = ledger.openCursor("fast", InitialPosition.Earliest);
        Position last = add(ledger, 20, 10);
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        fast.markDelete(last);
        reader.markDelete(last);
        slow.markDelete(ledger.position(11));
        trim(ledger);
        assertThat(ledger.trimOffset()).as("from part to part").isEqualTo(10);
        assertThat(slow.getNumberOfEntriesInBacklog(true)).isEqualTo(8);
        slow.markDelete(last);
        trim(ledger);
        assertThat(ledger.trimOffset()).isEqualTo(20);

        Position more = add(ledger, 10, 10);
        fast.markDelete(more);
        slow.markDelete(more);
        trim(ledger);
        assertThat(ledger.trimOffset()).as("the reader has not read on").isEqualTo(20);
        ledger.deleteCursor("reader");
        trim(ledger);
        assertThat(ledger.trimOffset()).isEqualTo(30);
    }

    @Test
    public void newRolloverSettingsHoldAtOnce_case_114() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName(), config());
        add(ledger, 25, 10);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(25);
        ledger.setConfig(config(10));
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(5);
    }

    @Test
    @SuppressWarnings("deprecation") // stock's brokers call it
    public void rollingAFullLedgerLetsRetentionHaveIt() throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName(), config());
        add(ledger, 3, 10);
        clock.forward = Duration.ofHours(5);
        ledger.rollCurrentLedgerIfFull();
        await().atMost(Duration.ofSeconds(TIMEOUT_SECONDS)).until(() -> ledger.getNumberOfEntries() == 0);
    }

    @Test
    public void anInactiveLedgerIsRolled() throws Exception {
        ManagedLedgerConfig config = config();
        config.setInactiveLedgerRollOverTime(30, TimeUnit.MINUTES);
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName(), config);
        assertThat(ledger.checkInactiveLedgerAndRollOver()).as("nothing in it").isFalse();
        add(ledger, 3, 10);
        clock.forward = Duration.ofMinutes(29);
        assertThat(ledger.checkInactiveLedgerAndRollOver()).isFalse();
        clock.forward = Duration.ofMinutes(31);
        assertThat(ledger.checkInactiveLedgerAndRollOver()).isTrue();
        await().atMost(Duration.ofSeconds(TIMEOUT_SECONDS)).until(() -> ledger.getNumberOfEntries() == 0);
    }

    @Test
    public void partsGoOnAfterAReopenAndARestart() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name, config(10));
        ledger.openCursor("sub", InitialPosition.Earliest);
        add(ledger, 14, 10);
        trim(ledger);
        fixture.restart();
        NereusManagedLedger again = fixture.ledger(name, config(10));
        add(again, 8, 10);
        trim(again);
        assertThat(again.getNumberOfEntries()).as("the cursor keeps all").isEqualTo(22);
        again.deleteCursor("sub");
        trim(again);
        assertThat(again.getNumberOfEntries()).as("parts of ten, counted over the restart").isEqualTo(2);
    }
}
