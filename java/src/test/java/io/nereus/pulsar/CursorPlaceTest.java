package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.AsyncCallbacks.FindEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursor.FindPositionConstraint;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** Reset, seek, rewind, find, and what becomes of a cursor when its ledger is trimmed, over a real engine. */
public class CursorPlaceTest extends CursorFixture {

    private static <T> T await(CompletableFuture<T> future) throws Exception {
        return future.get(SECONDS, TimeUnit.SECONDS);
    }

    @Test
    public void aResetDeliversTheEntryItNamesAlsoAfterReopen_case_010() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(10);
        cursor.markDelete(positions.get(6));
        cursor.delete(positions.get(8));
        assertEquals(await(resetLater(cursor, positions.get(3), false)), positions.get(3));
        assertEquals(cursor.getMarkDeletedPosition(), positions.get(2));
        assertBacklog(cursor, 7);
        reopen();
        cursor = earliest("sub");
        assertBacklog(cursor, 7);
        assertEquals(read(cursor, 100), messages(3, 10));
    }

    @Test
    public void aResetToLatestDeliversWhatComesNext_case_010() throws Exception {
        ManagedCursor cursor = earliest("sub");
        add(3);
        await(resetLater(cursor, PositionFactory.LATEST, false));
        assertBacklog(cursor, 0);
        add(1);
        reopen();
        cursor = earliest("sub");
        assertEquals(read(cursor, 10), messages(3, 4));
    }

    @Test
    public void aCreatedCursorAtLatestDeliversWhatComesNextAlsoAfterReopen_case_010() throws Exception {
        add(2);
        latest("sub");
        add(1);
        reopen();
        assertEquals(read(latest("sub"), 10), messages(2, 3));
    }

    @Test
    public void aResetOutsideTheLedgerGoesToItsNearestEnd_case_037() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(4);
        cursor.markDelete(positions.get(1));
        assertEquals(await(resetLater(cursor, PositionFactory.create(3, 98), false)), positions.get(0));
        assertEquals(await(resetLater(cursor, PositionFactory.create(Long.MAX_VALUE - 5, 98), false)),
            ledger.position(4));
        assertEquals(await(resetLater(cursor, PositionFactory.EARLIEST, true)), positions.get(0));
        assertEquals(await(resetLater(cursor, ledger.position(9), true)), ledger.position(4));
    }

    @Test
    public void aResetIntoABatchKeepsItsFirstMessagesAcknowledged() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(4);
        Position middle = positions.get(2);
        await(resetLater(cursor, AckSetStateUtil.createPositionWithAckSet(middle.getLedgerId(), middle.getEntryId(),
            new long[] {0b1100}), false));
        assertEquals(cursor.getReadPosition(), middle);
        assertEquals(cursor.getDeletedBatchIndexesAsLongArray(middle), new long[] {0b1100});
    }

    @Test
    public void aReadUnderWayDoesNotMoveTheNewReadPosition_case_094() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(200);
        for (int round = 0; round < 50; round++) {
            cursor.seek(positions.get(100));
            CompletableFuture<List<Entry>> underWay = readOrWait(cursor, 5);
            cursor.rewind();
            await(underWay).forEach(Entry::release);
            assertEquals(cursor.getReadPosition(), positions.get(0), "round " + round);
        }
    }

    @Test
    public void seekDoesNotGoBelowTheMarkDeleteUnlessForced() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(6);
        cursor.markDelete(positions.get(2));
        cursor.seek(positions.get(0));
        assertEquals(cursor.getReadPosition(), positions.get(3));
        cursor.seek(positions.get(5));
        assertEquals(cursor.getReadPosition(), positions.get(5));
        cursor.seek(positions.get(1), true);
        assertEquals(cursor.getReadPosition(), positions.get(1));
        cursor.seek(PositionFactory.LATEST);
        assertEquals(cursor.getReadPosition(), ledger.position(6));
        assertFalse(cursor.hasMoreEntries());
    }

    private static Long newest(ManagedCursor cursor, FindPositionConstraint constraint, Position start, Position end,
                               Predicate<String> condition) throws Exception {
        CompletableFuture<Position> found = new CompletableFuture<>();
        cursor.asyncFindNewestMatching(constraint, entry -> condition.test(LedgerFixture.text(entry)), start, end,
            new FindEntryCallback() {
                @Override
                public void findEntryComplete(Position position, Object ctx) {
                    found.complete(position);
                }

                @Override
                public void findEntryFailed(ManagedLedgerException exception, Optional<Position> failed, Object ctx) {
                    found.completeExceptionally(exception);
                }
            }, null, false);
        Position position = await(found);
        return position == null ? null : position.getEntryId();
    }

    private static Predicate<String> upTo(int number) {
        return text -> Integer.parseInt(text.substring(1)) <= number;
    }

    @Test
    public void findsTheNewestMatchingEntry() throws Exception {
        ManagedCursor cursor = earliest("sub");
        List<Position> positions = add(20);
        assertEquals(cursor.findNewestMatching(entry -> upTo(7).test(LedgerFixture.text(entry))), positions.get(7));
        cursor.markDelete(positions.get(9));
        FindPositionConstraint active = FindPositionConstraint.SearchActiveEntries;
        FindPositionConstraint all = FindPositionConstraint.SearchAllAvailableEntries;
        assertNull(newest(cursor, active, null, null, upTo(7)), "expiry sees the backlog only");
        assertEquals(newest(cursor, all, null, null, upTo(7)), Long.valueOf(7));
        assertEquals(newest(cursor, active, null, null, upTo(12)), Long.valueOf(12));
        assertEquals(newest(cursor, all, positions.get(3), positions.get(5), upTo(12)), Long.valueOf(5));
        assertNull(newest(cursor, all, positions.get(3), positions.get(5), upTo(1)));
        cursor.delete(positions.subList(15, 20));
        assertEquals(newest(cursor, active, null, null, upTo(100)), Long.valueOf(19), "acknowledged ones count too");
    }

    @Test
    public void aCursorMovesOutOfWhatIsTrimmed_case_006_case_047() throws Exception {
        NereusManagedCursor cursor = earliest("sub");
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        ManagedCursor compacted = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "compacted",
            InitialPosition.Earliest, true);
        add(10);
        await(ledger.trimTo(4));
        assertBacklog(cursor, 6);
        assertBacklog(reader, 6);
        assertBacklog(compacted, 6);
        assertEquals(cursor.getReadPosition(), ledger.position(4));
        assertEquals(compacted.getReadPosition(), ledger.position(0), "compacted data may lie below");
        assertEquals(read(cursor, 100), messages(4, 10));
        assertEquals(read(reader, 100), messages(4, 10));
        assertEquals(read(compacted, 100), messages(4, 10));
        reopen();
        cursor = earliest("sub");
        assertBacklog(cursor, 6);
        assertEquals(read(cursor, 100), messages(4, 10));
    }

    @Test
    public void truncatingLeavesNothingToReadAndTheNextEntryIsDelivered_case_015() throws Exception {
        ManagedCursor cursor = earliest("sub");
        add(5);
        await(ledger.asyncTruncate());
        assertBacklog(cursor, 0);
        assertFalse(cursor.hasMoreEntries());
        assertEquals(cursor.getNumberOfEntries(), 0);
        add(1);
        assertEquals(read(cursor, 10), messages(5, 6));
    }

    @Test
    public void positionsCrossSpansByArithmetic_case_035() throws Exception {
        ManagedCursor cursor = earliest("sub");
        int entries = (1 << 16) + 10;
        List<CompletableFuture<Position>> added = new ArrayList<>();
        for (int i = 0; i < entries; i++) {
            CompletableFuture<Position> one = new CompletableFuture<>();
            added.add(one);
            ledger.asyncAddEntry(new byte[] {1}, Callbacks.added(one), null);
        }
        Position last = await(added.get(entries - 1));
        assertEquals(last.getEntryId(), 9);
        Position border = added.get((1 << 16) - 1).join();
        cursor.markDelete(border);
        assertEquals(cursor.getMarkDeletedPosition(), border);
        assertEquals(cursor.getReadPosition(), added.get(1 << 16).join(), "in the next span");
        assertBacklog(cursor, 10);
        cursor.seek(border.getNext());
        assertEquals(cursor.getReadPosition(), added.get(1 << 16).join(), "the same place written in another way");
        assertTrue(cursor.isMessageDeleted(border));
        assertFalse(cursor.isMessageDeleted(border.getNext()));
        List<Entry> rest = cursor.readEntries(100);
        assertEquals(rest.size(), 10);
        rest.forEach(Entry::release);
    }
}
