package io.nereus.pulsar.bridge;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The messages of the border, field by field. The native side has the same order in its own file of that name. */
final class Messages {

    private static final int FLAG_CREATE = 1;
    private static final int FLAG_POSITION_PROPERTIES = 2;
    private static final int FLAG_CURSOR_PROPERTIES = 4;
    private static final int FLAG_FULL = 8;

    /** Least bytes of a span, a cursor, a page, a batch: bounds for counts. */
    private static final int LEAST_SPAN = 5 * Long.BYTES;
    private static final int LEAST_CURSOR = 4 * Integer.BYTES + Long.BYTES;
    private static final int LEAST_PAGE = Long.BYTES + 2 * Integer.BYTES;
    private static final int LEAST_BATCH = 2 * Integer.BYTES;
    private static final int LEAST_ACCOUNT = Integer.BYTES + 2 * Long.BYTES;

    private Messages() {
    }

    static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] settings(Map<String, String> values) {
        return new WireWriter().stringMap(values).finish();
    }

    static byte[] openLedger(String name, boolean createIfMissing, Map<String, String> properties) {
        return new WireWriter().string(name).bool(createIfMissing).stringMap(properties).string("").finish();
    }

    static byte[] cursorUpdate(CursorUpdate update) {
        int flags = (update.create() ? FLAG_CREATE : 0)
                | (update.positionProperties() != null ? FLAG_POSITION_PROPERTIES : 0)
                | (update.cursorProperties() != null ? FLAG_CURSOR_PROPERTIES : 0)
                | (update.full() ? FLAG_FULL : 0);
        WireWriter out = new WireWriter().string(update.name()).u8(flags).i64(update.markDeleteEnd());
        if (update.positionProperties() != null) {
            out.numberMap(update.positionProperties());
        }
        if (update.cursorProperties() != null) {
            out.stringMap(update.cursorProperties());
        }
        out.i32(update.pages().size());
        for (AckPage page : update.pages()) {
            out.i64(page.pageNo()).bytes(page.acked()).i32(page.batches().size());
            page.batches().forEach((low, words) -> {
                out.i32(low).i32(words.length);
                for (long word : words) {
                    out.i64(word);
                }
            });
        }
        return out.finish();
    }

    static LedgerDescription description(byte[] message) throws NativeException {
        WireReader in = new WireReader("description of a ledger", message);
        long firstLedgerId = in.i64();
        int spanBits = in.i32();
        long incarnation = in.i64();
        long ownerEpoch = in.i64();
        long creationMillis = in.i64();
        StreamState state = new StreamState(in.i64(), in.i64(), in.i64(), in.i64(), in.bool(), in.i64(), ownerEpoch,
                false);
        Map<String, String> properties = in.stringMap();
        List<SpanInfo> spans = in.list(LEAST_SPAN,
                () -> new SpanInfo(in.i64(), in.i64(), in.i64(), in.i64(), in.i64()));
        List<CursorState> cursors = in.list(LEAST_CURSOR, () -> new CursorState(in.string(), in.i64(), in.numberMap(),
                in.stringMap(), in.list(LEAST_PAGE, () -> page(in))));
        in.finish();
        return new LedgerDescription(firstLedgerId, spanBits, incarnation, ownerEpoch, creationMillis, state,
                properties, spans, cursors);
    }

    static EngineState engineState(byte[] message) throws NativeException {
        WireReader in = new WireReader("state of the engine", message);
        String poison = in.string();
        long segments = in.i64();
        long freeSegments = in.i64();
        long bytes = in.i64();
        long freeBytes = in.i64();
        EngineState.Oldest oldest = new EngineState.Oldest(in.i64(), holder(in.u8()), in.string());
        EngineState.Checkpoints checkpoints =
                new EngineState.Checkpoints(in.i64(), in.i64(), in.i64(), in.i64());
        EngineState.Work work =
                new EngineState.Work(in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64());
        List<EngineState.Account> memory = in.list(LEAST_ACCOUNT,
                () -> new EngineState.Account(in.string(), in.i64(), in.i64()));
        EngineState.Reads reads = new EngineState.Reads(in.i64(), in.i64(), in.i64(), in.i64(), in.i64(), in.i64(),
                in.i64(), in.i64(), in.i64());
        long streams = in.i64();
        long results = in.i64();
        in.finish();
        return new EngineState(poison, segments, bytes, freeSegments, freeBytes, oldest, checkpoints, work, memory,
                reads, streams, results);
    }

    private static EngineState.Holder holder(int code) throws NativeException {
        EngineState.Holder[] all = EngineState.Holder.values();
        if (code >= all.length) {
            throw new NativeException(NativeErrors.INTERNAL,
                    "the state of the engine names a holder of the unknown kind " + code);
        }
        return all[code];
    }

    static Map<Integer, String> errorTable(byte[] message) throws NativeException {
        WireReader in = new WireReader("error table", message);
        Map<Integer, String> table = new LinkedHashMap<>();
        int count = in.count(2 * Integer.BYTES);
        for (int i = 0; i < count; i++) {
            table.put(in.i32(), in.string());
        }
        in.finish();
        return table;
    }

    private static AckPage page(WireReader in) throws NativeException {
        long pageNo = in.i64();
        byte[] acked = in.bytes();
        int count = in.count(LEAST_BATCH);
        Map<Integer, long[]> batches = new HashMap<>();
        for (int i = 0; i < count; i++) {
            int low = in.i32();
            long[] words = new long[in.count(Long.BYTES)];
            for (int w = 0; w < words.length; w++) {
                words[w] = in.i64();
            }
            batches.put(low, words);
        }
        return new AckPage(pageNo, acked, batches);
    }
}
