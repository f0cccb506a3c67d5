package io.nereus.pulsar.bridge;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertThrows;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.testng.annotations.Test;

/** The codec of the border. */
public class WireTest {

    @Test
    public void whatWasWrittenIsReadBack() throws Exception {
        byte[] message = new WireWriter().u8(200).bool(true).i32(Integer.MIN_VALUE).i64(Long.MIN_VALUE + 1)
                .bytes(new byte[] {1, 2}).string("grün").stringMap(Map.of("k", "v")).numberMap(Map.of("n", -1L))
                .finish();
        WireReader in = new WireReader("test", message);
        assertEquals(in.u8(), 200);
        assertEquals(in.bool(), true);
        assertEquals(in.i32(), Integer.MIN_VALUE);
        assertEquals(in.i64(), Long.MIN_VALUE + 1);
        assertEquals(in.bytes(), new byte[] {1, 2});
        assertEquals(in.string(), "grün");
        assertEquals(in.stringMap(), Map.of("k", "v"));
        assertEquals(in.numberMap(), Map.of("n", -1L));
        in.finish();
    }

    @Test
    public void everyTruncationOfADescriptionIsRefused() throws Exception {
        byte[] whole = description();
        assertEquals(Messages.description(whole).cursors().get(0).pages().get(0).batches().get(7)[1], 5L);
        for (int end = 0; end < whole.length; end++) {
            byte[] cut = Arrays.copyOf(whole, end);
            assertThrows(NativeException.class, () -> Messages.description(cut));
        }
        byte[] longer = Arrays.copyOf(whole, whole.length + 1);
        assertThrows(NativeException.class, () -> Messages.description(longer));
    }

    @Test
    public void aFalseLengthIsRefusedBeforeAnythingIsAllocated() {
        for (int length : new int[] {-1, Integer.MIN_VALUE, Integer.MAX_VALUE, 5}) {
            byte[] message = new WireWriter().i32(length).i32(0).finish();
            assertThrows(NativeException.class, () -> new WireReader("test", message).bytes());
            assertThrows(NativeException.class, () -> new WireReader("test", message).stringMap());
            assertThrows(NativeException.class, () -> new WireReader("test", message).list(8, () -> null));
        }
    }

    @Test
    public void aMessageBeyondTheBoundIsNotWritten() {
        byte[] half = new byte[WireWriter.MAX_MESSAGE / 2];
        assertThrows(IllegalArgumentException.class, () -> new WireWriter().bytes(half).bytes(half));
    }

    private static byte[] description() {
        WireWriter out = new WireWriter().i64(1L << 32).i32(16).i64(1).i64(2).i64(3);
        out.i64(10).i64(20).i64(10).i64(1000).bool(false).i64(4).stringMap(Map.of("p", "q"));
        out.i32(1).i64(0).i64(10).i64(1000).i64(5).i64(6);
        out.i32(1).string("sub").i64(12).numberMap(Map.of("n", 1L)).stringMap(Map.of());
        out.i32(1).i64(0).bytes(new byte[] {9}).i32(1).i32(7).i32(2);
        for (long word : List.of(-1L, 5L)) {
            out.i64(word);
        }
        return out.finish();
    }
}
