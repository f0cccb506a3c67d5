package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.bookkeeper.mledger.util.StatsBuckets;
import org.testng.annotations.Test;

public class DistributionTest {

    private final StatsBuckets none = new StatsBuckets(10, 100);

    @Test
    public void bucketsAreThereFromTheFirstSampleToTheEndOfAPeriodWithoutOne() {
        Distribution sizes = new Distribution(new long[] {10, 100});
        assertThat(sizes.orElse(none)).isSameAs(none);
        sizes.endPeriod();
        assertThat(sizes.orElse(none)).isSameAs(none);
        sizes.add(7);
        sizes.endPeriod();
        assertThat(sizes.orElse(none).getBuckets()).containsExactly(1, 0, 0);
        sizes.add(1_000);
        sizes.endPeriod();
        assertThat(sizes.orElse(none).getBuckets()).as("of the last period alone").containsExactly(0, 0, 1);
        sizes.endPeriod();
        assertThat(sizes.orElse(none)).isSameAs(none);
        sizes.add(50);
        sizes.endPeriod();
        assertThat(sizes.orElse(none).getBuckets()).as("after a pause").containsExactly(0, 1, 0);
    }
}
