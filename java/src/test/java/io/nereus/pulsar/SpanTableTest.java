package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;

import io.nereus.pulsar.bridge.SpanInfo;
import io.nereus.pulsar.compat.LedgerDetails;
import java.util.Arrays;
import java.util.List;
import java.util.NavigableMap;
import java.util.Random;
import org.testng.annotations.Test;

public class SpanTableTest {

    private static final long V = 100;
    private final Projection projection = new Projection(V, 3);

    private SpanTable written(int entries) {
        SpanTable spans = new SpanTable(projection, List.of(), 0, 0);
        for (int i = 0; i < entries; i++) {
            spans.committed(i, 10, 1_000 + i);
        }
        return spans;
    }

    @Test
    public void aLedgerWithoutEntriesHasOneOpenSpan() {
        NavigableMap<Long, LedgerDetails> infos = written(0).details();
        assertEquals(infos.size(), 1);
        assertEquals(infos.firstKey().longValue(), V);
        assertEquals(infos.get(V).entries(), 0);
        assertEquals(infos.get(V).closedMillis(), 0);
    }

    @Test
    public void closedSpansCarryEntriesBytesAndTheTimeOfTheirLastAppend() {
        NavigableMap<Long, LedgerDetails> infos = written(20).details();
        assertEquals(infos.keySet().stream().toList(), List.of(V, V + 1, V + 2));
        assertEquals(infos.get(V).entries(), 8);
        assertEquals(infos.get(V).bytes(), 80);
        assertEquals(infos.get(V).closedMillis(), 1_007);
        assertEquals(infos.get(V + 2).closedMillis(), 0);
        assertEquals(infos.get(V + 2).entries(), 4);
    }

    @Test
    public void theOpenSpanHoldsTheLastConfirmedEntry() {
        SpanTable spans = written(16);
        assertEquals(spans.lastLedgerId(), V + 1, "16 entries fill two spans and open no third");
        assertEquals(spans.openEntries(), 8);
    }

    @Test
    public void trimmingDropsWholeSpansAndKeepsTheOpenOne() {
        SpanTable spans = written(20);
        spans.trimmed(8);
        assertNull(spans.details(V));
        assertEquals(spans.totalBytes(), 120);
        spans.trimmed(20);
        assertEquals(spans.firstLedgerId(), V + 2);
        assertEquals(spans.totalBytes(), 0);
        spans.committed(20, 7, 5_000);
        assertEquals(spans.totalBytes(), 7);
        assertEquals(spans.openEntries(), 1);
        assertEquals(spans.bytesBetween(0, 100), 7);
    }

    @Test
    public void bytesOfPartsOfASpanAreItsAverage() {
        SpanTable spans = written(20);
        assertEquals(spans.bytesBetween(0, 20), 200);
        assertEquals(spans.bytesBetween(4, 18), 140);
        assertEquals(spans.bytesBetween(20, 20), 0);
        assertEquals(spans.bytesBetween(30, 40), 0);
    }

    @Test
    public void whatIsCutOffASpanCountsTheWholeBytesOfItsAverage() {
        SpanTable spans = new SpanTable(projection, List.of(), 0, 0);
        for (int offset = 0; offset < 5; offset++) {
            spans.committed(offset, offset < 3 ? 43 : 45, 1);
        }
        assertEquals(spans.bytesBetween(3, 5), 219 - 3 * 43);
        assertEquals(spans.bytesBetween(1, 3), 219 - 3 * 43);
        spans.trimmed(3);
        assertEquals(spans.totalBytes(), 90);
    }

    @Test
    public void aReopenedLedgerCountsFromItsTrimOffset() {
        SpanTable spans = new SpanTable(projection,
            List.of(new SpanInfo(8, 3, 33, 1_010, 1_015), new SpanInfo(16, 4, 40, 1_016, 1_019)), 13, 20);
        assertEquals(spans.totalBytes(), 73);
        assertEquals(spans.firstLedgerId(), V + 1);
        assertEquals(spans.details(V + 1).entries(), 8, "counted like stock's, from entry 0");
        assertEquals(spans.bytesBetween(13, 16), 33);
    }

    @Test
    public void aLedgerOfWhichEverythingIsTrimmedStillListsItsLastSpan() {
        SpanTable spans = new SpanTable(projection, List.of(), 16, 16);
        assertEquals(spans.lastLedgerId(), V + 1);
        assertEquals(spans.totalBytes(), 0);
        spans.committed(16, 5, 9);
        assertEquals(spans.lastLedgerId(), V + 2);
    }

    @Test
    public void l04_anOffsetThatIsNotTheNextIsADefect() {
        SpanTable spans = written(3);
        assertThrows(IllegalStateException.class, () -> spans.committed(2, 1, 1));
        assertThrows(IllegalStateException.class, () -> spans.committed(4, 1, 1));
    }

    /** Against the sizes one by one: exact where a range begins and ends with spans, whatever was trimmed. */
    @Test
    public void bytesBetweenSpansAreExactWithHoweverManyInBetween() {
        Random random = new Random(7);
        long[] sizes = new long[200];
        SpanTable spans = new SpanTable(projection, List.of(new SpanInfo(8, 3, 30, 1, 2), new SpanInfo(16, 8, 88, 1, 2)), 13, 24);
        for (int i = 13; i < 24; i++) {
            sizes[i] = i < 16 ? 10 : 11;
        }
        long trim = 13;
        int end = 24;
        while (end < sizes.length) {
            int size = random.nextInt(1000);
            int reached = Math.min(sizes.length, end + 1 + random.nextInt(20));
            if (random.nextBoolean()) {
                reached = end + 1;
                spans.committed(end, size, 3);
            } else {
                spans.reached(reached, size, 3);
            }
            Arrays.fill(sizes, end, reached, size);
            end = reached;
            if (random.nextInt(10) == 0) {
                trim = Math.max(trim, random.nextInt(end) & ~7);
                spans.trimmed(trim);
                Arrays.fill(sizes, 0, (int) trim, 0);
            }
            for (int from = 0; from < end; from += 8) {
                for (int to : new int[] {from, from + 8, from + 24, end}) {
                    long expected = Arrays.stream(sizes, from, Math.max(from, Math.min(to, end))).sum();
                    assertEquals(spans.bytesBetween(from, Math.min(to, end)), expected, from + " to " + to + " of " + end);
                }
            }
            assertEquals(spans.bytesBetween(0, end), spans.totalBytes());
        }
    }
}
