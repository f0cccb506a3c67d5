package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;

import io.nereus.pulsar.bridge.EngineState;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerMXBean;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/** Statistics of ten thousand open ledgers, each with entries, a subscription and a hole in its acknowledgements. */
public class ManyTopicsTest {

    private static final Logger log = LoggerFactory.getLogger(ManyTopicsTest.class);
    private static final int TOPICS = 10_000;
    private static final int ENTRIES = 4;
    private static final int ENTRY_BYTES = 100;
    private static final int CALLERS = 64;
    /** Far above what it takes, far below a period of statistics; a read for each topic would take longer. */
    private static final long MOST_MILLIS = 5_000;

    private LedgerFixture fixture;
    private final List<ManagedLedger> ledgers = new ArrayList<>();

    @BeforeClass
    public void openAll() throws Exception {
        fixture = new LedgerFixture();
        ExecutorService callers = Executors.newFixedThreadPool(CALLERS);
        try {
            List<Future<ManagedLedger>> opening = new ArrayList<>();
            for (int i = 0; i < TOPICS; i++) {
                opening.add(callers.submit(this::filled));
            }
            for (Future<ManagedLedger> one : opening) {
                ledgers.add(one.get());
            }
        } finally {
            callers.shutdown();
        }
    }

    /** A ledger of which the second and the fourth entry are acknowledged. */
    private ManagedLedger filled() throws Exception {
        ManagedLedger ledger = fixture.factory().open(LedgerFixture.freshName());
        List<Position> added = new ArrayList<>();
        for (int i = 0; i < ENTRIES; i++) {
            added.add(ledger.addEntry(new byte[ENTRY_BYTES]));
        }
        ledger.openCursor("s", InitialPosition.Earliest).delete(List.of(added.get(1), added.get(3)));
        return ledger;
    }

    @AfterClass(alwaysRun = true)
    public void closeAll() throws Exception {
        if (fixture != null) {
            fixture.close();
        }
    }

    private EngineState.Reads reads() throws Exception {
        return fixture.engine().state(ForkJoinPool.commonPool()).get(60, TimeUnit.SECONDS).reads();
    }

    /** What the broker asks of a ledger for its topic statistics and for a line of its metrics page. */
    private static long ask(ManagedLedger ledger) {
        ManagedLedgerMXBean stats = ledger.getStats();
        long sum = ledger.getNumberOfEntries() + ledger.getTotalSize() + ledger.getEstimatedBacklogSize()
            + ledger.getNumberOfActiveEntries() + ledger.getOffloadedSize() + ledger.getPendingAddEntriesCount()
            + ledger.getCacheSize() + ledger.getLedgersInfo().size();
        assertThat(ledger.getLastConfirmedEntry().getEntryId()).isEqualTo(ENTRIES - 1);
        sum += stats.getStoredMessagesSize() + stats.getNumberOfMessagesInBacklog() + stats.getAddEntryBytesTotal()
            + stats.getAddEntryLatencyBuckets().length + stats.getEntrySizeBuckets().length
            + stats.getReadEntriesBytesTotal() + (long) stats.getAddEntryMessagesRate();
        for (ManagedCursor cursor : ledger.getCursors()) {
            assertThat(cursor.getNumberOfEntriesInBacklog(false)).isEqualTo(ENTRIES - 2);
            sum += cursor.getEstimatedSizeSinceMarkDeletePosition() + cursor.getTotalNonContiguousDeletedMessagesRange()
                + cursor.getNonContiguousDeletedMessagesRangeSerializedSize() + cursor.getNumberOfEntries()
                + cursor.getNumberOfEntriesSinceFirstNotAckedMessage() + cursor.getStats().getWriteCursorLedgerSize()
                + cursor.getMarkDeletedPosition().getEntryId();
        }
        return sum;
    }

    @Test
    public void aRoundOfStatisticsReadsNoEntryAndTakesMicrosecondsPerTopic() throws Exception {
        EngineState.Reads before = reads();
        long fastest = Long.MAX_VALUE;
        for (int round = 0; round < 5; round++) {
            long start = System.nanoTime();
            long sum = 0;
            Map<String, ManagedLedger> open = fixture.factory().getManagedLedgers();
            assertThat(open).hasSize(TOPICS);
            for (ManagedLedger ledger : open.values()) {
                sum += ask(ledger);
            }
            assertThat(sum).isPositive();
            fastest = Math.min(fastest, System.nanoTime() - start);
        }
        log.info("statistics of {} topics: {} ms", TOPICS, TimeUnit.NANOSECONDS.toMillis(fastest));
        assertThat(TimeUnit.NANOSECONDS.toMillis(fastest)).isLessThan(MOST_MILLIS);
        assertThat(reads()).as("no entry was read").isEqualTo(before);
    }

    @Test
    public void refreshingTheRatesOfAllIsCheap() {
        long start = System.nanoTime();
        for (ManagedLedger ledger : ledgers) {
            ((NereusManagedLedger) ledger).stats().refreshStats(1, TimeUnit.SECONDS);
        }
        long millis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
        log.info("rates of {} topics: {} ms", TOPICS, millis);
        assertThat(millis).isLessThan(MOST_MILLIS);
    }

    @Test
    public void theInternalStatisticsOfAllReadNoEntryEither() throws Exception {
        EngineState.Reads before = reads();
        long start = System.nanoTime();
        for (ManagedLedger ledger : ledgers) {
            assertThat(ledger.getManagedLedgerInternalStats(true).join().numberOfEntries).isEqualTo(ENTRIES);
        }
        log.info("internal statistics of {} topics: {} ms", TOPICS,
            TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start));
        assertThat(reads()).isEqualTo(before);
    }
}
