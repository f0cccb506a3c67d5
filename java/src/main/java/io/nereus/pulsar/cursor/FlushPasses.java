package io.nereus.pulsar.cursor;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Decides when cursors with changes are persisted, for all cursors of one factory together.
 *
 * <p>Owns the set of dirty cursors. One pass over them at a time; the persists of a pass are handed over back to back,
 * so that they share a group of the journal. Promises: when nothing is under way and nothing was left over, a change is
 * handed over at once, on the thread that made it (a caller alone on its cursor does not come here at all, see
 * {@link DurableKeeper}). What comes while a pass is under way goes with the next one. That one starts, counted from the start of the pass before,
 * after at most the configured interval, and earlier if passes are cheap: they take about a fifth of the time, and write
 * about {@value #BYTES_PER_SECOND} bytes a second. The next one waits longer than the interval when a pass takes longer
 * than that, or, up to {@value #LONGEST_FOR_BYTES_MILLIS} ms, when it has more to write; never longer than Pulsar's own
 * mark-delete rate permits. A pass that does not end holds up nobody but its own cursors. There is one timer while
 * something is dirty and none otherwise.
 *
 * <p>Does not: persist, or know what changed. Thread-safe; the lock is never held while a cursor is called.
 */
public final class FlushPasses {

    private static final Logger log = LoggerFactory.getLogger(FlushPasses.class);
    /** A pass may take its own duration out of this many. */
    private static final long SHARE = 5;
    /**
     * What passes may write while an interval is stretched for it. Acks in random order over hundreds of thousands of entries
     * change every page of the subscription, so that each pass writes all of them, however few acks it carries.
     */
    private static final long BYTES_PER_SECOND = 128 << 10;
    private static final long LONGEST_FOR_BYTES_MILLIS = 250;
    /** After this time a pass is no longer waited for. */
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final ScheduledExecutorService scheduler;
    private final long intervalNanos;
    private final LongSupplier clock;

    private Set<Dirty> dirty = new LinkedHashSet<>();
    private Pass running;
    private ScheduledFuture<?> timer;
    private long timerNumber;
    private volatile long boundNanos;
    private volatile long passes;
    private volatile long persists;

    /**
     * @param scheduler      runs passes that are not started by a change itself
     * @param intervalMillis longest time from one pass to the next, 0 for no delay at all
     * @param clock          nanoseconds that never go back
     */
    public FlushPasses(ScheduledExecutorService scheduler, long intervalMillis, LongSupplier clock) {
        this.scheduler = scheduler;
        this.intervalNanos = TimeUnit.MILLISECONDS.toNanos(intervalMillis);
        this.clock = clock;
        this.boundNanos = intervalNanos;
    }

    /** Milliseconds from one pass to the next that are not exceeded at present: the interval, or more under load. */
    public long boundMillis() {
        return TimeUnit.NANOSECONDS.toMillis(boundNanos);
    }

    /** Passes that have ended. */
    public long passes() {
        return passes;
    }

    /** Persists handed over by passes. */
    public long persists() {
        return persists;
    }

    /** Whether a timer runs; there is none while nothing is dirty. */
    synchronized boolean isWaiting() {
        return timer != null;
    }

    /** {@code cursor} has something to persist, now or with the next pass. Any thread, with no lock held. */
    void dirty(Dirty cursor) {
        Pass pass;
        synchronized (this) {
            dirty.add(cursor);
            if (running != null) {
                if (timer == null) {
                    arm(running.startNanos + PATIENCE_NANOS - clock.getAsLong());
                }
                return;
            }
            if (timer != null) {
                return;
            }
            pass = begin();
        }
        pass.run();
    }

    private Pass begin() {
        Pass pass = new Pass(clock.getAsLong(), dirty);
        dirty = new LinkedHashSet<>();
        running = pass;
        return pass;
    }

    private void ended(Pass pass) {
        Pass next;
        synchronized (this) {
            passes++;
            persists += pass.handedOver;
            if (running != pass) {
                return; // nobody waited for it any more
            }
            running = null;
            disarm();
            long cost = clock.getAsLong() - pass.startNanos;
            long pause = pauseAfter(cost, pass.bytes);
            if (dirty.isEmpty()) {
                return;
            }
            if (pause > 0) {
                arm(pause);
                return;
            }
            next = begin();
        }
        start(next);
    }

    /** How long to wait before the next pass, after one that took and wrote so much; sets the bound in force. */
    private long pauseAfter(long cost, long bytes) {
        long forBytes = Math.min(TimeUnit.SECONDS.toNanos(Math.min(bytes, BYTES_PER_SECOND)) / BYTES_PER_SECOND,
            TimeUnit.MILLISECONDS.toNanos(LONGEST_FOR_BYTES_MILLIS));
        long wanted = Math.max(cost > intervalNanos ? cost * SHARE : 0, forBytes);
        long period = intervalNanos;
        if (intervalNanos > 0 && wanted > intervalNanos) {
            period = Math.max(intervalNanos, Math.min(wanted, permittedNanos()));
        }
        boundNanos = period;
        return Math.max(0, Math.min(Math.max(cost * SHARE, forBytes), period) - cost);
    }

    /** The time between two persists that each of the dirty cursors may be made to wait; 0 if one may not. */
    private long permittedNanos() {
        long permitted = Long.MAX_VALUE;
        for (Dirty cursor : dirty) {
            double rate = cursor.permittedRate();
            permitted = Math.min(permitted, rate > 0 ? (long) (TimeUnit.SECONDS.toNanos(1) / rate) : 0);
        }
        return dirty.isEmpty() ? 0 : permitted;
    }

    private void arm(long delayNanos) {
        disarm();
        long number = ++timerNumber;
        try {
            timer = scheduler.schedule(() -> fired(number), Math.max(0, delayNanos), TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException e) {
            log.debug("the threads are shut down: cursors are persisted when they are closed");
        }
    }

    private void disarm() {
        if (timer != null) {
            timer.cancel(false);
            timer = null;
        }
    }

    private void fired(long number) {
        Pass next;
        synchronized (this) {
            if (number != timerNumber || timer == null) {
                return;
            }
            timer = null;
            if (dirty.isEmpty()) {
                return;
            }
            if (running != null) {
                log.warn("a pass over {} cursors has not ended after {} ms; the next one does not wait for it",
                        running.cursors.size(), TimeUnit.NANOSECONDS.toMillis(PATIENCE_NANOS));
            }
            next = begin();
        }
        next.run();
    }

    /** One cursor costs little and goes on in place; many do not keep the thread of one ledger. */
    private void start(Pass pass) {
        if (pass.cursors.size() > 1) {
            try {
                scheduler.execute(pass::run);
                return;
            } catch (RejectedExecutionException e) {
                log.debug("the threads are shut down: cursors are persisted here");
            }
        }
        pass.run();
    }

    /** A cursor that may have something to persist. */
    interface Dirty {

        /** Answer of {@link #flush}. */
        long NOTHING = -1;

        /**
         * Hands over what there is to persist, without waiting.
         *
         * @param ended called exactly once when it has ended, well or badly
         * @return bytes handed over; {@link #NOTHING} if there is nothing to hand over now, and {@code ended} is not called then
         */
        long flush(Runnable ended);

        /** Persists per second that Pulsar permits this cursor, 0 for any number. */
        double permittedRate();
    }

    private final class Pass {
        private final long startNanos;
        private final Set<Dirty> cursors;
        /** Persists that have not ended, and one for the handing over itself. */
        private final AtomicInteger open = new AtomicInteger(1);
        private int handedOver;
        private long bytes;

        Pass(long startNanos, Set<Dirty> cursors) {
            this.startNanos = startNanos;
            this.cursors = cursors;
        }

        void run() {
            List<Dirty> all = new ArrayList<>(cursors);
            int count = 0;
            long size = 0;
            for (Dirty cursor : all) {
                open.incrementAndGet();
                try {
                    long written = cursor.flush(this::oneEnded);
                    if (written != Dirty.NOTHING) {
                        count++;
                        size += written;
                        continue;
                    }
                } catch (RuntimeException e) {
                    log.error("a cursor could not be persisted", e);
                }
                open.decrementAndGet();
            }
            handedOver = count; // both are seen by whoever ends the pass: the counter below orders it
            bytes = size;
            oneEnded();
        }

        private void oneEnded() {
            if (open.decrementAndGet() == 0) {
                ended(this);
            }
        }
    }
}
