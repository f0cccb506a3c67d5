package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;

import io.nereus.pulsar.bridge.SpanInfo;
import io.nereus.pulsar.compat.LedgerDetails;
import java.util.List;
import java.util.NavigableMap;
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
}
