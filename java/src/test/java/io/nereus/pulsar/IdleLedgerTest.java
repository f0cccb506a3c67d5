package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import javax.management.ObjectName;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/**
 * What a ledger takes on the heap that is open, with a subscription, and otherwise left alone: there may be a hundred
 * thousand. The JVM counts its live objects, so that nothing but them matters.
 */
public class IdleLedgerTest {

    private static final Logger log = LoggerFactory.getLogger(IdleLedgerTest.class);
    private static final int LEDGERS = 1_000;
    private static final int CALLERS = 16;
    /** Of one ledger, its configuration and its cursor with it. It takes about 3,000; one of stock takes some 14,000. */
    private static final long MOST_BYTES = 3_500;

    private LedgerFixture fixture;

    @BeforeMethod
    public void open() throws Exception {
        fixture = new LedgerFixture();
    }

    @AfterMethod(alwaysRun = true)
    public void close() {
        fixture.close();
    }

    @Test
    public void anIdleLedgerWithASubscriptionTakesLittleHeapAlsoAfterItsStatisticsWereAskedFor() throws Exception {
        for (ManagedLedger ledger : ledgers(0, 2 * LEDGERS)) {
            ledger.openCursor("sub", InitialPosition.Earliest);
        }
        fixture.restart();
        List<ManagedLedger> open = new ArrayList<>(ledgers(0, LEDGERS)); // what is there once does not count
        long before = liveBytes();
        open.addAll(ledgers(LEDGERS, 2 * LEDGERS));
        assertTakesLittle("opened", before);
        for (ManagedLedger ledger : open) {
            assertThat(ledger.getStats().getAddEntrySucceedTotal()).isZero();
            for (ManagedCursor cursor : ledger.getCursors()) {
                assertThat(cursor.getStats().getPersistLedgerErrors()).isZero();
            }
            assertThat(ledger.getActiveCursors()).hasSize(1);
            ((NereusManagedLedger) ledger).stats().refreshStats(1, TimeUnit.SECONDS);
        }
        assertTakesLittle("asked", before);
    }

    private static void assertTakesLittle(String what, long before) throws Exception {
        long each = (liveBytes() - before) / LEDGERS;
        log.info("{} ledgers, {}: {} bytes of heap each", LEDGERS, what, each);
        assertThat(each).as(what).isLessThan(MOST_BYTES);
    }

    private List<ManagedLedger> ledgers(int from, int to) throws Exception {
        ExecutorService callers = Executors.newFixedThreadPool(CALLERS);
        try {
            List<Future<ManagedLedger>> opening = new ArrayList<>();
            for (int i = from; i < to; i++) {
                String name = "public/default/persistent/idle-" + i;
                opening.add(callers.submit(() -> fixture.ledger(name)));
            }
            List<ManagedLedger> open = new ArrayList<>();
            for (Future<ManagedLedger> one : opening) {
                open.add(one.get());
            }
            return open;
        } finally {
            callers.shutdown();
        }
    }

    /** Collects garbage, and answers the sum of the class histogram: the line "Total", objects, bytes. */
    private static long liveBytes() throws Exception {
        String histogram = (String) ManagementFactory.getPlatformMBeanServer().invoke(
            new ObjectName("com.sun.management:type=DiagnosticCommand"), "gcClassHistogram",
            new Object[] {new String[0]}, new String[] {String[].class.getName()});
        String[] total = histogram.substring(histogram.lastIndexOf("Total")).trim().split("\\s+");
        return Long.parseLong(total[2]);
    }
}
