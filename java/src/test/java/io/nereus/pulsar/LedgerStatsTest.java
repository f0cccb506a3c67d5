package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.reflect.Method;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedLedgerMXBean;
import org.testng.annotations.Test;

public class LedgerStatsTest {

    private final LedgerStats stats = new LedgerStats(Durations.UNHEARD);
    private final LedgerBean bean = new LedgerBean("t", stats, () -> 7, () -> 3);

    @Test
    public void everyMemberAnswersWithoutStocksLedger() throws Exception {
        LedgerBean idle = new LedgerBean("t", new LedgerStats(Durations.UNHEARD), () -> 7, () -> 3);
        for (Method method : ManagedLedgerMXBean.class.getMethods()) {
            assertThat(method.invoke(idle)).as(method.getName()).isNotNull();
        }
        assertThat(idle.getName()).isEqualTo("t");
        assertThat(idle.getStoredMessagesSize()).isEqualTo(7);
        assertThat(idle.getNumberOfMessagesInBacklog()).isEqualTo(3);
    }

    @Test
    public void failuresAreCounted() {
        LedgerStats failing = new LedgerStats(Durations.UNHEARD);
        failing.recordReadEntriesError();
        failing.recordReadEntriesError();
        failing.recordAddEntryError();
        failing.refreshStats(2, TimeUnit.SECONDS);
        LedgerBean failures = new LedgerBean("t", failing, () -> 0, () -> 0);
        assertThat(failures.getReadEntriesErrors()).isEqualTo(2);
        assertThat(failures.getReadEntriesErrorsTotal()).isEqualTo(2);
        assertThat(failures.getAddEntryErrors()).isEqualTo(1);
        assertThat(failures.getAddEntryErrorsTotal()).isEqualTo(1);
    }

    @Test
    public void ratesAreOfThePeriodThatWasRefreshed() {
        LedgerStats appending = new LedgerStats(Durations.UNHEARD);
        LedgerBean rates = new LedgerBean("t", appending, () -> 0, () -> 0);
        for (int i = 0; i < 10; i++) {
            appending.addCompleted(100, TimeUnit.MILLISECONDS.toNanos(3));
        }
        rates.refreshStats(5, TimeUnit.SECONDS);
        assertThat(rates.getAddEntryMessagesRate()).isEqualTo(2);
        assertThat(rates.getAddEntryBytesRate()).isEqualTo(200);
        assertThat(rates.getAddEntryWithReplicasBytesRate()).isEqualTo(200);
        assertThat(rates.getEntrySizeAverage()).isEqualTo(100);
        assertThat(rates.getAddEntryLatencyAverageUsec()).isEqualTo(3_000);
        assertThat(rates.getAddEntrySucceed()).isEqualTo(10);
        rates.refreshStats(5, TimeUnit.SECONDS);
        assertThat(rates.getAddEntryMessagesRate()).isZero();
        assertThat(rates.getAddEntrySucceed()).isZero();
        assertThat(rates.getAddEntrySucceedTotal()).isEqualTo(10);
    }

    @Test
    public void readsAndMarkDeletesAreCountedWithWhatTheyCarried() {
        LedgerStats reading = new LedgerStats(Durations.UNHEARD);
        LedgerBean reads = new LedgerBean("t", reading, () -> 0, () -> 0);
        reading.addReadEntriesSample(3, 60);
        reading.addReadEntriesSample(2, 40);
        reading.addEntriesRead(3);
        reading.addEntriesRead(2);
        reading.addMarkDeleteOp();
        reads.refreshStats(10, TimeUnit.SECONDS);
        assertThat(reads.getReadEntriesRate()).isEqualTo(0.5);
        assertThat(reads.getReadEntriesBytesRate()).isEqualTo(10);
        assertThat(reads.getReadEntriesSucceeded()).isEqualTo(5);
        assertThat(reads.getReadEntriesSucceededTotal()).isEqualTo(5);
        assertThat(reads.getReadEntriesBytesTotal()).isEqualTo(100);
        assertThat(reads.getEntriesReadTotalCount()).as("stock counts reads here").isEqualTo(2);
        assertThat(reads.getMarkDeleteRate()).isEqualTo(0.1);
        assertThat(reads.getMarkDeleteTotal()).isEqualTo(1);
    }

    /** Who keeps a bean sees what comes later, and what is recorded through one bean shows in another. */
    @Test
    public void everyBeanOfALedgerIsTheSameView() {
        LedgerBean other = new LedgerBean("t", stats, () -> 7, () -> 3);
        other.addAddEntrySample(5);
        other.addAddEntryLatencySample(5, TimeUnit.MILLISECONDS);
        other.addReadEntriesSample(1, 5);
        other.addMarkDeleteOp();
        assertThat(bean.getAddEntryBytesTotal()).isEqualTo(5);
        assertThat(bean.getReadEntriesBytesTotal()).isEqualTo(5);
        assertThat(bean.getMarkDeleteTotal()).isEqualTo(1);
        bean.refreshStats(1, TimeUnit.SECONDS);
        assertThat(other.getEntrySizeAverage()).isEqualTo(5);
        assertThat(other.getInternalAddEntryLatencyBuckets().getCount()).isEqualTo(1);
    }

    @Test
    public void aPeriodWithoutLengthEndsNothing() {
        LedgerStats appending = new LedgerStats(Durations.UNHEARD);
        LedgerBean rates = new LedgerBean("t", appending, () -> 0, () -> 0);
        appending.addCompleted(100, 1);
        rates.refreshStats(0, TimeUnit.SECONDS);
        assertThat(rates.getAddEntrySucceed()).isZero();
        rates.refreshStats(1, TimeUnit.SECONDS);
        assertThat(rates.getAddEntrySucceed()).isEqualTo(1);
    }
}
