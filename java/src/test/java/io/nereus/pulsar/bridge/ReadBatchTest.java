package io.nereus.pulsar.bridge;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertThrows;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import org.apache.pulsar.common.allocator.PulsarByteBufAllocator;
import org.testng.annotations.Test;

/** Reference counts of read batches. */
public class ReadBatchTest {

    @Test
    public void entriesOutliveTheirBatchAndNothingIsLeft() throws Exception {
        ByteBuf bytes = batchOf(10, 3, 0);
        ReadBatch batch = ReadBatch.of(bytes, 3);
        ByteBuf first = batch.entry(0);
        ByteBuf empty = batch.entry(2);
        batch.release();
        batch.release();
        assertEquals(ByteBufUtil.getBytes(first), new byte[10]);
        assertEquals(empty.readableBytes(), 0);
        assertEquals(batch.offset(1), 101);
        assertThrows(IllegalStateException.class, () -> batch.entry(1));
        empty.release();
        assertEquals(bytes.refCnt(), 1);
        first.release();
        assertEquals(bytes.refCnt(), 0);
    }

    @Test
    public void aSmallEntryDoesNotPinALargeBatch() throws Exception {
        ByteBuf bytes = batchOf(100_000, 10);
        ReadBatch batch = ReadBatch.of(bytes, 2);
        ByteBuf small = batch.entry(1);
        batch.release();
        assertEquals(bytes.refCnt(), 0);
        assertEquals(small.readableBytes(), 10);
        small.release();
    }

    @Test
    public void aBatchThatContradictsItsHeaderIsRefusedAndReleased() {
        ByteBuf longer = batchOf(5).writeByte(0);
        assertThrows(NativeException.class, () -> ReadBatch.of(longer, 1));
        assertEquals(longer.refCnt(), 0);
        ByteBuf negative = batchOf(5).setInt(Long.BYTES, -1);
        assertThrows(NativeException.class, () -> ReadBatch.of(negative, 1));
        assertEquals(negative.refCnt(), 0);
        ByteBuf fewer = batchOf(5);
        assertThrows(NativeException.class, () -> ReadBatch.of(fewer, Integer.MAX_VALUE));
        assertEquals(fewer.refCnt(), 0);
    }

    private static ByteBuf batchOf(int... lengths) {
        ByteBuf bytes = PulsarByteBufAllocator.DEFAULT.directBuffer();
        for (int i = 0; i < lengths.length; i++) {
            bytes.writeLong(100 + i).writeInt(lengths[i]);
        }
        for (int length : lengths) {
            bytes.writeZero(length);
        }
        return bytes;
    }
}
