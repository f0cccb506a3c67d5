package io.nereus.pulsar.cursor;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Delayed;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** When cursors are persisted, on a clock and with timers that move when the test says so. */
public class FlushPassesTest {

    private static final long INTERVAL_MILLIS = 50;

    private Timers timers;
    private FlushPasses passes;
    private final List<Cursor> flushed = new ArrayList<>();

    @BeforeMethod
    public void setUp() {
        flushed.clear();
        timers = new Timers();
        passes = new FlushPasses(timers, INTERVAL_MILLIS, () -> timers.nowNanos);
    }

    @AfterMethod(alwaysRun = true)
    public void tearDown() {
        timers.shutdownNow();
    }

    /** One pass that takes {@code millis}, with something left over at its end. */
    private void pass(Cursor cursor, long millis) {
        passes.dirty(cursor);
        passes.dirty(cursor);
        timers.advance(millis);
        cursor.end();
    }

    @Test
    public void aChangeIsHandedOverAtOnceWhileNothingElseIsUnderWay() {
        Cursor cursor = new Cursor(1);
        for (int i = 0; i < 1000; i++) {
            passes.dirty(cursor);
            assertEquals(flushed.size(), i + 1, "a caller that waits for each answer waits for no timer");
            timers.advance(3);
            cursor.end();
            assertFalse(passes.isWaiting(), "no timer while nothing is dirty");
        }
        assertEquals(passes.passes(), 1000);
    }

    @Test
    public void whatComesMeanwhileGoesTogetherWithTheNextPass() {
        Cursor first = new Cursor(1);
        passes.dirty(first);
        List<Cursor> others = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            Cursor cursor = new Cursor(1);
            others.add(cursor);
            passes.dirty(cursor);
            passes.dirty(cursor);
        }
        timers.advance(2);
        first.end();
        assertEquals(flushed, List.of(first), "a pass that took 2 ms is followed by a pause of 8");
        timers.advance(7);
        assertEquals(flushed, List.of(first));
        timers.advance(1);
        assertEquals(flushed.size(), 101, "every dirty cursor once, back to back");
        assertEquals(flushed.subList(1, 101), others, "in the order in which they became dirty");
        others.forEach(Cursor::end);
        assertEquals(passes.passes(), 2);
        assertEquals(passes.persists(), 101);
        assertFalse(passes.isWaiting());
    }

    @Test
    public void aPassStartsAtMostOneIntervalAfterTheOneBefore() {
        Cursor cursor = new Cursor(1);
        pass(cursor, 30);
        timers.advance(INTERVAL_MILLIS - 30 - 1);
        assertEquals(flushed.size(), 1);
        timers.advance(1);
        assertEquals(flushed.size(), 2);
        assertEquals(passes.boundMillis(), INTERVAL_MILLIS);
        cursor.end();
    }

    @Test
    public void underLoadTheIntervalStretchesUpToPulsarsOwnRateAndNoFurther() {
        Cursor cursor = new Cursor(4); // four persists a second
        pass(cursor, 60);
        assertEquals(passes.boundMillis(), 250);
        timers.advance(189);
        assertEquals(flushed.size(), 1);
        timers.advance(1);
        assertEquals(flushed.size(), 2, "250 ms after the pass before began");
        timers.advance(5);
        cursor.end();
        assertEquals(passes.boundMillis(), INTERVAL_MILLIS, "the bound goes back with the load");
    }

    @Test
    public void aPassJustLongerThanTheIntervalIsFollowedByFourTimesItsDuration() {
        Cursor cursor = new Cursor(0.1);
        pass(cursor, 60);
        assertEquals(passes.boundMillis(), 300);
        timers.advance(239);
        assertEquals(flushed.size(), 1);
        timers.advance(1);
        assertEquals(flushed.size(), 2);
        cursor.end();
    }

    @Test
    public void aPassThatWritesMuchIsFollowedByALongerPause() {
        Cursor cursor = new Cursor(1).writing(16 << 10); // an eighth of what may be written in a second
        pass(cursor, 1);
        assertEquals(passes.boundMillis(), 125);
        timers.advance(123);
        assertEquals(flushed.size(), 1);
        timers.advance(1);
        assertEquals(flushed.size(), 2, "125 ms after the pass before began");
        cursor.writing(8).end();
    }

    @Test
    public void howeverMuchIsWrittenThePauseHasABound() {
        Cursor cursor = new Cursor(1).writing(100 << 20);
        pass(cursor, 1);
        assertEquals(passes.boundMillis(), 250);
        timers.advance(249);
        assertEquals(flushed.size(), 2);
        cursor.end();
    }

    @Test
    public void whatIsWrittenStretchesNothingWithoutARate() {
        Cursor cursor = new Cursor(0).writing(100 << 20);
        pass(cursor, 1);
        assertEquals(passes.boundMillis(), INTERVAL_MILLIS);
        timers.advance(INTERVAL_MILLIS - 1);
        assertEquals(flushed.size(), 2);
        cursor.end();
    }

    @Test
    public void aCallerAloneThatWritesMuchStillWaitsForNoTimer() {
        Cursor cursor = new Cursor(1).writing(100 << 20);
        for (int i = 0; i < 100; i++) {
            passes.dirty(cursor);
            assertEquals(flushed.size(), i + 1);
            timers.advance(1);
            cursor.end();
        }
    }

    @Test
    public void withoutARateTheIntervalIsNeverStretched() {
        Cursor unlimited = new Cursor(0);
        Cursor slow = new Cursor(1);
        passes.dirty(slow);
        passes.dirty(slow);
        passes.dirty(unlimited);
        timers.advance(60);
        slow.end();
        assertEquals(passes.boundMillis(), INTERVAL_MILLIS);
        timers.advance(0);
        assertEquals(flushed.size(), 3, "the pass took longer than the interval, so the next one starts at once");
        slow.end();
        unlimited.end();
    }

    @Test
    public void anIntervalOfZeroMeansNoDelayAtAll() {
        passes = new FlushPasses(timers, 0, () -> timers.nowNanos);
        Cursor cursor = new Cursor(1);
        pass(cursor, 500);
        assertEquals(flushed.size(), 2, "at once, without a timer");
        assertFalse(passes.isWaiting());
        assertEquals(passes.boundMillis(), 0);
        cursor.end();
    }

    @Test
    public void aPersistThatDoesNotEndHoldsUpNoOtherCursor_case_082() {
        Cursor stuck = new Cursor(1);
        Cursor other = new Cursor(1);
        passes.dirty(stuck);
        timers.advance(100);
        passes.dirty(other);
        timers.advance(899);
        assertEquals(flushed, List.of(stuck));
        timers.advance(1);
        assertEquals(flushed, List.of(stuck, other), "after a second it is not waited for any more");
        other.end();
        passes.dirty(other);
        assertEquals(flushed.size(), 3);
        stuck.end();
        passes.dirty(stuck);
        timers.advance(1);
        other.end();
        timers.advance(50);
        assertEquals(flushed.size(), 4, "and what became of it then disturbs nobody");
        assertTrue(stuck.ended != null);
    }

    @Test
    public void aCursorThatCannotBePersistedDoesNotStopThePass() {
        Cursor holding = new Cursor(1);
        Cursor good = new Cursor(1);
        passes.dirty(holding);
        passes.dirty(new Cursor(1) {
            @Override
            public long flush(Runnable ended) {
                throw new IllegalStateException("injected");
            }
        });
        passes.dirty(new Cursor(1) {
            @Override
            public long flush(Runnable ended) {
                return NOTHING;
            }
        });
        passes.dirty(good);
        timers.advance(1);
        holding.end();
        timers.advance(INTERVAL_MILLIS);
        assertEquals(flushed, List.of(holding, good));
        good.end();
        assertEquals(passes.passes(), 2);
    }

    private class Cursor implements FlushPasses.Dirty {
        private final double rate;
        private long bytes;
        private Runnable ended;

        Cursor(double rate) {
            this.rate = rate;
        }

        @Override
        public long flush(Runnable whenEnded) {
            flushed.add(this);
            ended = whenEnded;
            return bytes;
        }

        @Override
        public double permittedRate() {
            return rate;
        }

        Cursor writing(long size) {
            bytes = size;
            return this;
        }

        void end() {
            ended.run();
        }
    }

    /** Runs a task when the test's clock reaches its time, on the thread that moves the clock. */
    private static final class Timers extends ScheduledThreadPoolExecutor {
        private final List<Timer> waiting = new ArrayList<>();
        private long nowNanos = 1_000_000_000_000L;

        Timers() {
            super(1, Executors.defaultThreadFactory());
        }

        @Override
        public ScheduledFuture<?> schedule(Runnable task, long delay, TimeUnit unit) {
            Timer timer = new Timer(task, nowNanos + unit.toNanos(delay));
            waiting.add(timer);
            return timer;
        }

        @Override
        public void execute(Runnable task) {
            waiting.add(new Timer(task, nowNanos));
        }

        void advance(long millis) {
            nowNanos += TimeUnit.MILLISECONDS.toNanos(millis);
            while (true) {
                Timer due = waiting.stream().filter(timer -> timer.atNanos <= nowNanos).findFirst().orElse(null);
                if (due == null) {
                    return;
                }
                waiting.remove(due);
                if (!due.cancelled) {
                    due.task.run();
                }
            }
        }
    }

    private static final class Timer implements ScheduledFuture<Object> {
        private final Runnable task;
        private final long atNanos;
        private boolean cancelled;

        Timer(Runnable task, long atNanos) {
            this.task = task;
            this.atNanos = atNanos;
        }

        @Override
        public long getDelay(TimeUnit unit) {
            throw new UnsupportedOperationException();
        }

        @Override
        public int compareTo(Delayed other) {
            throw new UnsupportedOperationException();
        }

        @Override
        public boolean equals(Object other) {
            return this == other;
        }

        @Override
        public int hashCode() {
            return System.identityHashCode(this);
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            cancelled = true;
            return true;
        }

        @Override
        public boolean isCancelled() {
            return cancelled;
        }

        @Override
        public boolean isDone() {
            return cancelled;
        }

        @Override
        public Object get() {
            throw new UnsupportedOperationException();
        }

        @Override
        public Object get(long timeout, TimeUnit unit) {
            throw new UnsupportedOperationException();
        }
    }
}
