package io.nereus.tests.plugin;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import org.apache.pulsar.common.intercept.ManagedLedgerPayloadProcessor;

/** Stores every entry masked and shows it plain: what is on disk never holds the text of a message. */
public final class MaskingPayloadProcessor implements ManagedLedgerPayloadProcessor {

    private static final int MASK = 0x5A;

    private static final class Masking implements Processor {

        /** Consumes the buffer handed in, and hands out another with two references, as Pulsar asks for. */
        @Override
        public ByteBuf process(Object context, ByteBuf payload) {
            ByteBuf masked = PooledByteBufAllocator.DEFAULT.buffer(payload.readableBytes());
            payload.forEachByte(value -> {
                masked.writeByte(value ^ MASK);
                return true;
            });
            payload.release();
            return masked.retain();
        }

        @Override
        public void release(ByteBuf processed) {
            processed.release();
        }
    }

    @Override
    public Processor inputProcessor() {
        return new Masking();
    }

    @Override
    public Processor outputProcessor() {
        return new Masking();
    }
}
