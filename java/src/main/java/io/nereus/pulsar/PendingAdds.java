package io.nereus.pulsar;

import io.netty.buffer.ByteBuf;
import io.netty.util.ReferenceCountUtil;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.NativeStream;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerInterceptException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The appends of one ledger between the caller and their completion.
 *
 * <p>Promises: under the append lock call order is interceptor order, offset order and completion order; every append
 * ends exactly once, by {@code addComplete} or {@code addFailed}, on the ledger's executor and in that order; the last
 * confirmed entry has moved before {@code addComplete} runs; each buffer is retained once and released once. Keeps: L6
 * (nothing overtakes an append whose outcome is not known, and a failed one is never tried again).
 *
 * <p>After a failure the stream refuses appends until {@link #resume()}; only failures of the present round count, so a
 * late answer from before a resume does not stop the ledger again.
 */
final class PendingAdds implements Adds {

    private static final Logger log = LoggerFactory.getLogger(PendingAdds.class);

    /** What the ledger does when an append has been committed or a new owner was seen. */
    interface Listener {

        /**
         * Before the callback of the append runs; on the ledger's executor.
         *
         * @return the position of the entry, from now on the last confirmed one
         */
        Position committed(long offset, int storedBytes, long appendMillis);

        /** After the callback of a committed append; on the ledger's executor. */
        void completed();

        /** The stream belongs to another owner now; any thread. */
        void fenced();
    }

    private final String ledgerName;
    private final NativeStream stream;
    private final LedgerLifecycle lifecycle;
    private final LedgerStats stats;
    private final Executor executor;
    /** Null if the ledger has none. */
    private final ManagedLedgerInterceptor interceptor;
    private final int maxEntryBytes;
    private final Listener listener;

    /** Serialises interceptor, native call and queue: their orders must agree. No I/O, no callback inside. */
    private final Object appendLock = new Object();
    private final Queue<PendingAdd> queue = new ConcurrentLinkedQueue<>();
    private final AtomicInteger size = new AtomicInteger();
    private int resumeCount;
    private boolean resumeWhenDrained;
    private ManagedLedgerException payloadProcessorFailure;

    PendingAdds(String ledgerName, NativeStream stream, LedgerLifecycle lifecycle, LedgerStats stats,
                Executor executor, ManagedLedgerInterceptor interceptor,
                int maxEntryBytes, Listener listener) {
        this.ledgerName = ledgerName;
        this.stream = stream;
        this.lifecycle = lifecycle;
        this.stats = stats;
        this.executor = executor;
        this.interceptor = interceptor;
        this.maxEntryBytes = maxEntryBytes;
        this.listener = listener;
    }

    @Override
    public int size() {
        return size.get();
    }

    /**
     * Appends one entry. Any thread; returns after the bytes were copied.
     *
     * @param buffer   readable bytes are the entry; retained here, left untouched otherwise
     * @param messages messages in the entry, handed to the interceptor; recorded as at least 1, stock takes any number
     */
    @Override
    public void add(ByteBuf buffer, int messages, AddEntryCallback callback, Object ctx) {
        PendingAdd add = new PendingAdd(this, buffer.retain(), messages, callback, ctx, System.nanoTime());
        boolean refused;
        synchronized (appendLock) {
            size.incrementAndGet();
            queue.add(add); // before the stream can possibly answer
            ManagedLedgerException refusal = submit(add);
            refused = refusal != null;
            if (refused) {
                undoInterceptor(add);
                add.settle(refusal);
            }
        }
        if (refused) {
            completeLater();
        }
    }

    /** Returns why the entry was not handed to the stream, or null. Under the append lock. */
    private ManagedLedgerException submit(PendingAdd add) {
        ManagedLedgerException refusal = lifecycle.appendRefusal();
        if (refusal == null) {
            refusal = payloadProcessorFailure;
        }
        if (refusal == null) {
            refusal = aboveLimit(add.storedBytes());
        }
        if (refusal != null) {
            return refusal;
        }
        if (interceptor == null) {
            return append(add, add.getData());
        }
        try {
            add.intercepted(true);
            interceptor.beforeAddEntry(add, add.messages());
        } catch (RuntimeException e) {
            log.error("[{}] the interceptor failed before an append", ledgerName, e);
            return new ManagedLedgerInterceptException("the interceptor of ledger " + ledgerName
                + " failed before the append: " + e);
        }
        return appendProcessed(add);
    }

    /**
     * Runs the payload processor and appends what it answers. A processor that answers other bytes has consumed ours
     * and hands over two references: one is released here like our own, the other by its handle.
     */
    private ManagedLedgerException appendProcessed(PendingAdd add) {
        ByteBuf stored = add.getData().retainedDuplicate();
        ManagedLedgerInterceptor.PayloadProcessorHandle handle;
        try {
            handle = interceptor.processPayloadBeforeLedgerWrite(add.getCtx(), stored);
        } catch (RuntimeException e) {
            ReferenceCountUtil.safeRelease(stored);
            log.error("[{}] the payload processor failed before an append", ledgerName, e);
            // what follows must not overtake the refused entry; the broker lifts this by unfenceForInterceptorException
            payloadProcessorFailure = new ManagedLedgerInterceptException(e);
            return payloadProcessorFailure;
        }
        if (handle != null) {
            stored = handle.getProcessedPayload();
        }
        try {
            add.storedBytes(stored.readableBytes());
            ManagedLedgerException refusal = aboveLimit(add.storedBytes());
            return refusal != null ? refusal : append(add, stored);
        } finally {
            stored.release();
            if (handle != null) {
                handle.release();
            }
        }
    }

    private ManagedLedgerException append(PendingAdd add, ByteBuf stored) {
        add.resumeCount(resumeCount);
        int code = stream.append(stored, Math.max(1, add.messages()), add);
        if (code == NativeErrors.OK) {
            return null;
        }
        appendFailed(add, code);
        if (lifecycle.state() == LedgerState.FENCED) {
            return lifecycle.appendRefusal();
        }
        return NativeErrors.toManagedLedgerException(NativeErrors.toException(code, "append to ledger " + ledgerName));
    }

    private ManagedLedgerException aboveLimit(int bytes) {
        return bytes <= maxEntryBytes ? null : new ManagedLedgerException("an entry of " + bytes
            + " bytes is above the limit of " + maxEntryBytes + " bytes of ledger " + ledgerName
            + " (maxMessageSize plus room for the broker's metadata); it was not stored");
    }

    /**
     * A stream refused or failed {@code add}: the ledger stops for good if fenced, else until it is resumed. A stream
     * that somebody else has closed belongs to a ledger that another broker of this JVM has deleted.
     */
    void appendFailed(PendingAdd add, int code) {
        if (code == NativeErrors.FENCED || code == NativeErrors.CLOSED && lifecycle.state() != LedgerState.CLOSED) {
            listener.fenced();
            return;
        }
        synchronized (appendLock) {
            if (add.resumeCount() == resumeCount) {
                lifecycle.writeFailed();
            }
        }
    }

    /**
     * Lets the ledger accept appends again after a failed one. If earlier appends are still waiting for their callback
     * it happens when the last of them was called, so that a new append cannot meet an interceptor that has not heard
     * of the failures before it.
     */
    @Override
    public void resume() {
        synchronized (appendLock) {
            if (lifecycle.state() != LedgerState.WRITE_FAILED) {
                return;
            }
            if (queue.isEmpty()) {
                resumeNow();
            } else {
                resumeWhenDrained = true;
            }
        }
    }

    private void resumeNow() {
        resumeWhenDrained = false;
        int code = stream.resume();
        if (code == NativeErrors.OK) {
            resumeCount++;
            lifecycle.resumed();
            log.info("[{}] accepts appends again", ledgerName);
        } else {
            log.warn("[{}] could not be resumed: {}", ledgerName, NativeErrors.name(code));
            if (code == NativeErrors.FENCED) {
                listener.fenced();
            }
        }
    }

    @Override
    public void forgetPayloadProcessorFailure() {
        synchronized (appendLock) {
            payloadProcessorFailure = null;
        }
    }

    /** Completes, in order, what is settled at the head of the queue. On the ledger's executor only. */
    void completeSettled() {
        PendingAdd add;
        while ((add = queue.peek()) != null && add.settled()) {
            queue.remove(); // whoever takes the entry out has the right to complete it
            size.decrementAndGet();
            try {
                complete(add);
            } catch (RuntimeException e) {
                log.error("[{}] the callback of an append failed", ledgerName, e);
            } finally {
                add.release();
            }
        }
        resumeIfAskedFor();
    }

    private void complete(PendingAdd add) {
        if (add.failure() != null) {
            // a refusal was already taken back under the append lock
            undoInterceptor(add);
            stats.recordAddEntryError();
            add.callAddFailed();
            return;
        }
        Position position = listener.committed(add.offset(), add.storedBytes(), add.appendMillis());
        stats.addCompleted(add.storedBytes(), System.nanoTime() - add.startNanos());
        try {
            add.callAddComplete(position);
        } finally {
            listener.completed();
        }
    }

    private void resumeIfAskedFor() {
        synchronized (appendLock) {
            if (resumeWhenDrained && queue.isEmpty()) {
                resumeNow();
            }
        }
    }

    /** Tells the interceptor, once, that an append it has seen failed. */
    private void undoInterceptor(PendingAdd add) {
        if (interceptor == null || !add.intercepted()) {
            return;
        }
        add.intercepted(false);
        try {
            interceptor.afterFailedAddEntry(add.messages());
        } catch (RuntimeException e) {
            log.error("[{}] the interceptor failed after a failed append", ledgerName, e);
        }
    }

    /**
     * Fails what the stream has left unanswered when it closed. On the ledger's executor, after the stream's last
     * answer.
     */
    @Override
    public void failAll(ManagedLedgerException reason) {
        for (PendingAdd add : queue) {
            if (!add.settled()) {
                add.settle(reason);
            }
        }
        completeSettled();
    }

    private void completeLater() {
        try {
            executor.execute(this::completeSettled);
        } catch (RejectedExecutionException e) {
            // the factory has shut its threads down after closing every ledger: nothing can be ahead of us
            completeSettled();
        }
    }
}
