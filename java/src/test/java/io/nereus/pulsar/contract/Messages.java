package io.nereus.pulsar.contract;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.protocol.Commands;

/** Entries as a broker stores them. */
final class Messages {

    private Messages() {
    }

    /** The bytes of a message of one byte that was published at {@code millis}. */
    static byte[] published(long millis) {
        MessageMetadata metadata =
            new MessageMetadata().setProducerName("p").setSequenceId(0).setPublishTime(millis);
        ByteBuf payload = Unpooled.wrappedBuffer(new byte[] {1});
        ByteBuf entry = Commands.serializeMetadataAndPayload(Commands.ChecksumType.Crc32c, metadata, payload);
        try {
            return ByteBufUtil.getBytes(entry);
        } finally {
            entry.release();
            payload.release();
        }
    }
}
