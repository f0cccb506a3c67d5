package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.CursorAlreadyClosedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.testng.annotations.Test;

/** Acknowledgements of a cursor over a real engine: what they mean, and what is left of them after a restart. */
public class CursorAckTest extends CursorFixture {

    private static Position batch(Position position, long... unacked) {
        return AckSetStateUtil.createPositionWithAckSet(position.getLedgerId(), position.getEntryId(), unacked);
    }

    private static void await(CompletableFuture<?> future) throws Exception {
        future.get(SECONDS, TimeUnit.SECONDS);
    }

    @Test
    public void l15_individualAndCumulativeAcksSurviveReopen() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(10);
        cursor.markDelete(positions.get(2));
        cursor.delete(List.of(positions.get(4), positions.get(6), positions.get(7)));
        assertBacklog(cursor, 4);
        assertEquals(cursor.getPersistentMarkDeletedPosition(), positions.get(2));
        reopen();
        cursor = earliest("sub");
        assertEquals(cursor.getMarkDeletedPosition(), positions.get(2));
        assertEquals(cursor.getReadPosition(), positions.get(3));
        assertBacklog(cursor, 4);
        assertEquals(read(cursor, 100), List.of("m3", "m5", "m8", "m9"));
    }

    @Test
    public void l15_partlyAckedBatchesSurviveReopen_case_009() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(4);
        cursor.delete(batch(positions.get(1), 0b1100));
        long[] wide = new long[3];
        wide[2] = 1L << 5;
        cursor.delete(batch(positions.get(2), wide));
        reopen();
        cursor = earliest("sub");
        assertEquals(cursor.getDeletedBatchIndexesAsLongArray(positions.get(1)), new long[] {0b1100});
        assertEquals(cursor.getBatchPositionAckSet(positions.get(2)), wide);
        assertNull(cursor.getDeletedBatchIndexesAsLongArray(positions.get(0)));
        assertEquals(read(cursor, 10), messages(0, 4), "a batch with messages left is delivered");
        cursor.delete(batch(positions.get(1), 0b0011));
        assertTrue(cursor.isMessageDeleted(positions.get(1)));
    }

    @Test
    public void theLastMessageOfABatchAcknowledgesTheEntry() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(3);
        cursor.delete(batch(positions.get(0), 0b10));
        assertBacklog(cursor, 3);
        cursor.delete(batch(positions.get(0), 0b01));
        assertEquals(cursor.getMarkDeletedPosition(), positions.get(0));
        assertBacklog(cursor, 2);
    }

    @Test
    public void aCumulativeAckIntoABatchAcknowledgesWhatLiesBeforeIt_case_045() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(4);
        cursor.markDelete(batch(positions.get(2), 0b1100));
        assertEquals(cursor.getMarkDeletedPosition(), positions.get(1));
        assertEquals(cursor.getBatchPositionAckSet(positions.get(2)), new long[] {0b1100});
        cursor.markDelete(batch(positions.get(2), 0b1110));
        assertEquals(cursor.getBatchPositionAckSet(positions.get(2)), new long[] {0b1100}, "it never goes back");
        reopen();
        cursor = earliest("sub");
        assertEquals(cursor.getMarkDeletedPosition(), positions.get(1));
        assertEquals(cursor.getBatchPositionAckSet(positions.get(2)), new long[] {0b1100});
    }

    @Test
    public void withoutBatchIndexesAPartialAckIsNotRecorded() throws Exception {
        config.setDeletionAtBatchIndexLevelEnabled(false);
        ledger.setConfig(config);
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(4);
        cursor.delete(batch(positions.get(0), 0b10));
        assertNull(cursor.getBatchPositionAckSet(positions.get(0)));
        cursor.markDelete(batch(positions.get(2), 0b10));
        assertEquals(cursor.getMarkDeletedPosition(), positions.get(1));
        assertNull(cursor.getBatchPositionAckSet(positions.get(2)));
    }

    @Test
    public void l15_noCliffWithAHundredThousandHoles_case_008() throws Exception {
        config.setMaxUnackedRangesToPersist(10);
        ledger.setConfig(config);
        ManagedCursor cursor = earliest("sub");
        int entries = 200_000;
        List<CompletableFuture<Position>> added = new ArrayList<>();
        for (int i = 0; i < entries; i++) {
            CompletableFuture<Position> one = new CompletableFuture<>();
            added.add(one);
            ledger.asyncAddEntry(new byte[] {1}, Callbacks.added(one), null);
        }
        List<CompletableFuture<Void>> acked = new ArrayList<>();
        List<Position> some = new ArrayList<>();
        for (int i = 1; i < entries; i += 2) {
            some.add(added.get(i).get(SECONDS, TimeUnit.SECONDS));
            if (some.size() == 100) {
                acked.add(deleteLater(cursor, List.copyOf(some)));
                some.clear();
            }
        }
        for (CompletableFuture<Void> one : acked) {
            await(one);
        }
        assertEquals(cursor.getTotalNonContiguousDeletedMessagesRange(), entries / 2);
        assertBacklog(cursor, entries / 2);
        reopen();
        cursor = earliest("sub");
        assertEquals(cursor.getTotalNonContiguousDeletedMessagesRange(), entries / 2);
        assertBacklog(cursor, entries / 2);
        for (int i = 0; i < entries; i += 997) {
            assertEquals(cursor.isMessageDeleted(added.get(i).join()), i % 2 == 1, "entry " + i);
        }
    }

    @Test
    public void randomAcksResetsAndReopensAgreeWithAModel_case_043_case_046() throws Exception {
        Random random = new Random(46);
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(300);
        BitSet model = new BitSet();
        for (int step = 0; step < 400; step++) {
            int i = random.nextInt(positions.size());
            switch (random.nextInt(12)) {
                case 0 -> {
                    if (i + 1 >= model.nextClearBit(0)) {
                        cursor.markDelete(positions.get(i));
                        model.set(0, i + 1);
                    } else {
                        ManagedCursor back = cursor;
                        ManagedLedgerException e =
                            expectThrows(ManagedLedgerException.class, () -> back.markDelete(positions.get(i)));
                        assertTrue(e.getCause() instanceof IllegalArgumentException, "got " + e);
                    }
                }
                case 1 -> {
                    if (random.nextInt(6) == 0) {
                        cursor.resetCursor(positions.get(i));
                        model.clear();
                        model.set(0, i);
                    }
                }
                case 2 -> {
                    if (random.nextInt(12) == 0) {
                        reopen();
                        cursor = earliest("sub");
                    }
                }
                case 3 -> LedgerFixture.texts(cursor.readEntries(1 + random.nextInt(20)));
                default -> {
                    List<Position> some = new ArrayList<>();
                    for (int k = 0; k < 5; k++) {
                        int at = random.nextInt(positions.size());
                        some.add(positions.get(at));
                        model.set(at);
                    }
                    cursor.delete(some);
                }
            }
            int end = model.nextClearBit(0);
            assertEquals(cursor.getMarkDeletedPosition(), ledger.position(end - 1), "step " + step);
            assertBacklog(cursor, positions.size() - model.cardinality());
            assertTrue(cursor.getNumberOfEntries() >= 0);
        }
        cursor.rewind();
        List<String> expected = new ArrayList<>();
        for (int i = model.nextClearBit(0); i < positions.size(); i = model.nextClearBit(i + 1)) {
            expected.add("m" + i);
        }
        assertEquals(read(cursor, 1000), expected);
    }

    @Test
    public void acksPastTheLastEntryAreRefused() throws Exception {
        ManagedCursor cursor = earliest("sub");
        add(3);
        Position beyond = ledger.position(3);
        assertTrue(expectThrows(ManagedLedgerException.class, () -> cursor.markDelete(beyond)).getMessage()
            .startsWith("Invalid mark deleted position"));
        assertTrue(expectThrows(ManagedLedgerException.class, () -> cursor.delete(beyond)).getMessage()
            .startsWith("Invalid mark deleted position"));
        assertThrows(ManagedLedgerException.class, () -> cursor.markDelete(PositionFactory.LATEST));
        assertBacklog(cursor, 3);
    }

    @Test
    public void acksOfPositionsBeforeTheLedgerChangeNothing_case_033() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(3);
        cursor.delete(PositionFactory.create(1, 7));
        cursor.markDelete(PositionFactory.EARLIEST);
        assertBacklog(cursor, 3);
        assertEquals(cursor.getReadPosition(), positions.get(0));
    }

    @Test
    public void propertiesCommitWithTheirPosition() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(3);
        cursor.markDelete(positions.get(0), Map.of("a", 1L, "b", 2L));
        assertEquals(cursor.getProperties(), Map.of("a", 1L, "b", 2L));
        cursor.delete(positions.get(2));
        assertTrue(cursor.putProperty("c", 3L));
        assertTrue(cursor.removeProperty("a"));
        assertEquals(cursor.getProperties(), Map.of("b", 2L, "c", 3L));
        reopen();
        cursor = earliest("sub");
        assertEquals(cursor.getProperties(), Map.of("b", 2L, "c", 3L));
        cursor.markDelete(positions.get(1));
        assertEquals(cursor.getProperties(), Map.of(), "a position without properties has none");
    }

    @Test
    public void cursorPropertiesSurviveAndInternalOnesAreKept() throws Exception {
        ManagedCursor cursor = earliest("sub");
        await(cursor.putCursorProperty("a", "1"));
        await(cursor.putCursorProperty(ManagedCursor.CURSOR_INTERNAL_PROPERTY_PREFIX + "x", "2"));
        await(cursor.setCursorProperties(Map.of("b", "3")));
        Map<String, String> expected = Map.of("b", "3", ManagedCursor.CURSOR_INTERNAL_PROPERTY_PREFIX + "x", "2");
        assertEquals(cursor.getCursorProperties(), expected);
        ManagedCursor open = cursor;
        assertThrows(ExecutionException.class, () -> await(
            open.setCursorProperties(Map.of(ManagedCursor.CURSOR_INTERNAL_PROPERTY_PREFIX + "y", "4"))));
        reopen();
        cursor = earliest("sub");
        assertEquals(cursor.getCursorProperties(), expected);
        await(cursor.removeCursorProperty("b"));
        assertFalse(cursor.getCursorProperties().containsKey("b"));
    }

    @Test
    public void l15_acksOfManyThreadsAreDurableWhenAnswered_case_027() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(400);
        List<Thread> threads = new ArrayList<>();
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            int first = t;
            threads.add(new Thread(() -> {
                for (int i = first; i < 400; i += 4) {
                    if (i % 7 != 0) {
                        synchronized (answers) {
                            answers.add(deleteLater(cursor, List.of(positions.get(i))));
                        }
                    }
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        for (CompletableFuture<Void> answer : answers) {
            await(answer);
        }
        assertEquals(cursor.getPersistentMarkDeletedPosition(), cursor.getMarkDeletedPosition());
        reopen();
        assertBacklog(earliest("sub"), 58);
    }

    @Test
    public void skipAndClearCountUnacknowledgedEntries_case_042_case_018() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(10);
        cursor.delete(List.of(positions.get(1), positions.get(3), positions.get(5)));
        assertEquals(LedgerFixture.text(cursor.getNthEntry(3, IndividualDeletedEntries.Exclude)), "m4");
        assertEquals(LedgerFixture.text(cursor.getNthEntry(3, IndividualDeletedEntries.Include)), "m2");
        assertNull(cursor.getNthEntry(8, IndividualDeletedEntries.Exclude));
        cursor.skipEntries(3, IndividualDeletedEntries.Exclude);
        assertEquals(read(cursor, 1), List.of("m6"));
        assertBacklog(cursor, 4);
        cursor.skipEntries(2, IndividualDeletedEntries.Include);
        assertBacklog(cursor, 2);
        cursor.skipEntries(100, IndividualDeletedEntries.Exclude);
        assertBacklog(cursor, 0);
        assertEquals(cursor.getMarkDeletedPosition(), positions.get(9));
        add(2);
        cursor.clearBacklog();
        assertBacklog(cursor, 0);
        assertFalse(cursor.hasMoreEntries());
    }

    @Test
    public void acksAfterCloseFailAndThoseBeforeAreKept_case_087() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(3);
        CompletableFuture<Void> before = deleteLater(cursor, List.of(positions.get(1)));
        CompletableFuture<Void> closed = new CompletableFuture<>();
        cursor.asyncClose(Callbacks.closed(closed), null);
        CompletableFuture<Void> after = deleteLater(cursor, List.of(positions.get(2)));
        await(closed);
        await(before);
        assertTrue(expectThrows(ExecutionException.class, () -> await(after)).getCause()
            instanceof CursorAlreadyClosedException);
        assertTrue(cursor.isClosed());
        cursor.close();
        reopen();
        assertBacklog(earliest("sub"), 2);
    }

    @Test
    public void statisticsTellTheTruth() throws Exception {
        NereusManagedCursor cursor = earliest("sub");
        List<Position> positions = add(6);
        cursor.delete(List.of(positions.get(2), positions.get(4)));
        assertEquals(cursor.getTotalNonContiguousDeletedMessagesRange(), 2);
        assertEquals(cursor.getLastIndividualDeletedRange().upperEndpoint(), positions.get(4));
        assertEquals(cursor.getLastIndividualDeletedRange().lowerEndpoint(), positions.get(3));
        assertTrue(cursor.getNonContiguousDeletedMessagesRangeSerializedSize() > 0);
        assertTrue(cursor.getEstimatedSizeSinceMarkDeletePosition() > 0);
        assertTrue(cursor.getStats().getPersistLedgerSucceed() > 0);
        assertTrue(cursor.getStats().getWriteCursorLedgerSize() > 0);
        assertEquals(cursor.internalStats().state, "Open");
        assertEquals(cursor.internalStats().messagesConsumedCounter, 2);
        assertEquals(cursor.internalStats().individuallyDeletedMessages,
            "[(" + positions.get(1) + ".." + positions.get(2) + "],(" + positions.get(3) + ".." + positions.get(4)
                + "]]");
        cursor.setThrottleMarkDelete(3.5);
        assertEquals(cursor.getThrottleMarkDelete(), 3.5);
        long active = cursor.getLastActive();
        cursor.updateLastActive();
        assertTrue(cursor.getLastActive() >= active);
    }
}
