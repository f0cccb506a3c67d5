package io.nereus.pulsar.contract;

import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.concurrent.atomic.AtomicLong;

/** A clock that starts now and stands still until a test moves it. Thread-safe. */
public final class ManualClock extends Clock {

    private final AtomicLong millis = new AtomicLong(System.currentTimeMillis());

    /** Moves forward by {@code step}, in whole milliseconds. */
    public void advance(Duration step) {
        millis.addAndGet(step.toMillis());
    }

    @Override
    public long millis() {
        return millis.get();
    }

    @Override
    public Instant instant() {
        return Instant.ofEpochMilli(millis.get());
    }

    @Override
    public ZoneId getZone() {
        return ZoneOffset.UTC;
    }

    @Override
    public Clock withZone(ZoneId zone) {
        throw new UnsupportedOperationException("a manual clock knows UTC only");
    }
}
