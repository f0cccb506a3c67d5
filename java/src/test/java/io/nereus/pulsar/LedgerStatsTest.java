package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.reflect.Method;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedLedgerMXBean;
import org.testng.annotations.Test;

public class LedgerStatsTest {

    private final LedgerStats stats = new LedgerStats("t", () -> 7, () -> 3, Durations.UNHEARD);

    @Test
    public void everyMemberAnswersWithoutStocksLedger() throws Exception {
        for (Method method : ManagedLedgerMXBean.class.getMethods()) {
            assertThat(method.invoke(stats)).as(method.getName()).isNotNull();
        }
        assertThat(stats.getStoredMessagesSize()).isEqualTo(7);
        assertThat(stats.getNumberOfMessagesInBacklog()).isEqualTo(3);
    }

    @Test
    public void failuresAreCounted() {
        LedgerStats failing = new LedgerStats("t", () -> 0, () -> 0, Durations.UNHEARD);
        failing.recordReadEntriesError();
        failing.recordReadEntriesError();
        failing.recordAddEntryError();
        failing.refreshStats(2, TimeUnit.SECONDS);
        assertThat(failing.getReadEntriesErrors()).isEqualTo(2);
        assertThat(failing.getReadEntriesErrorsTotal()).isEqualTo(2);
        assertThat(failing.getAddEntryErrors()).isEqualTo(1);
        assertThat(failing.getAddEntryErrorsTotal()).isEqualTo(1);
    }

    @Test
    public void ratesAreOfThePeriodThatWasRefreshed() {
        LedgerStats rates = new LedgerStats("t", () -> 0, () -> 0, Durations.UNHEARD);
        for (int i = 0; i < 10; i++) {
            rates.addCompleted(100, TimeUnit.MILLISECONDS.toNanos(3));
        }
        rates.refreshStats(5, TimeUnit.SECONDS);
        assertThat(rates.getAddEntryMessagesRate()).isEqualTo(2);
        assertThat(rates.getAddEntryBytesRate()).isEqualTo(200);
        assertThat(rates.getAddEntryWithReplicasBytesRate()).isEqualTo(200);
        assertThat(rates.getEntrySizeAverage()).isEqualTo(100);
        assertThat(rates.getAddEntryLatencyAverageUsec()).isEqualTo(3_000);
        rates.refreshStats(5, TimeUnit.SECONDS);
        assertThat(rates.getAddEntryMessagesRate()).isZero();
        assertThat(rates.getAddEntrySucceedTotal()).isEqualTo(10);
    }
}
