package io.nereus.pulsar.cursor;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertTrue;

import io.nereus.pulsar.bridge.AckPage;
import io.nereus.pulsar.bridge.CursorUpdate;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.NativeException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ResetCursorCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ConcurrentFindCursorPositionException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.InvalidCursorPositionException;
import org.awaitility.Awaitility;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** What a cursor promises about durability, with an engine whose writes end when the test says so. */
public class DurableKeeperTest {

    private FakeLedger ledger;
    private CursorProgress progress;
    private DurableKeeper keeper;
    private final ArrayDeque<PendingWrite> writes = new ArrayDeque<>();
    private final List<String> log = new ArrayList<>();
    private Disk disk;

    @BeforeMethod
    public void setUp() {
        writes.clear();
        log.clear();
        disk = new Disk();
        ledger = new FakeLedger(1000);
        progress = new CursorProgress(ledger, new AckState(0));
        keeper = keeper(new FlushPasses(ledger.scheduler(), 0, System::nanoTime));
    }

    private DurableKeeper keeper(FlushPasses passes) {
        return new DurableKeeper("sub", ledger, progress, Map.of(), Map.of(), update -> {
            PendingWrite write = new PendingWrite(update);
            writes.add(write);
            return write.future;
        }, new CursorStats(null), (before, now) -> log.add("moved " + before + " to " + now), passes, () -> 1);
    }

    @AfterMethod
    public void tearDown() {
        ledger.close();
    }

    private void ack(long offset) {
        progress.ack(List.of(new CursorProgress.Ack(offset, null)));
        keeper.whenKept(logged("ack " + offset));
    }

    private void markDelete(long end, Map<String, Long> properties) {
        assertEquals(keeper.markDelete(end, null, properties), CursorProgress.MarkDelete.DONE);
        keeper.whenKept(logged("mark-delete " + end));
    }

    private CursorKeeper.Completion logged(String what) {
        return new CursorKeeper.Completion() {
            @Override
            public void done() {
                log.add(what);
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                log.add(what + " failed");
            }
        };
    }

    private void succeed() {
        PendingWrite write = writes.remove();
        disk.apply(write.update);
        write.future.complete(null);
        ledger.drain();
    }

    private void fail(int code) {
        writes.remove().future.completeExceptionally(new NativeException(code, "injected"));
        ledger.drain();
    }

    @Test
    public void l15_acksAreAnsweredAfterTheyAreDurableAndTravelTogether_case_007() {
        ack(3);
        for (int offset = 5; offset < 100; offset += 2) {
            ack(offset);
        }
        ledger.drain();
        assertEquals(writes.size(), 1, "one write under way");
        assertEquals(log, List.of());
        succeed();
        assertEquals(log, List.of("ack 3"));
        assertEquals(writes.size(), 1, "everything that came meanwhile goes with the next write");
        succeed();
        assertEquals(log.size(), 49);
        assertEquals(log.get(48), "ack 99");
        assertEquals(writes.size(), 0);
        assertTrue(disk.recover().isAcked(99));
        assertFalse(disk.recover().isAcked(4));
    }

    @Test
    public void anAckThatChangesNothingWaitsForTheOneThatDid() {
        ack(3);
        ack(3);
        ledger.drain();
        assertEquals(log, List.of());
        succeed();
        assertEquals(log, List.of("ack 3", "ack 3"));
        assertEquals(writes.size(), 0);
    }

    @Test
    public void anAckOfNothingNewIsAnsweredWithoutAWrite() {
        markDelete(0, null);
        ledger.drain();
        assertEquals(log, List.of("mark-delete 0"));
        assertEquals(writes.size(), 0);
    }

    @Test
    public void theKeptMarkDeleteMovesOnlyAfterTheWrite() {
        markDelete(10, null);
        ledger.drain();
        assertEquals(progress.markDeleteEnd(), 10);
        assertEquals(keeper.keptMarkDeleteEnd(), 0);
        succeed();
        assertEquals(keeper.keptMarkDeleteEnd(), 10);
        assertEquals(log, List.of("moved 0 to 10", "mark-delete 10"));
    }

    @Test
    public void aFailedWriteIsReportedAndItsContentGoesWithTheNext_case_031() {
        ack(3);
        fail(NativeErrors.IO);
        assertEquals(log, List.of("ack 3 failed"));
        ack(5);
        succeed();
        assertTrue(disk.recover().isAcked(3), "what failed before is written too");
        assertTrue(disk.recover().isAcked(5));
        assertEquals(log, List.of("ack 3 failed", "ack 5"));
        for (int i = 0; i < 1000; i++) {
            ack(100 + (i & 63));
        }
        while (!writes.isEmpty()) {
            succeed();
        }
        ledger.drain();
        assertEquals(log.size(), 1002, "every callback came");
    }

    @Test
    public void l15_aFailedWriteIsTriedAgainWithoutAnotherAck_case_030() {
        ack(3);
        fail(NativeErrors.UNAVAILABLE);
        Awaitility.await("the second try").atMost(20, TimeUnit.SECONDS).until(() -> {
            ledger.drain();
            return !writes.isEmpty();
        });
        succeed();
        assertTrue(disk.recover().isAcked(3));
        assertEquals(log, List.of("ack 3 failed"));
    }

    /** A flush, as a close makes one, does not wait for the pass that holds up others. */
    @Test
    public void l15_aFlushEndsWellOnlyWhenEverythingIsDurable_case_029() {
        ack(3);
        ack(5);
        keeper.flush(logged("flush"));
        fail(NativeErrors.IO);
        assertEquals(log, List.of("ack 3 failed"), "the rest goes with the next write");
        fail(NativeErrors.IO);
        assertEquals(log, List.of("ack 3 failed", "ack 5 failed", "flush failed"));
        keeper.flush(logged("second flush"));
        succeed();
        assertEquals(log.get(3), "second flush");
        assertTrue(disk.recover().isAcked(3));
        assertTrue(disk.recover().isAcked(5));
        keeper.flush(logged("third flush"));
        ledger.drain();
        assertEquals(log.get(4), "third flush", "nothing to write, nothing to wait for");
        assertEquals(writes.size(), 0);
    }

    /** Passes of which one is under way and does not end. */
    private FlushPasses busyPasses() {
        FlushPasses busy = new FlushPasses(ledger.scheduler(), 60_000, System::nanoTime);
        busy.dirty(new FlushPasses.Dirty() {
            @Override
            public long flush(Runnable ended) {
                return 0;
            }

            @Override
            public double permittedRate() {
                return 1;
            }
        });
        return busy;
    }

    @Test
    public void aFlushDoesNotWaitForThePass() {
        keeper = keeper(busyPasses());
        ack(3);
        ack(5);
        ack(7);
        succeed();
        assertEquals(writes.size(), 0, "the pass under way is waited for");
        keeper.flush(logged("flush"));
        assertEquals(writes.size(), 1);
        succeed();
        assertEquals(log, List.of("ack 3", "ack 5", "ack 7", "flush"));
    }

    @Test
    public void aCallerThatWaitsForEachAnswerMeetsNoPassHoweverBusyTheyAre() {
        keeper = keeper(busyPasses());
        for (int offset = 3; offset < 100; offset += 2) {
            ack(offset);
            assertEquals(writes.size(), 1, "written at once");
            succeed();
            assertEquals(log.get(log.size() - 1), "ack " + offset);
        }
        ack(101);
        ack(103);
        succeed();
        assertEquals(writes.size(), 1, "two callers that take turns wait for each other only");
        ack(105);
        succeed();
        assertEquals(writes.size(), 1);
    }

    @Test
    public void callersThatDoNotWaitForEachOtherGoWithThePasses() {
        keeper = keeper(busyPasses());
        ack(9);
        ack(11);
        ack(13);
        succeed();
        assertEquals(writes.size(), 0, "several wait: waiting for the pass brings more of them together");
        keeper.flush(logged("flush"));
        succeed();
        ack(15);
        assertEquals(writes.size(), 0, "and so it did last time: one of them alone waits too");
        keeper.flush(logged("flush"));
        succeed();
        assertEquals(log.get(log.size() - 2), "ack 15");
    }

    @Test
    public void aFencedCursorDoesNotTryAgain() throws InterruptedException {
        ack(3);
        fail(NativeErrors.FENCED);
        ledger.scheduler().schedule(() -> { }, 300, TimeUnit.MILLISECONDS);
        ledger.scheduler().shutdown();
        assertTrue(ledger.scheduler().awaitTermination(20, TimeUnit.SECONDS));
        ledger.drain();
        assertEquals(writes.size(), 0);
    }

    @Test
    public void propertiesTravelAndShowWithTheirPosition_case_091() {
        markDelete(10, Map.of("a", 1L));
        ledger.drain();
        assertEquals(keeper.positionProperties(), Map.of(), "not visible before they are durable");
        succeed();
        assertEquals(keeper.positionProperties(), Map.of("a", 1L));
        markDelete(20, Map.of("a", 2L));
        fail(NativeErrors.IO);
        assertEquals(keeper.positionProperties(), Map.of("a", 1L), "the old ones stay until the new ones are durable");
        ack(30);
        succeed();
        assertEquals(keeper.positionProperties(), Map.of("a", 2L));
        assertEquals(disk.positionProperties, Map.of("a", 2L));
        assertEquals(disk.markDeleteEnd, 20);
    }

    @Test
    public void anEditOfPositionPropertiesShowsAtOnceAndIsWritten() {
        keeper.editPositionProperties(map -> {
            map.put("k", 1L);
            return map;
        });
        assertEquals(keeper.positionProperties(), Map.of("k", 1L));
        succeed();
        assertEquals(disk.positionProperties, Map.of("k", 1L));
        markDelete(5, Map.of("m", 1L));
        keeper.editPositionProperties(map -> {
            map.put("n", 1L);
            return map;
        });
        succeed();
        assertEquals(keeper.positionProperties(), Map.of("m", 1L, "n", 1L));
        succeed();
        assertEquals(disk.positionProperties, Map.of("m", 1L, "n", 1L));
    }

    @Test
    public void concurrentEditsOfCursorPropertiesAllStand_case_115() throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 16; t++) {
            String key = "k" + t;
            int end = t + 1;
            threads.add(new Thread(() -> {
                keeper.editCursorProperties(map -> {
                    map.put(key, "v");
                    return map;
                }, logged(key));
                keeper.markDelete(end, null, null);
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        while (!writes.isEmpty()) {
            succeed();
        }
        assertEquals(disk.cursorProperties.size(), 16);
        assertEquals(keeper.cursorProperties(), disk.cursorProperties);
        assertEquals(log.stream().filter(line -> line.startsWith("k")).count(), 16);
    }

    @Test
    public void anEditOfCursorPropertiesThatFailsIsUndoneLaterOnesStand() {
        keeper.editCursorProperties(map -> {
            map.put("a", "1");
            return map;
        }, logged("a"));
        keeper.editCursorProperties(map -> {
            map.put("b", "1");
            return map;
        }, logged("b"));
        fail(NativeErrors.IO);
        succeed();
        assertEquals(log, List.of("a failed", "b"));
        assertEquals(keeper.cursorProperties(), Map.of("b", "1"));
        assertEquals(disk.cursorProperties, Map.of("b", "1"));
    }

    @Test
    public void aStoppedKeeperFailsWhatWaitsAndLetsTheWriteEnd_case_087() {
        ack(3);
        ack(5);
        keeper.stop(new CursorAlreadyClosedException("closed"));
        ack(7);
        ledger.drain();
        assertEquals(log, List.of("ack 5 failed", "ack 7 failed"));
        succeed();
        assertEquals(log, List.of("ack 5 failed", "ack 7 failed", "ack 3"));
        assertEquals(writes.size(), 0);
        keeper.resume();
        succeed();
        assertTrue(disk.recover().isAcked(7), "what was acknowledged is written when it goes on");
    }

    @Test
    public void aResetReplacesEverythingInOneWriteAndTheEntryThereComesAgain_case_010() {
        ack(50);
        succeed();
        markDelete(40, Map.of("p", 1L));
        succeed();
        log.clear();
        reset(20, null);
        assertEquals(progress.markDeleteEnd(), 40, "nothing moves before it is durable");
        assertEquals(keeper.markDelete(45, null, null), CursorProgress.MarkDelete.RESETTING);
        assertTrue(writes.peek().update.full());
        succeed();
        assertEquals(log, List.of("moved 40 to 20", "reset to 20"));
        assertEquals(progress.markDeleteEnd(), 20);
        assertEquals(progress.readOffset(), 20);
        assertFalse(progress.isAcked(50));
        assertEquals(disk.recover().markDeleteEnd(), 20);
        assertFalse(disk.recover().isAcked(50));
        assertEquals(disk.positionProperties, Map.of());
    }

    @Test
    public void aResetIntoABatchKeepsTheMessagesBeforeItAcknowledged() {
        reset(20, new long[] {0b1100});
        succeed();
        assertEquals(progress.unackedIndexes(20), new long[] {0b1100});
        assertEquals(disk.recover().unackedIndexes(20), new long[] {0b1100});
    }

    @Test
    public void aResetThatFailsChangesNothing() {
        markDelete(40, Map.of("p", 1L));
        succeed();
        log.clear();
        reset(20, null);
        fail(NativeErrors.IO);
        assertEquals(log, List.of("reset to 20 failed InvalidCursorPositionException"));
        assertEquals(progress.markDeleteEnd(), 40);
        assertEquals(keeper.positionProperties(), Map.of("p", 1L));
        markDelete(41, Map.of("p", 2L));
        succeed();
        assertEquals(disk.markDeleteEnd, 41);
    }

    @Test
    public void aResetBehindAWriteUnderWayAnswersWhatWaited() {
        ack(3);
        ack(5);
        reset(20, null);
        succeed();
        assertTrue(writes.peek().update.full(), "the reset goes before what waits");
        succeed();
        assertEquals(log, List.of("ack 3", "moved 0 to 20", "reset to 20", "ack 5"));
        assertEquals(writes.size(), 0);
    }

    @Test
    public void aSecondResetIsRefused() {
        reset(20, null);
        reset(30, null);
        ledger.drain();
        assertEquals(log, List.of("reset to 30 failed ConcurrentFindCursorPositionException"));
        succeed();
        assertEquals(progress.readOffset(), 20);
    }

    private void reset(long offset, long[] unacked) {
        ResetOp.start(ledger, progress, keeper, offset, unacked, ResetOp.Kept.NOTHING, () -> { }, new ResetCursorCallback() {
            @Override
            public void resetComplete(Object ctx) {
                log.add("reset to " + offset);
            }

            @Override
            public void resetFailed(ManagedLedgerException exception, Object ctx) {
                assertTrue(exception instanceof InvalidCursorPositionException
                    || exception instanceof ConcurrentFindCursorPositionException);
                log.add("reset to " + offset + " failed " + exception.getClass().getSimpleName());
            }
        });
    }

    /** Random acks, resets and failures: what was answered as kept is on disk, at every moment. */
    @Test
    public void l15_whatWasAnsweredIsOnDisk_case_043() {
        for (int seed = 0; seed < 30; seed++) {
            tearDown();
            setUp();
            Random random = new Random(seed);
            TreeMap<Long, Boolean> promised = new TreeMap<>();
            for (int step = 0; step < 400; step++) {
                switch (random.nextInt(8)) {
                    case 0 -> {
                        long end = random.nextInt(1000);
                        if (keeper.markDelete(end, null, null) == CursorProgress.MarkDelete.DONE) {
                            keeper.whenKept(promise(promised, 0, end));
                        }
                    }
                    case 1, 2 -> {
                        if (!writes.isEmpty()) {
                            succeed();
                        }
                    }
                    case 3 -> {
                        if (!writes.isEmpty()) {
                            fail(NativeErrors.CLOSED); // not retried by itself, so the run depends on the seed only
                        }
                    }
                    default -> {
                        long offset = random.nextInt(1000);
                        progress.ack(List.of(new CursorProgress.Ack(offset, null)));
                        keeper.whenKept(promise(promised, offset, offset + 1));
                    }
                }
                ledger.drain();
                AckState onDisk = disk.recover();
                for (long offset : promised.keySet()) {
                    assertTrue(onDisk.isAcked(offset), "seed " + seed + ": " + offset + " was promised");
                }
            }
        }
    }

    private static CursorKeeper.Completion promise(Map<Long, Boolean> promised, long from, long to) {
        return new CursorKeeper.Completion() {
            @Override
            public void done() {
                for (long offset = from; offset < to; offset++) {
                    promised.put(offset, true);
                }
            }

            @Override
            public void failed(ManagedLedgerException exception) {
                // nothing was promised
            }
        };
    }

    private static final class PendingWrite {
        private final CursorUpdate update;
        private final CompletableFuture<Void> future = new CompletableFuture<>();

        PendingWrite(CursorUpdate update) {
            this.update = update;
        }
    }

    /** What the engine would have after a crash. */
    private static final class Disk {
        private final TreeMap<Long, AckPage> pages = new TreeMap<>();
        private long markDeleteEnd;
        private Map<String, Long> positionProperties = new HashMap<>();
        private Map<String, String> cursorProperties = new HashMap<>();

        void apply(CursorUpdate update) {
            if (update.full()) {
                pages.clear();
            }
            markDeleteEnd = update.markDeleteEnd();
            for (AckPage page : update.pages()) {
                if (page.acked().length == 0 && page.batches().isEmpty()) {
                    pages.remove(page.pageNo());
                } else {
                    pages.put(page.pageNo(), page);
                }
            }
            pages.headMap(AckedPage.pageOf(markDeleteEnd)).clear();
            if (update.positionProperties() != null) {
                positionProperties = update.positionProperties();
            }
            if (update.cursorProperties() != null) {
                cursorProperties = update.cursorProperties();
            }
        }

        AckState recover() {
            return AckState.recovered(markDeleteEnd, new ArrayList<>(pages.values()));
        }
    }
}
