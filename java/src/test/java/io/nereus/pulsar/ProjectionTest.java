package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;

import java.util.Random;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

public class ProjectionTest {

    private static final long V = 1L << 32;
    private final Projection projection = new Projection(V, 16);

    @Test
    public void l07_everyOffsetHasOnePositionAndEveryPositionItsOffset() {
        Random random = new Random(7);
        for (int i = 0; i < 100_000; i++) {
            long offset = random.nextLong() >>> (17 + random.nextInt(46));
            Position position = projection.position(offset);
            assertEquals(projection.offset(position), offset, "offset of " + position);
            assertTrue(position.getEntryId() >= 0 && position.getEntryId() < 65536, "normal form: " + position);
            assertTrue(projection.owns(position));
        }
    }

    @Test
    public void positionsKeepTheOrderOfOffsets() {
        Random random = new Random(8);
        for (int i = 0; i < 100_000; i++) {
            long a = random.nextInt(1 << 20);
            long b = random.nextInt(1 << 20);
            assertEquals(Integer.signum(projection.position(a).compareTo(projection.position(b))),
                Long.compare(a, b), a + " against " + b);
        }
    }

    @Test
    public void sequenceIdsOfPulsarFunctionsRiseStrictly() {
        long last = -1;
        for (long offset = 65_000; offset < 66_500; offset++) {
            Position position = projection.position(offset);
            long sequence = (position.getLedgerId() << 28) | position.getEntryId();
            assertTrue(sequence > last, "at offset " + offset);
            last = sequence;
        }
    }

    @Test
    public void nothingReadYetIsEntryMinusOneOfTheFirstLedger() {
        assertEquals(projection.position(-1), PositionFactory.create(V, -1));
        assertEquals(projection.markDeletePosition(0), PositionFactory.create(V, -1));
        assertEquals(projection.offset(PositionFactory.create(V, -1)), -1);
    }

    @Test
    public void entryIdsPastTheSpanMeanTheNextSpan() {
        assertEquals(projection.offset(PositionFactory.create(V, 65_536)), 65_536);
        assertEquals(projection.position(65_536), PositionFactory.create(V + 1, 0));
        assertEquals(projection.offset(PositionFactory.create(V + 1, -1)), 65_535);
    }

    @Test
    public void beforeAnOffsetStaysInsideItsSpan() {
        assertEquals(projection.positionBefore(65_536), PositionFactory.create(V + 1, -1));
        assertEquals(projection.positionBefore(65_537), PositionFactory.create(V + 1, 0));
        assertEquals(projection.positionBefore(0), PositionFactory.create(V, -1));
    }

    @Test
    public void foreignPositionsAreNotOwned() {
        assertFalse(projection.owns(PositionFactory.create(V - 1, 0)));
        assertFalse(projection.owns(PositionFactory.EARLIEST));
        assertFalse(projection.owns(PositionFactory.LATEST));
        assertThrows(IllegalArgumentException.class, () -> projection.offset(PositionFactory.EARLIEST));
        assertThrows(IllegalArgumentException.class, () -> projection.offset(PositionFactory.LATEST));
    }

    @Test
    public void damagedBindingsAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> new Projection(0, 16));
        assertThrows(IllegalArgumentException.class, () -> new Projection(V, 0));
        assertThrows(IllegalArgumentException.class, () -> new Projection(V, 32));
    }
}
