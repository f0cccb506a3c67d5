package io.nereus.pulsar;

import io.netty.buffer.ByteBuf;
import io.nereus.pulsar.bridge.StreamState;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerInterceptException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The appends of a shadow topic, each of which says: the source has an entry at this position, show what it has so far.
 *
 * <p>The position is the {@code ctx} of the call. Nothing is stored: the entry is durable in the source before the
 * broker hears of it. Promises, beside those of {@link Adds}: the last confirmed entry moves before the callback and
 * never goes back, also when the broker tells of an entry again; what was left out between two calls shows with the
 * later one. A position that the source does not have is refused; one of another life of the source, or a source that
 * was deleted, fences the ledger, so that the broker loads the topic anew and meets the source that is there then.
 */
final class ShadowAdds implements Adds {

    private static final Logger log = LoggerFactory.getLogger(ShadowAdds.class);

    private final NereusManagedLedger ledger;
    private final ShadowSource source;
    private final LedgerExtent extent;
    private final LedgerLifecycle lifecycle;
    private final LedgerStats stats;
    /** Null if the ledger has none. */
    private final ManagedLedgerInterceptor interceptor;

    /** Makes the order of the interceptor that of the callbacks. */
    private final Object addLock = new Object();
    private final Queue<Add> queue = new ConcurrentLinkedQueue<>();
    private final AtomicInteger size = new AtomicInteger();

    ShadowAdds(NereusManagedLedger ledger, ShadowSource source, LedgerExtent extent, LedgerLifecycle lifecycle,
               LedgerStats stats, ManagedLedgerInterceptor interceptor) {
        this.ledger = ledger;
        this.source = source;
        this.extent = extent;
        this.lifecycle = lifecycle;
        this.stats = stats;
        this.interceptor = interceptor;
    }

    /** One append; owns a reference of its buffer until it is completed. */
    private static final class Add implements ManagedLedgerInterceptor.AddEntryOperation {
        private final AddEntryCallback callback;
        private final Object ctx;
        private final int messages;
        private final int bytes;
        private final long startNanos = System.nanoTime();
        private ByteBuf data;
        private ManagedLedgerException failure;

        private Add(ByteBuf retained, int messages, AddEntryCallback callback, Object ctx) {
            this.data = retained;
            this.bytes = retained.readableBytes();
            this.messages = messages;
            this.callback = callback;
            this.ctx = ctx;
        }

        @Override
        public ByteBuf getData() {
            return data;
        }

        /** The interceptor hands over a reference of {@code replacement} and has taken over the one of the old bytes. */
        @Override
        public void setData(ByteBuf replacement) {
            data = replacement;
        }

        @Override
        public Object getCtx() {
            return ctx;
        }
    }

    @Override
    public int size() {
        return size.get();
    }

    @Override
    public void add(ByteBuf buffer, int messages, AddEntryCallback callback, Object ctx) {
        Add add = new Add(buffer.retain(), messages, callback, ctx);
        synchronized (addLock) {
            size.incrementAndGet();
            add.failure = lifecycle.appendRefusal();
            if (add.failure == null) {
                add.failure = intercepted(add);
            }
            queue.add(add);
        }
        ledger.execute(this::completeAll);
    }

    /** Why the append cannot go on after the interceptor, which has heard of a failure then; null if it can. */
    private ManagedLedgerException intercepted(Add add) {
        ManagedLedgerException refusal = null;
        try {
            if (interceptor != null) {
                interceptor.beforeAddEntry(add, add.messages);
            }
            refusal = positionRefusal(add.ctx);
        } catch (RuntimeException e) {
            log.error("[{}] the interceptor failed before an append", ledger.getName(), e);
            refusal = new ManagedLedgerInterceptException("the interceptor of ledger " + ledger.getName()
                + " failed before the append: " + e);
        }
        if (refusal != null && interceptor != null) {
            interceptor.afterFailedAddEntry(add.messages);
        }
        return refusal;
    }

    private ManagedLedgerException positionRefusal(Object ctx) {
        if (!(ctx instanceof Position position)) {
            return new ManagedLedgerException("ledger " + ledger.getName() + " shadows " + source.name()
                + " and takes the positions of its entries only, given as the context of the append");
        }
        StreamState now = source.state();
        if (now == null || !extent.projection().owns(position)) {
            ledger.sourceLost();
            return new ManagedLedgerFencedException("ledger " + ledger.getName() + " shadows another life of "
                + source.name() + " than the one with an entry at " + position);
        }
        if (position.getEntryId() < 0 || extent.projection().offset(position) >= now.end()) {
            return new ManagedLedgerException("ledger " + source.name() + ", which " + ledger.getName()
                + " shadows, has no entry at " + position + "; it ends at "
                + extent.projection().position(now.end() - 1));
        }
        return null;
    }

    private void completeAll() {
        Add add;
        while ((add = queue.poll()) != null) {
            size.decrementAndGet();
            try {
                complete(add);
            } catch (RuntimeException e) {
                log.error("[{}] the callback of an append failed", ledger.getName(), e);
            } finally {
                add.data.release();
            }
        }
    }

    private void complete(Add add) {
        if (add.failure != null) {
            stats.recordAddEntryError();
            add.callback.addFailed(add.failure, add.ctx);
            return;
        }
        long offset = extent.projection().offset((Position) add.ctx);
        Position position = extent.reached(offset, add.bytes, source.stream().state().lastAppendMillis());
        stats.addCompleted(add.bytes, System.nanoTime() - add.startNanos);
        try {
            add.callback.addComplete(position, add.data.asReadOnly(), add.ctx);
        } finally {
            ledger.completed();
        }
    }

    /** No append of a shadow stops those behind it. */
    @Override
    public void resume() {
    }

    /** Payload processors work on what is stored, and nothing is stored here. */
    @Override
    public void forgetPayloadProcessorFailure() {
    }

    /** Everything was answered when it was asked for; what waits for the executor is called back as it is. */
    @Override
    public void failAll(ManagedLedgerException reason) {
        completeAll();
    }
}
