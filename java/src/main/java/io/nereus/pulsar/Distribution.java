package io.nereus.pulsar;

import org.apache.bookkeeper.mledger.util.StatsBuckets;

/**
 * How samples of one ledger spread, in the buckets that Pulsar's metrics add up.
 *
 * <p>The buckets, half a kilobyte, are there from the first sample to the end of the first period without one: a period
 * without samples reads as no buckets do. Thread-safe.
 */
final class Distribution {

    private final long[] boundaries;
    private StatsBuckets buckets;

    /** @param boundaries of the buckets, ascending; shared, not to be changed */
    Distribution(long[] boundaries) {
        this.boundaries = boundaries;
    }

    synchronized void add(long sample) {
        if (buckets == null) {
            buckets = new StatsBuckets(boundaries);
        }
        buckets.addValue(sample);
    }

    /** A period ends: its samples are what is shown from now on. */
    synchronized void endPeriod() {
        if (buckets != null) {
            buckets.refresh();
            if (buckets.getCount() == 0) {
                buckets = null;
            }
        }
    }

    /** The samples of the last period; {@code none}, which is empty, if there is nothing to show. */
    synchronized StatsBuckets orElse(StatsBuckets none) {
        return buckets == null ? none : buckets;
    }
}
