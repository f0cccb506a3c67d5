package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;

import io.nereus.pulsar.bridge.SpanInfo;
import io.nereus.pulsar.compat.LedgerInfos;
import java.util.List;
import java.util.NavigableMap;
import org.apache.bookkeeper.mledger.proto.MLDataFormats.ManagedLedgerInfo.LedgerInfo;
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
        NavigableMap<Long, LedgerInfo> infos = written(0).ledgerInfos();
        assertEquals(infos.size(), 1);
        assertEquals(infos.firstKey().longValue(), V);
        assertEquals(LedgerInfos.entries(infos.get(V)), 0);
        assertEquals(LedgerInfos.timestamp(infos.get(V)), 0);
        assertTrue(infos.get(V).hasTimestamp(), "the broker asks whether a timestamp is set");
    }

    @Test
    public void closedSpansCarryEntriesBytesAndTheTimeOfTheirLastAppend() {
        NavigableMap<Long, LedgerInfo> infos = written(20).ledgerInfos();
        assertEquals(infos.keySet().stream().toList(), List.of(V, V + 1, V + 2));
        assertEquals(LedgerInfos.entries(infos.get(V)), 8);
        assertEquals(LedgerInfos.size(infos.get(V)), 80);
        assertEquals(LedgerInfos.timestamp(infos.get(V)), 1_007);
        assertEquals(LedgerInfos.timestamp(infos.get(V + 2)), 0);
        assertEquals(LedgerInfos.entries(infos.get(V + 2)), 4);
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
        assertNull(spans.ledgerInfo(V));
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
        assertEquals(LedgerInfos.entries(spans.ledgerInfo(V + 1)), 8, "counted like stock's, from entry 0");
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
