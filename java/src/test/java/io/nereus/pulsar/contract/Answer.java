package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ClearBacklogCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.FindEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ResetCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.SkipEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;

/**
 * What one of Pulsar's callback pairs was called with, how often and on which thread. Thread-safe.
 *
 * @param <T> what a success carries
 */
final class Answer<T> {

    private final CompletableFuture<T> first = new CompletableFuture<>();
    private final AtomicInteger calls = new AtomicInteger();
    private volatile Thread thread;
    private volatile Object ctx;
    private volatile Position failedAt;
    private volatile Runnable within = () -> { };

    /** Runs {@code body} within the callback, before anybody hears of the answer. */
    Answer<T> within(Runnable body) {
        within = body;
        return this;
    }

    /** The success; the failure is thrown as it is. */
    T get() throws Exception {
        return Ledgers.await(first);
    }

    /** The failure. */
    ManagedLedgerException failure() throws Exception {
        try {
            Object answer = first.get(Ledgers.PATIENCE.toSeconds(), TimeUnit.SECONDS);
            throw new AssertionError("a failure was expected, the answer is " + answer);
        } catch (ExecutionException e) {
            assertThat(e.getCause()).as("the failure").isInstanceOf(ManagedLedgerException.class);
            return (ManagedLedgerException) e.getCause();
        }
    }

    boolean isDone() {
        return first.isDone();
    }

    /** Waits for either answer. */
    void await() throws Exception {
        first.handle((answer, failure) -> null).get(Ledgers.PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    boolean failed() {
        return first.isCompletedExceptionally();
    }

    /** How often either method was called. */
    int calls() {
        return calls.get();
    }

    /** The thread of the last call. */
    Thread thread() {
        return thread;
    }

    /** The context of the last call. */
    Object ctx() {
        return ctx;
    }

    /** The position that a failed search carried; null if none. */
    Position failedAt() {
        return failedAt;
    }

    private void succeed(T answer, Object context) {
        called(context);
        first.complete(answer);
    }

    private void fail(ManagedLedgerException exception, Object context) {
        called(context);
        first.completeExceptionally(exception);
    }

    private void called(Object context) {
        calls.incrementAndGet();
        thread = Thread.currentThread();
        ctx = context;
        within.run();
    }

    static ReadEntriesCallback entries(Answer<List<Entry>> answer) {
        return new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                answer.succeed(entries, ctx);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                answer.fail(exception, ctx);
            }
        };
    }

    static ReadEntryCallback entry(Answer<Entry> answer) {
        return new ReadEntryCallback() {
            @Override
            public void readEntryComplete(Entry entry, Object ctx) {
                answer.succeed(entry, ctx);
            }

            @Override
            public void readEntryFailed(ManagedLedgerException exception, Object ctx) {
                answer.fail(exception, ctx);
            }
        };
    }

    static FindEntryCallback found(Answer<Position> answer) {
        return new FindEntryCallback() {
            @Override
            public void findEntryComplete(Position position, Object ctx) {
                answer.succeed(position, ctx);
            }

            @Override
            public void findEntryFailed(ManagedLedgerException exception, Optional<Position> failedReadPosition,
                                        Object ctx) {
                answer.failedAt = failedReadPosition.orElse(null);
                answer.fail(exception, ctx);
            }
        };
    }

    /** The success carries the context of the callback, which is the new read position. */
    static ResetCursorCallback reset(Answer<Object> answer) {
        return new ResetCursorCallback() {
            @Override
            public void resetComplete(Object ctx) {
                answer.succeed(ctx, ctx);
            }

            @Override
            public void resetFailed(ManagedLedgerException exception, Object ctx) {
                answer.fail(exception, ctx);
            }
        };
    }

    static SkipEntriesCallback skipped(Answer<Void> answer) {
        return new SkipEntriesCallback() {
            @Override
            public void skipEntriesComplete(Object ctx) {
                answer.succeed(null, ctx);
            }

            @Override
            public void skipEntriesFailed(ManagedLedgerException exception, Object ctx) {
                answer.fail(exception, ctx);
            }
        };
    }

    static ClearBacklogCallback cleared(Answer<Void> answer) {
        return new ClearBacklogCallback() {
            @Override
            public void clearBacklogComplete(Object ctx) {
                answer.succeed(null, ctx);
            }

            @Override
            public void clearBacklogFailed(ManagedLedgerException exception, Object ctx) {
                answer.fail(exception, ctx);
            }
        };
    }
}
