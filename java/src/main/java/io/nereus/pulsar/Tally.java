package io.nereus.pulsar;

import java.util.concurrent.TimeUnit;

/**
 * Events of one kind, each with a value: how many there were ever, and at what rate in the last period that ended.
 *
 * <p>What Pulsar's {@code Rate} answers, in a quarter of its memory: one ledger counts few kinds of events, each mostly on
 * one thread, and there may be a hundred thousand ledgers. Thread-safe.
 */
final class Tally {

    /** Of what never happened. Nothing may be recorded in it. */
    static final Tally NONE = new Tally();

    private long events;
    private long value;
    /** Both sums at the end of the last period. */
    private long eventsBefore;
    private long valueBefore;
    private long periodEvents;
    private long periodValue;
    private double periodSeconds = 1;

    synchronized void record(long count, long sum) {
        events += count;
        value += sum;
    }

    /** A period ends; {@code nanos} is how long it was, above 0. */
    synchronized void endPeriod(long nanos) {
        periodEvents = events - eventsBefore;
        periodValue = value - valueBefore;
        eventsBefore = events;
        valueBefore = value;
        periodSeconds = (double) nanos / TimeUnit.SECONDS.toNanos(1);
    }

    synchronized long total() {
        return events;
    }

    synchronized long totalValue() {
        return value;
    }

    /** Events of the last period. */
    synchronized long inPeriod() {
        return periodEvents;
    }

    /** Events for each second of the last period. */
    synchronized double rate() {
        return periodEvents / periodSeconds;
    }

    /** Value for each second of the last period. */
    synchronized double valueRate() {
        return periodValue / periodSeconds;
    }
}
