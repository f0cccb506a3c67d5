package io.nereus.pulsar.bridge;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/** An operation whose outcome is a future. */
final class FutureOperation<T> extends PendingOperation {

    private final String what;
    private final Outcome<T> outcome;
    private final CompletableFuture<T> future = new CompletableFuture<>();

    FutureOperation(Executor executor, String what, Outcome<T> outcome) {
        super(executor);
        this.what = what;
        this.outcome = outcome;
    }

    /** Makes the result from the three numbers of a completion. */
    interface Outcome<T> {
        T of(long a, long b, long c) throws NativeException;
    }

    CompletableFuture<T> future() {
        return future;
    }

    @Override
    void succeeded(long a, long b, long c) throws NativeException {
        T result;
        try {
            result = outcome.of(a, b, c);
        } catch (RuntimeException | Error e) {
            throw new NativeException(NativeErrors.INTERNAL, what + ": its result cannot be used: " + e, e);
        }
        future.complete(result);
    }

    @Override
    void failed(NativeException cause) {
        future.completeExceptionally(cause);
    }

    @Override
    String what() {
        return what;
    }
}
