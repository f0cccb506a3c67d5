package io.nereus.pulsar.contract;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.buffer.Unpooled;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;

/**
 * An interceptor that notes every call, puts a mark before each entry's bytes as the broker puts its metadata there, and
 * fails where it is told to. Its payload processor, when on, turns letters into capitals on the way in and back out.
 */
final class RecordingInterceptor implements ManagedLedgerInterceptor {

    /** What was called, in order. */
    final List<String> calls = new CopyOnWriteArrayList<>();
    /** Payloads handed out by the processor and not taken back yet. */
    final List<ByteBuf> processed = new CopyOnWriteArrayList<>();
    volatile String failBefore;
    volatile String failProcessor;
    volatile boolean processes;
    volatile String index = "none";

    @Override
    public void beforeAddEntry(AddEntryOperation op, int numberOfMessages) {
        String text = op.getData().toString(StandardCharsets.UTF_8);
        calls.add("before " + text + " of " + numberOfMessages + " ctx " + op.getCtx());
        if (text.equals(failBefore)) {
            throw new IllegalStateException("of the test");
        }
        op.setData(Unpooled.wrappedBuffer(
            PooledByteBufAllocator.DEFAULT.directBuffer(1).writeByte('+'), op.getData()));
    }

    @Override
    public void afterFailedAddEntry(int numberOfMessages) {
        calls.add("failed " + numberOfMessages);
    }

    @Override
    public void onManagedLedgerPropertiesInitialize(Map<String, String> properties) {
        calls.add("properties " + properties.get("index"));
    }

    @Override
    public CompletableFuture<Void> onManagedLedgerLastLedgerInitialize(String name, LastEntryHandle handle) {
        return handle.readLastEntryAsync().thenAccept(entry -> calls.add("last " + text(entry)));
    }

    private static String text(Optional<Entry> entry) {
        return entry.map(Ledgers::text).orElse("nothing");
    }

    @Override
    public void onUpdateManagedLedgerInfo(Map<String, String> properties) {
        properties.put("index", index);
    }

    @Override
    public PayloadProcessorHandle processPayloadBeforeLedgerWrite(Object ctx, ByteBuf payload) {
        String text = payload.toString(StandardCharsets.UTF_8);
        if (text.equals(failProcessor)) {
            throw new IllegalStateException("of the test");
        }
        return processes ? replace(payload, text.toUpperCase()) : null;
    }

    @Override
    public PayloadProcessorHandle processPayloadBeforeEntryCache(ByteBuf payload) {
        return processes ? replace(payload, payload.toString(StandardCharsets.UTF_8).toLowerCase()) : null;
    }

    /** As the broker's processors do: the old bytes are consumed, the new ones are ours until the handle is released. */
    private PayloadProcessorHandle replace(ByteBuf payload, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ByteBuf answer = PooledByteBufAllocator.DEFAULT.directBuffer(bytes.length).writeBytes(bytes);
        processed.add(answer);
        payload.release();
        answer.retain();
        return new PayloadProcessorHandle() {
            @Override
            public ByteBuf getProcessedPayload() {
                return answer;
            }

            @Override
            public void release() {
                answer.release();
            }
        };
    }
}
