package io.nereus.pulsar.cursor;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNotNull;
import static org.testng.Assert.assertTrue;

import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ConcurrentWaitCallbackException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.NoMoreEntriesToReadException;
import org.awaitility.Awaitility;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** The one read that may wait. */
public class WaitingReadTest {

    private FakeLedger ledger;
    private CursorProgress progress;
    private WaitingRead waiting;
    private final AtomicBoolean registered = new AtomicBoolean();

    @BeforeMethod
    public void setUp() {
        registered.set(false);
        ledger = new FakeLedger(5);
        progress = new CursorProgress(ledger, new AckState(5));
        waiting = new WaitingRead(ledger, progress, () -> registered.set(true), () -> registered.set(false),
            request -> ReadOp.start(ledger, progress, request, () -> { }), () -> 10);
    }

    @AfterMethod
    public void tearDown() {
        ledger.close();
    }

    private RecordedRead readOrWait() {
        RecordedRead read = new RecordedRead();
        waiting.readOrWait(read.request(10));
        return read;
    }

    private void add(int entries) {
        ledger.end += entries;
        if (registered.getAndSet(false)) {
            waiting.notifyEntriesAvailable();
        }
    }

    @Test
    public void aReadWithEntriesDoesNotWait() {
        ledger.end = 7;
        RecordedRead read = readOrWait();
        ledger.drain();
        assertEquals(read.offsets(), List.of(5L, 6L));
        assertFalse(registered.get());
    }

    @Test
    public void aWaitEndsWithTheEntryThatComes() {
        RecordedRead read = readOrWait();
        ledger.drain();
        assertEquals(read.calls, 0);
        assertTrue(registered.get());
        add(1);
        ledger.drain();
        assertEquals(read.offsets(), List.of(5L));
        assertFalse(waiting.isWaiting());
    }

    @Test
    public void anEntryBetweenCheckAndRegistrationIsSeen_case_017() {
        waiting = new WaitingRead(ledger, progress, () -> ledger.end++, () -> { },
            request -> ReadOp.start(ledger, progress, request, () -> { }), () -> 10);
        RecordedRead read = readOrWait();
        ledger.drain();
        assertEquals(read.offsets(), List.of(5L));
    }

    @Test
    public void anEntryBetweenNotificationAndNewRegistrationIsSeen_case_017() {
        AtomicInteger registrations = new AtomicInteger();
        waiting = new WaitingRead(ledger, progress, () -> {
            if (registrations.incrementAndGet() == 2) {
                ledger.end++;
            }
        }, () -> { }, request -> ReadOp.start(ledger, progress, request, () -> { }), () -> 10);
        RecordedRead read = readOrWait();
        waiting.notifyEntriesAvailable(); // and there is nothing to read
        ledger.drain();
        assertEquals(registrations.get(), 2);
        assertEquals(read.offsets(), List.of(5L));
    }

    @Test
    public void aSecondWaitIsRefused() {
        readOrWait();
        RecordedRead second = readOrWait();
        ledger.drain();
        assertTrue(second.failure instanceof ConcurrentWaitCallbackException, "got " + second.failure);
    }

    @Test
    public void aCancelledWaitIsNeverCalledBack() {
        RecordedRead read = readOrWait();
        assertTrue(waiting.cancel());
        assertFalse(waiting.cancel(), "nothing waits any more");
        add(1);
        ledger.drain();
        assertEquals(read.calls, 0);
        RecordedRead next = readOrWait();
        ledger.drain();
        assertEquals(next.offsets(), List.of(5L));
    }

    @Test
    public void cancelAfterTheNotificationIsTooLate() {
        RecordedRead read = readOrWait();
        add(1);
        assertFalse(waiting.cancel(), "the notification has taken the wait");
        ledger.drain();
        assertEquals(read.calls, 1);
    }

    @Test
    public void aWaitOutlivesANotificationWithoutAnythingToRead() {
        RecordedRead read = readOrWait();
        ledger.end = 6;
        progress.ack(List.of(new CursorProgress.Ack(5, null)));
        add(0);
        ledger.drain();
        assertEquals(read.calls, 0);
        assertTrue(registered.get(), "it is registered again");
        add(1);
        ledger.drain();
        assertEquals(read.offsets(), List.of(6L));
    }

    @Test
    public void closeFailsTheWaitAndEveryLaterOne() {
        RecordedRead read = readOrWait();
        waiting.close();
        RecordedRead late = readOrWait();
        ledger.drain();
        assertTrue(read.failure instanceof CursorAlreadyClosedException, "got " + read.failure);
        assertTrue(late.failure instanceof CursorAlreadyClosedException, "got " + late.failure);
        assertEquals(read.calls, 1);
        assertFalse(registered.get());
    }

    @Test
    public void aWaitOnATerminatedLedgerEndsWithNoMoreEntries_case_012() {
        RecordedRead before = readOrWait();
        ledger.terminated = true;
        add(0);
        RecordedRead after = readOrWait();
        ledger.drain();
        assertTrue(before.failure instanceof NoMoreEntriesToReadException, "got " + before.failure);
        assertTrue(after.failure instanceof NoMoreEntriesToReadException, "got " + after.failure);
        assertEquals(before.calls + after.calls, 2);
    }

    @Test
    public void aWaitOnAClosedLedgerFails() {
        RecordedRead read = readOrWait();
        ledger.closed = true;
        add(0);
        ledger.drain();
        assertTrue(read.failure instanceof CursorAlreadyClosedException, "got " + read.failure);
    }

    @Test
    public void aCallerWithAnOldLimitIsToldToLookAgain() {
        ledger.end = 8;
        RecordedRead read = new RecordedRead();
        waiting.readOrWait(read.request(10, Long.MAX_VALUE, 5, null));
        assertEquals(read.calls, 0, "not at once, or the caller would spin");
        Awaitility.await("the empty answer").atMost(10, TimeUnit.SECONDS).until(() -> {
            ledger.drain();
            return read.calls == 1;
        });
        assertEquals(read.entries, List.of());
        assertEquals(progress.readOffset(), 5);
    }

    @Test
    public void anEntryPastTheLimitOfAWaitEndsItEmpty() {
        RecordedRead read = new RecordedRead();
        waiting.readOrWait(read.request(10, Long.MAX_VALUE, 5, null));
        add(1);
        ledger.drain();
        assertEquals(read.entries, List.of(), "the caller has to come with a newer limit");
    }

    @Test
    public void aRewindWakesTheWait() {
        progress = new CursorProgress(ledger, new AckState(2));
        progress.seek(5);
        setUpWaitingOn(progress);
        RecordedRead read = readOrWait();
        ledger.drain();
        progress.rewind();
        waiting.lookAgain();
        ledger.drain();
        assertEquals(read.offsets(), List.of(2L, 3L, 4L));
    }

    private void setUpWaitingOn(CursorProgress other) {
        waiting = new WaitingRead(ledger, other, () -> registered.set(true), () -> registered.set(false),
            request -> ReadOp.start(ledger, other, request, () -> { }), () -> 10);
    }

    /** Entries, cancels and rewinds race with waits; every wait ends once and none is forgotten. */
    @Test(timeOut = 120_000)
    public void everyWaitEndsExactlyOnce_case_017() throws Exception {
        ScheduledExecutorService executor = Executors.newSingleThreadScheduledExecutor();
        RacingLedger racing = new RacingLedger(ledger, executor);
        CursorProgress raced = new CursorProgress(racing, new AckState(0));
        ledger.end = 0;
        AtomicBoolean isRegistered = new AtomicBoolean();
        WaitingRead wait = new WaitingRead(racing, raced, () -> isRegistered.set(true), () -> isRegistered.set(false),
            request -> ReadOp.start(racing, raced, request, () -> { }), () -> 0);
        Runnable commit = () -> executor.execute(() -> {
            racing.end++;
            if (isRegistered.getAndSet(false)) {
                wait.notifyEntriesAvailable();
            }
        });
        AtomicInteger cancelled = new AtomicInteger();
        CountDownLatch stop = new CountDownLatch(1);
        Thread disturber = new Thread(() -> {
            Random random = new Random(17);
            while (stop.getCount() > 0) {
                switch (random.nextInt(4)) {
                    case 0 -> {
                        raced.rewind();
                        wait.lookAgain();
                    }
                    case 1 -> raced.markDelete(Math.max(0, racing.end - 3), null);
                    default -> commit.run();
                }
                Thread.yield();
            }
        });
        disturber.start();
        try {
            Random random = new Random(18);
            for (int i = 0; i < 100_000; i++) {
                RecordedRead read = new RecordedRead();
                wait.readOrWait(read.request(1 + random.nextInt(5)));
                if (random.nextInt(3) == 0 && wait.cancel()) {
                    cancelled.incrementAndGet();
                    continue;
                }
                long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
                while (read.calls == 0) {
                    assertTrue(System.nanoTime() < deadline, "read " + i + " was forgotten: " + isRegistered.get());
                    Thread.onSpinWait();
                }
                assertEquals(read.calls, 1);
                assertNotNull(read.entries, "read " + i + " failed: " + read.failure);
                read.entries.forEach(Entry::release);
            }
        } finally {
            stop.countDown();
            disturber.join();
            executor.shutdown();
        }
        assertTrue(cancelled.get() > 0, "the race never cancelled anything");
        assertTrue(executor.awaitTermination(30, TimeUnit.SECONDS), "the executor has work left");
        assertFalse(wait.isWaiting());
    }
}
