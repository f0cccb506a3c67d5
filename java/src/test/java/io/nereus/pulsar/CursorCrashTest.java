package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import io.nereus.pulsar.bridge.CursorUpdate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.testng.annotations.Test;

/** What is left of a cursor when its process is killed, its stream is taken away, or its topic is unloaded. */
public class CursorCrashTest extends CursorFixture {

    private static <T> T await(CompletableFuture<T> future) throws Exception {
        return future.get(SECONDS, TimeUnit.SECONDS);
    }

    private static Position batch(Position position, long... unacked) {
        return AckSetStateUtil.createPositionWithAckSet(position.getLedgerId(), position.getEntryId(), unacked);
    }

    @Test
    public void l15_anAnsweredMarkDeleteSurvivesAKillWhateverTheRate_case_007() throws Exception {
        config.setThrottleMarkDelete(1);
        ledger.setConfig(config);
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(20);
        for (int round = 0; round < 4; round++) {
            cursor.markDelete(positions.get(2 * round));
            cursor.markDelete(positions.get(2 * round + 1));
            crash();
            cursor = earliest("sub");
            assertEquals(cursor.getMarkDeletedPosition(), positions.get(2 * round + 1), "round " + round);
        }
    }

    @Test
    public void l15_theLastAcksBeforeTheTrafficStopsSurviveAKill_case_027() throws Exception {
        config.setThrottleMarkDelete(0.1);
        ledger.setConfig(config);
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(30);
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            answers.add(deleteLater(cursor, List.of(positions.get(3 * i))));
        }
        for (CompletableFuture<Void> answer : answers) {
            await(answer); // no later traffic drives them, no flush period is waited for
        }
        crash();
        cursor = earliest("sub");
        for (int i = 0; i < 30; i++) {
            assertEquals(cursor.isMessageDeleted(positions.get(i)), i % 3 == 0, "entry " + i);
        }
    }

    @Test
    public void l15_aPartlyAckedBatchAloneSurvivesAKill_case_021() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(3);
        cursor.markDelete(positions.get(0));
        cursor.delete(batch(positions.get(1), 0b1110));
        crash();
        cursor = earliest("sub");
        assertEquals(cursor.getMarkDeletedPosition(), positions.get(0));
        assertEquals(cursor.getDeletedBatchIndexesAsLongArray(positions.get(1)), new long[] {0b1110});
    }

    @Test
    public void l15_batchIndexesSurviveAKillAndAnOpenWithoutTheFeature_case_009() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(3);
        long[] wide = {-1, -1, 0b1};
        cursor.delete(batch(positions.get(0), 0b1100));
        cursor.delete(batch(positions.get(1), wide));
        crash();
        cursor = earliest("sub");
        assertEquals(cursor.getBatchPositionAckSet(positions.get(0)), new long[] {0b1100});
        assertEquals(cursor.getBatchPositionAckSet(positions.get(1)), wide);
        config.setDeletionAtBatchIndexLevelEnabled(false);
        reopen();
        cursor = earliest("sub");
        assertNull(cursor.getDeletedBatchIndexesAsLongArray(positions.get(0)), "the feature is off");
        assertEquals(read(cursor, 10), messages(0, 3), "nothing is taken for acknowledged that is not");
        cursor.delete(positions.get(2));
        config.setDeletionAtBatchIndexLevelEnabled(true);
        crash();
        cursor = earliest("sub");
        assertEquals(cursor.getBatchPositionAckSet(positions.get(0)), new long[] {0b1100}, "and it was not forgotten");
        assertTrue(cursor.isMessageDeleted(positions.get(2)));
    }

    @Test
    public void whatComesAfterAResetOrCreationAtLatestIsDeliveredAfterAKill_case_010() throws Exception {
        ManagedCursor created = latest("created");
        ManagedCursor reset = earliest("reset");
        ManagedCursor placed = earliest("placed");
        List<Position> positions = add(3);
        await(resetLater(reset, PositionFactory.LATEST, false));
        placed.markDelete(positions.get(2));
        await(resetLater(placed, positions.get(1), false));
        add(1);
        crash();
        assertEquals(read(latest("created"), 10), messages(0, 4));
        assertEquals(read(earliest("reset"), 10), messages(3, 4));
        assertEquals(read(earliest("placed"), 10), messages(1, 4));
        assertFalse(created.equals(reset));
    }

    @Test
    public void theFirstOperationAfterAReopenIsKept_case_085() throws Exception {
        earliest("reset").markDelete(add(10).get(5));
        earliest("ack");
        crash();
        await(resetLater(earliest("reset"), ledger.position(2), false));
        crash();
        earliest("ack").delete(ledger.position(4));
        crash();
        assertEquals(read(earliest("reset"), 20), messages(2, 10));
        assertBacklog(earliest("ack"), 9);
        assertTrue(earliest("ack").isMessageDeleted(ledger.position(4)));
    }

    @Test
    public void aStoredPlaceThatIsTrimmedByNowIsTheFirstEntryThere_case_083() throws Exception {
        earliest("behind");
        add(10);
        ledger.stream().persistCursor(new CursorUpdate("inside", true, true, 2, Map.of(), Map.of(), List.of()))
            .get(SECONDS, TimeUnit.SECONDS);
        await(ledger.trimTo(6));
        crash();
        for (String cursor : List.of("behind", "inside")) {
            assertBacklog(earliest(cursor), 4);
            assertEquals(earliest(cursor).getMarkDeletedPosition(), ledger.position(5));
            assertEquals(read(earliest(cursor), 20), messages(6, 10));
        }
        earliest("inside").markDelete(ledger.position(7));
        crash();
        assertEquals(read(earliest("inside"), 20), messages(8, 10));
    }

    @Test
    public void acksWhileTheTopicIsUnloadedAreEachAnsweredAndTheGoodOnesKept_case_087() throws Exception {
        for (int round = 0; round < 5; round++) {
            ManagedCursor cursor = earliest("sub" + round);
            List<Position> positions = add(200);
            List<Position> kept = Collections.synchronizedList(new ArrayList<>());
            List<CompletableFuture<Void>> answers = Collections.synchronizedList(new ArrayList<>());
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < 4; t++) {
                int first = t;
                threads.add(new Thread(() -> {
                    for (int i = first; i < 200; i += 4) {
                        Position position = positions.get(i);
                        answers.add(deleteLater(cursor, List.of(position)).thenRun(() -> kept.add(position)));
                    }
                }));
            }
            threads.forEach(Thread::start);
            CompletableFuture<Void> closed = new CompletableFuture<>();
            ledger.asyncClose(Callbacks.closed(closed), null);
            for (Thread thread : threads) {
                thread.join();
            }
            await(closed);
            for (CompletableFuture<Void> answer : answers) {
                try {
                    await(answer);
                } catch (ExecutionException e) {
                    assertTrue(e.getCause() instanceof ManagedLedgerException, "got " + e.getCause());
                } catch (TimeoutException e) {
                    throw new AssertionError("an acknowledgement during an unload was never answered", e);
                }
            }
            ledger = fixture.ledger(name, config);
            ManagedCursor again = earliest("sub" + round);
            for (Position position : kept) {
                assertTrue(again.isMessageDeleted(position), "round " + round + ": " + position + " was answered");
            }
            again.clearBacklog();
        }
    }

    @Test
    public void l15_aCloseThatCannotKeepTheAcksFails_case_029() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(3);
        cursor.delete(positions.get(1));
        await(ledger.stream().close()); // nothing of this ledger can be written any more
        CompletableFuture<Void> lost = deleteLater(cursor, List.of(positions.get(2)));
        assertTrue(expectThrows(ExecutionException.class, () -> await(lost)).getCause()
            instanceof ManagedLedgerException);
        expectThrows(ManagedLedgerException.class, cursor::close);
        expectThrows(ManagedLedgerException.class, cursor::close);
        CompletableFuture<Void> closed = new CompletableFuture<>();
        ledger.asyncClose(Callbacks.closed(closed), null);
        expectThrows(ExecutionException.class, () -> await(closed));
        ledger = fixture.ledger(name, config);
        assertTrue(earliest("sub").isMessageDeleted(positions.get(1)));
        assertFalse(earliest("sub").isMessageDeleted(positions.get(2)), "it was refused, and not kept behind our back");
    }

    @Test
    public void l05_aPersistThatIsRefusedAsFencedFencesTheLedger() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(3);
        NereusManagedLedgerFactory other = fixture.secondFactory();
        try {
            NereusManagedLedger taken = (NereusManagedLedger) other.open(name, config);
            CompletableFuture<Void> refused = deleteLater(cursor, List.of(positions.get(1)));
            assertTrue(expectThrows(ExecutionException.class, () -> await(refused)).getCause()
                instanceof ManagedLedgerFencedException);
            assertEquals(ledger.state(), LedgerState.FENCED, "before anything was appended");
            ManagedCursor theirs = taken.openCursor("sub");
            theirs.delete(positions.get(2));
            assertBacklog(theirs, 2);
        } finally {
            other.shutdown();
        }
    }

    @Test
    public void acksOfManyCursorsShareThePassesOfTheFactory() throws Exception {
        List<ManagedCursor> cursors = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            cursors.add(earliest("sub" + i));
        }
        List<Position> positions = add(20);
        FactoryStats stats = fixture.factory().getCacheStats();
        long passes = stats.ackFlushPasses();
        long persists = stats.ackFlushPersists();
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        for (ManagedCursor cursor : cursors) { // the first of each goes alone, what comes meanwhile goes with a pass
            for (Position position : positions) {
                answers.add(markDeleteLater(cursor, position, Map.of()));
            }
        }
        for (CompletableFuture<Void> answer : answers) {
            await(answer);
        }
        long passed = stats.ackFlushPasses() - passes;
        assertTrue(passed >= 1 && passed * 20 < answers.size(), passed + " passes for " + answers.size() + " acks");
        assertTrue(stats.ackFlushPersists() > persists, "persists of passes are counted");
        long written = cursors.stream().mapToLong(cursor -> cursor.getStats().getPersistLedgerSucceed()).sum();
        assertTrue(written >= cursors.size() && written * 4 <= answers.size(),
            written + " persists for " + answers.size() + " acks");
        assertTrue(stats.ackFlushBoundMillis() >= 50, "the bound in force is shown");
        crash();
        for (int i = 0; i < 200; i++) {
            assertBacklog(earliest("sub" + i), 0);
        }
    }
}
