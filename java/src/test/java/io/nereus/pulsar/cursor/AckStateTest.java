package io.nereus.pulsar.cursor;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;

import io.nereus.pulsar.bridge.AckPage;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.roaringbitmap.RoaringBitmap;
import org.testng.annotations.DataProvider;
import org.testng.annotations.Test;

/** {@link AckState} against a plain model: one bit per entry, one bit set per batch. */
public class AckStateTest {

    private static final int PAGE = AckedPage.ENTRIES;
    private static final int SPACE = 4 * PAGE;
    private static final int BATCH = 130;

    @DataProvider
    public Object[][] seeds() {
        Object[][] seeds = new Object[12][];
        for (int i = 0; i < seeds.length; i++) {
            seeds[i] = new Object[] {1000L + i};
        }
        return seeds;
    }

    @Test(dataProvider = "seeds")
    public void randomOperationsAgreeWithTheModel_case_043_case_045(long seed) {
        Random random = new Random(seed);
        Model model = new Model();
        AckState state = new AckState(0);
        Store store = new Store();
        for (int step = 0; step < 3000; step++) {
            switch (random.nextInt(20)) {
                case 0 -> {
                    int end = place(random);
                    assertEquals(state.markDelete(end), end > model.markDeleteEnd(), "moved by " + end);
                    model.acked.set(0, end);
                }
                case 1 -> {
                    int from = place(random);
                    int to = Math.min(SPACE - 1, from + random.nextInt(random.nextInt(10) == 0 ? PAGE + 10 : 40));
                    for (int offset = from; offset < to; offset++) {
                        state.ack(offset);
                    }
                    model.acked.set(from, to);
                }
                case 2, 3, 4, 5, 6 -> {
                    int offset = place(random);
                    long[] unacked = randomWords(random);
                    boolean changed = model.ackIndexes(offset, unacked);
                    assertEquals(state.ackIndexes(offset, unacked), changed, "batch at " + offset);
                }
                case 7 -> {
                    AckState.Changes changes = state.takeChanges();
                    assertFalse(state.isDirty(), "taken changes are clean");
                    if (random.nextInt(3) == 0) {
                        state.putBack(changes);
                    } else {
                        store.apply(changes);
                    }
                }
                case 8 -> {
                    if (random.nextInt(20) == 0) {
                        long end = place(random);
                        state = new AckState(end);
                        model.reset((int) end);
                        store.reset(end);
                    }
                }
                default -> {
                    int offset = place(random);
                    assertEquals(state.ack(offset), !model.acked.get(offset), "ack of " + offset);
                    model.acked.set(offset);
                }
            }
            model.settle();
            check(state, model, random);
        }
        if (state.isDirty()) {
            store.apply(state.takeChanges());
        }
        AckState recovered = store.recover();
        check(recovered, model, random);
        check(state.copy(), model, random);
    }

    private static int place(Random random) {
        return switch (random.nextInt(4)) {
            case 0 -> random.nextInt(60);
            case 1 -> PAGE - 30 + random.nextInt(60);
            case 2 -> 2 * PAGE - 30 + random.nextInt(60);
            default -> random.nextInt(3 * PAGE + 100);
        };
    }

    private static long[] randomWords(Random random) {
        BitSet unacked = new BitSet();
        int keep = random.nextInt(4);
        for (int i = 0; i < BATCH; i++) {
            if (random.nextInt(4) < keep) {
                unacked.set(i);
            }
        }
        return unacked.toLongArray();
    }

    private static void check(AckState state, Model model, Random random) {
        int end = model.markDeleteEnd();
        assertEquals(state.markDeleteEnd(), end, "mark-delete end is the end of the acknowledged prefix");
        assertEquals(state.ackedBeyond(), model.acked.cardinality() - end, "acknowledged beyond it");
        int offset = place(random);
        assertEquals(state.isAcked(offset), model.acked.get(offset), "acknowledged " + offset);
        assertEquals(state.nextUnacked(offset), model.acked.nextClearBit(offset), "next unacknowledged");
        int nextAcked = model.acked.nextSetBit(Math.max(offset, end));
        assertEquals(state.nextAcked(offset), nextAcked < 0 ? Long.MAX_VALUE : nextAcked, "next acknowledged");
        int to = offset + random.nextInt(PAGE);
        int from = Math.max(offset, end);
        assertEquals(state.ackedIn(offset, to), from >= to ? 0 : model.acked.get(from, to).cardinality(), "counted");
        int nth = 1 + random.nextInt(50);
        assertEquals(state.nthUnacked(offset, nth), model.nthUnacked(offset, nth), "the unacknowledged number " + nth);
        long[] words = state.unackedIndexes(offset);
        BitSet batch = model.batches.get(offset);
        assertEquals(words == null ? null : BitSet.valueOf(words), batch, "messages left at " + offset);
        if (random.nextInt(50) == 0) {
            List<AckState.Range> ranges = model.ranges();
            assertEquals(state.ranges(), ranges.size(), "number of ranges");
            assertEquals(state.firstRanges(1000), ranges.subList(0, Math.min(1000, ranges.size())));
            assertEquals(state.lastRange(), ranges.isEmpty() ? null : ranges.get(ranges.size() - 1));
        }
    }

    @Test(dataProvider = "seeds")
    public void aWindowHoldsTheNextUnacknowledgedEntriesAndOnlyShortGaps(long seed) {
        Random random = new Random(seed);
        AckState state = new AckState(random.nextInt(100));
        for (int i = 0; i < 400; i++) {
            state.ack(PAGE - 500 + random.nextInt(1000));
        }
        for (int i = 0; i < 300; i++) {
            long from = PAGE - 600 + random.nextInt(1200);
            long limit = from + random.nextInt(300);
            int wanted = 1 + random.nextInt(40);
            int gap = random.nextInt(5);
            AckState.Range window = state.window(from, limit, wanted, gap);
            long first = state.nextUnacked(from);
            if (first >= limit) {
                assertTrue(window.isEmpty(), "nothing to read below " + limit);
                continue;
            }
            assertEquals(window.start(), first, "starts with the first unacknowledged entry");
            assertTrue(window.end() <= limit, "stays below the limit");
            assertFalse(state.isAcked(window.end() - 1), "ends with an unacknowledged entry");
            long unacked = window.size() - state.ackedIn(window.start(), window.end());
            assertTrue(unacked <= wanted, "not more than wanted");
            long next = state.nextUnacked(window.end());
            assertTrue(unacked == wanted || next >= limit || next - window.end() > gap,
                "stopped early at " + window.end() + " although " + next + " follows");
        }
    }

    @Test
    public void acksOfABatchOnlyGrowAndTheLastOneMakesItWhole_case_045() {
        AckState state = new AckState(5);
        assertTrue(state.ackIndexes(7, new long[] {0b1110}));
        assertTrue(state.ackIndexes(7, new long[] {0b0111}));
        assertFalse(state.ackIndexes(7, new long[] {0b1111}), "an older, smaller acknowledgement changes nothing");
        assertEquals(state.unackedIndexes(7), new long[] {0b0110});
        assertTrue(state.ackIndexes(7, new long[] {0b1001}));
        assertTrue(state.isAcked(7), "no message is left");
        assertNull(state.unackedIndexes(7));
        assertFalse(state.ackIndexes(7, new long[] {0b1111}), "a whole entry stays whole");
        assertEquals(state.markDeleteEnd(), 5);
    }

    @Test
    public void aPartlyAckedBatchAloneIsDirty_case_021() {
        AckState state = new AckState(0);
        state.takeChanges();
        state.ackIndexes(1, new long[] {0b110});
        assertTrue(state.isDirty());
        AckState.Changes changes = state.takeChanges();
        assertEquals(changes.pages().size(), 1);
        assertEquals(AckState.recovered(0, changes.pages()).unackedIndexes(1), new long[] {0b110});
    }

    @Test
    public void onlyChangedPagesAreTaken() {
        AckState state = new AckState(0);
        for (int page = 0; page < 20; page++) {
            state.ack((long) page * PAGE + 7);
        }
        assertEquals(state.takeChanges().pages().size(), 20);
        state.ack(5L * PAGE + 9);
        AckState.Changes changes = state.takeChanges();
        assertEquals(changes.pages().size(), 1);
        assertEquals(changes.pages().get(0).pageNo(), 5);
        state.markDelete(1);
        assertTrue(state.takeChanges().pages().isEmpty(), "moving the mark-delete end rewrites no page");
    }

    @Test
    public void l15_aMillionHolesSurviveARoundTrip_case_008() {
        AckState state = new AckState(0);
        for (long offset = 1; offset < 2_000_000; offset += 2) {
            state.ack(offset);
        }
        assertEquals(state.ranges(), 1_000_000);
        AckState.Changes changes = state.takeChanges();
        for (AckPage page : changes.pages()) {
            assertTrue(page.acked().length <= 8 * 1024 + 64, "a page takes " + page.acked().length + " bytes");
        }
        AckState recovered = AckState.recovered(changes.markDeleteEnd(), changes.pages());
        assertEquals(recovered.ranges(), 1_000_000);
        assertEquals(recovered.ackedBeyond(), 1_000_000);
        assertEquals(recovered.nthUnacked(0, 1_000_000), 1_999_998);
    }

    @Test
    public void bytesFollowTheHolesNotTheSpan_case_026() {
        AckState state = new AckState(0);
        Random random = new Random(26);
        for (long offset = 0; offset < 1_000_000; offset++) {
            if (random.nextInt(1000) != 0) {
                state.ack(offset);
            }
        }
        int stored = state.takeChanges().pages().stream().mapToInt(page -> page.acked().length).sum();
        assertTrue(stored < 10_000, "1,000 holes in a million entries take " + stored + " bytes");
    }

    @Test
    public void adjacentRangesOverPageBordersAreOne() {
        AckState state = new AckState(0);
        for (long offset = PAGE - 3; offset < 2L * PAGE + 3; offset++) {
            state.ack(offset);
        }
        assertEquals(state.ranges(), 1);
        assertEquals(state.lastRange(), new AckState.Range(PAGE - 3, 2L * PAGE + 3));
        state.markDelete(PAGE - 3);
        assertEquals(state.markDeleteEnd(), 2L * PAGE + 3, "the mark-delete end moves on over what follows");
        assertEquals(state.ranges(), 0);
        assertEquals(state.ackedBeyond(), 0);
    }

    @Test
    public void damagedPagesAreRefused() {
        assertThrows(IllegalArgumentException.class,
            () -> AckState.recovered(0, List.of(new AckPage(0, new byte[] {1, 2, 3}, Map.of()))));
        assertThrows(IllegalArgumentException.class,
            () -> AckState.recovered(0, List.of(new AckPage(0, new byte[0], Map.of(PAGE, new long[] {1})))));
        AckState other = new AckState(0);
        other.ack(3);
        AckPage page = other.takeChanges().pages().get(0);
        assertThrows(IllegalArgumentException.class, () -> AckState.recovered(0, List.of(page, page)));
    }

    /** One bit per entry, one bit set per batch that is acknowledged in part. */
    private static final class Model {
        private BitSet acked = new BitSet();
        private final Map<Integer, BitSet> batches = new HashMap<>();

        int markDeleteEnd() {
            return acked.nextClearBit(0);
        }

        boolean ackIndexes(int offset, long[] unacked) {
            if (acked.get(offset)) {
                return false;
            }
            BitSet given = BitSet.valueOf(unacked);
            BitSet before = batches.get(offset);
            BitSet after = (BitSet) given.clone();
            if (before != null) {
                after.and(before);
            }
            if (after.isEmpty()) {
                acked.set(offset);
                return true;
            }
            batches.put(offset, after);
            return !after.equals(before);
        }

        void settle() {
            batches.keySet().removeIf(acked::get);
        }

        void reset(int end) {
            acked = new BitSet();
            acked.set(0, end);
            batches.clear();
        }

        int nthUnacked(int from, int n) {
            int offset = acked.nextClearBit(from);
            for (int i = 1; i < n; i++) {
                offset = acked.nextClearBit(offset + 1);
            }
            return offset;
        }

        List<AckState.Range> ranges() {
            List<AckState.Range> ranges = new ArrayList<>();
            int start = acked.nextSetBit(markDeleteEnd());
            while (start >= 0) {
                int end = acked.nextClearBit(start);
                ranges.add(new AckState.Range(start, end));
                start = acked.nextSetBit(end);
            }
            return ranges;
        }
    }

    /** What the engine does with changes. */
    private static final class Store {
        private final TreeMap<Long, AckPage> pages = new TreeMap<>();
        private long markDeleteEnd;

        void apply(AckState.Changes changes) {
            markDeleteEnd = changes.markDeleteEnd();
            for (AckPage page : changes.pages()) {
                if (page.acked().length == 0 && page.batches().isEmpty()) {
                    pages.remove(page.pageNo());
                } else {
                    pages.put(page.pageNo(), page);
                }
            }
            pages.headMap(AckedPage.pageOf(markDeleteEnd)).clear();
        }

        void reset(long end) {
            pages.clear();
            markDeleteEnd = end;
        }

        AckState recover() {
            return AckState.recovered(markDeleteEnd, new ArrayList<>(pages.values()));
        }
    }

    /** A hundred million entries, all acknowledged but each thousandth. */
    @Test
    public void l15_storedBytesGrowWithTheHolesAndAChangeWritesItsPage_case_026() {
        int pages = 100_000_000 >> AckedPage.BITS;
        List<AckPage> stored = new ArrayList<>();
        for (int pageNo = 0; pageNo < pages; pageNo++) {
            RoaringBitmap bitmap = new RoaringBitmap();
            bitmap.add(0L, AckedPage.ENTRIES);
            for (int low = 0; low < AckedPage.ENTRIES; low += 1000) {
                bitmap.remove(low);
            }
            bitmap.runOptimize();
            ByteBuffer bytes = ByteBuffer.allocate(bitmap.serializedSizeInBytes());
            bitmap.serialize(bytes);
            stored.add(new AckPage(pageNo, bytes.array(), Map.of()));
        }
        AckState state = AckState.recovered(0, stored);
        long holes = pages * 66L;
        assertEquals(state.ackedBeyond(), (long) pages * AckedPage.ENTRIES - holes);
        assertEquals(state.ranges(), holes);
        assertTrue(state.storedBytes() < holes * 6, state.storedBytes() + " bytes for " + holes + " holes");
        assertFalse(state.isDirty());
        assertTrue(state.ack(50_000_000L / 1000 * 1000 >> AckedPage.BITS << AckedPage.BITS));
        List<AckPage> changed = state.takeChanges().pages();
        assertEquals(changed.size(), 1);
        assertTrue(changed.get(0).acked().length < 500, changed.get(0).acked().length + " bytes");
    }
}
