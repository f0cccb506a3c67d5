package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertTrue;

import com.google.common.collect.Range;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionBound;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

public class PositionNavigatorTest {

    private static final long V = 5_000_000_000L;
    private static final int SPAN = 8;

    private long trim;
    private long end;
    private PositionNavigator navigator;

    @BeforeMethod
    public void spansOfEight() {
        trim = 0;
        end = 20;
        navigator = new PositionNavigator(new Projection(V, 3), () -> trim, () -> end);
    }

    private static Position at(long ledger, long entry) {
        return PositionFactory.create(V + ledger, entry);
    }

    @Test
    public void nextWalksOverSpansAndStopsAtTheNextSlot() {
        Position position = at(0, -1);
        for (int offset = 0; offset <= end; offset++) {
            position = navigator.next(position);
            assertEquals(position, at(offset / SPAN, offset % SPAN));
        }
        assertEquals(navigator.next(position), at(2, 4), "past the next slot there is nothing");
    }

    @Test
    public void previousWalksBackToBeforeTheFirst() {
        Position position = at(2, 4);
        for (long offset = end - 1; offset >= 0; offset--) {
            position = navigator.previous(position);
            assertEquals(position, at(offset / SPAN, offset % SPAN));
        }
        assertEquals(navigator.previous(position), at(0, -1));
        assertEquals(navigator.previous(at(0, -1)), at(0, -1));
        assertEquals(navigator.previous(at(1, -1)), at(0, 7), "before a span lies the last entry of the one before");
    }

    @Test
    public void foreignLedgersAreBeforeTheFirstOrAfterTheLast() {
        trim = 3;
        assertEquals(navigator.next(PositionFactory.EARLIEST), at(0, 3));
        assertEquals(navigator.next(PositionFactory.create(17, 4)), at(0, 3));
        assertEquals(navigator.previous(PositionFactory.create(17, 4)), at(0, 2));
        assertEquals(navigator.next(PositionFactory.LATEST), at(2, 4));
        assertEquals(navigator.previous(PositionFactory.LATEST), at(2, 3));
        assertEquals(navigator.next(at(9, 1)), at(2, 4));
        assertEquals(navigator.offsetAtOrAfter(PositionFactory.EARLIEST), 3);
        assertEquals(navigator.offsetAtOrAfter(PositionFactory.LATEST), 20);
    }

    @Test
    public void entryIdsPastAClosedSpanMeanTheNextSpansFirst() {
        assertEquals(navigator.offsetAtOrAfter(at(0, 8)), 8);
        assertEquals(navigator.offsetAtOrAfter(at(0, 700)), 8);
        assertEquals(navigator.next(at(0, 700)), at(1, 1));
        assertTrue(navigator.isValid(at(0, 8)), "the broker's 'next entry' after the last of a span");
        assertFalse(navigator.isValid(at(0, 9)));
    }

    @Test
    public void afterNCountsEntriesAndStopsAtTheLast() {
        assertEquals(navigator.afterN(at(0, 0), 1, PositionBound.startIncluded), at(0, 0));
        assertEquals(navigator.afterN(at(0, 0), 1, PositionBound.startExcluded), at(0, 1));
        assertEquals(navigator.afterN(at(0, -1), 10, PositionBound.startExcluded), at(1, 1));
        assertEquals(navigator.afterN(at(0, 0), 1_000, PositionBound.startIncluded), at(2, 3));
        assertEquals(navigator.afterN(at(0, 0), Long.MAX_VALUE, PositionBound.startExcluded), at(2, 3));
        assertEquals(navigator.afterN(at(0, 5), 0, PositionBound.startIncluded), at(0, 4));
    }

    @Test
    public void theFirstPositionLiesBeforeTheFirstReadableEntry() {
        assertEquals(navigator.first(), at(0, -1));
        trim = 8;
        assertEquals(navigator.first(), at(1, -1));
        trim = 11;
        assertEquals(navigator.first(), at(1, 2));
    }

    @Test
    public void theLastPositionDoesNotGoBackWhenEverythingIsTrimmed() {
        trim = 20;
        assertEquals(navigator.first(), at(2, 3));
        assertEquals(navigator.previous(PositionFactory.LATEST), at(2, 3));
        end = 0;
        trim = 0;
        assertEquals(navigator.first(), at(0, -1), "a ledger that was never written");
        assertEquals(navigator.next(at(0, -1)), at(0, 0));
    }

    @Test
    public void entriesWithinCountsWhatExists() {
        assertEquals(navigator.entriesWithin(Range.openClosed(at(0, -1), at(2, 3))), 20);
        assertEquals(navigator.entriesWithin(Range.closed(at(0, 0), at(0, 0))), 1);
        assertEquals(navigator.entriesWithin(Range.open(at(0, 0), at(0, 1))), 0);
        assertEquals(navigator.entriesWithin(Range.openClosed(PositionFactory.EARLIEST, PositionFactory.LATEST)), 20);
        trim = 10;
        assertEquals(navigator.entriesWithin(Range.closed(at(0, 0), at(2, 3))), 10);
    }

    @Test
    public void validPositionsAreTheReadableEntriesAndTheNextSlot() {
        trim = 2;
        assertFalse(navigator.isValid(at(0, 1)));
        assertTrue(navigator.isValid(at(0, 2)));
        assertTrue(navigator.isValid(at(2, 4)));
        assertFalse(navigator.isValid(at(2, 5)));
        assertFalse(navigator.isValid(at(1, -1)));
        assertFalse(navigator.isValid(PositionFactory.EARLIEST));
        assertFalse(navigator.isValid(PositionFactory.LATEST));
    }
}
