package io.nereus.pulsar;

import io.netty.buffer.ByteBuf;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.NativeException;
import io.nereus.pulsar.bridge.NativeStream;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;

/**
 * One append on its way: the entry's bytes, its callback and, once known, its outcome.
 *
 * <p>Owns one reference of the entry's buffer from construction until {@link #release()}. The outcome is set exactly
 * once, then {@link PendingAdds} completes it in append order. The interceptor sees it as the operation whose bytes it
 * may replace before they are written.
 */
final class PendingAdd implements ManagedLedgerInterceptor.AddEntryOperation, NativeStream.AppendCallback {

    private final PendingAdds owner;
    private final AddEntryCallback callback;
    private final Object ctx;
    private final int messages;
    private final long startNanos;
    private ByteBuf data;

    /** Bytes that went to storage; those after the payload processor. */
    private int storedBytes;
    /** How often the ledger had been resumed when this append was submitted. */
    private int resumeCount;
    /** Whether the interceptor was told about this append and has to hear of its failure. */
    private boolean intercepted;

    private volatile boolean settled;
    private long offset = -1;
    private long appendMillis;
    private ManagedLedgerException failure;

    PendingAdd(PendingAdds owner, ByteBuf retained, int messages, AddEntryCallback callback, Object ctx,
               long startNanos) {
        this.owner = owner;
        this.data = retained;
        this.messages = messages;
        this.callback = callback;
        this.ctx = ctx;
        this.startNanos = startNanos;
        this.storedBytes = retained.readableBytes();
    }

    @Override
    public ByteBuf getData() {
        return data;
    }

    /** The interceptor hands over a reference of {@code replacement} and has taken over the one of the old bytes. */
    @Override
    public void setData(ByteBuf replacement) {
        data = replacement;
        storedBytes = replacement.readableBytes();
    }

    @Override
    public Object getCtx() {
        return ctx;
    }

    int messages() {
        return messages;
    }

    int storedBytes() {
        return storedBytes;
    }

    void storedBytes(int bytes) {
        storedBytes = bytes;
    }

    int resumeCount() {
        return resumeCount;
    }

    void resumeCount(int count) {
        resumeCount = count;
    }

    boolean intercepted() {
        return intercepted;
    }

    void intercepted(boolean told) {
        intercepted = told;
    }

    long startNanos() {
        return startNanos;
    }

    boolean settled() {
        return settled;
    }

    long offset() {
        return offset;
    }

    long appendMillis() {
        return appendMillis;
    }

    /** Why the append failed, or null if it was committed; only after {@link #settled()}. */
    ManagedLedgerException failure() {
        return failure;
    }

    @Override
    public void appended(long committedOffset, long millis) {
        offset = committedOffset;
        appendMillis = millis;
        settled = true;
        owner.completeSettled();
    }

    @Override
    public void failed(NativeException e) {
        owner.appendFailed(this, e.code());
        settle(NativeErrors.toManagedLedgerException(e));
        owner.completeSettled();
    }

    /** Records a failure; completing it is left to the owner, who keeps the order. */
    void settle(ManagedLedgerException why) {
        failure = why;
        settled = true;
    }

    void callAddComplete(Position position) {
        callback.addComplete(position, data.asReadOnly(), ctx);
    }

    void callAddFailed() {
        callback.addFailed(failure, ctx);
    }

    /** Gives back the entry's buffer. */
    void release() {
        data.release();
    }
}
