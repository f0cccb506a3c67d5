package io.nereus.pulsar.contract;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteLedgerCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ManagedLedgerInfoCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenLedgerCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenReadOnlyCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenReadOnlyManagedLedgerCallback;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.ManagedLedgerInfo;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;
import org.apache.bookkeeper.mledger.ReadOnlyManagedLedger;

/** The asynchronous calls of a factory as futures. The context handed in must come back, once. */
final class Factories {

    private Factories() {
    }

    /** One answer, with the context it came with; a second answer is a failure of the test that waits for the first. */
    private static final class Answer<T> {
        private final CompletableFuture<T> future = new CompletableFuture<>();
        private final Object context = new Object();

        void complete(T value, Object ctx) {
            check(ctx);
            future.complete(value);
        }

        void fail(ManagedLedgerException exception, Object ctx) {
            check(ctx);
            future.completeExceptionally(exception);
        }

        private void check(Object ctx) {
            if (ctx != context) {
                future.obtrudeException(new AssertionError("the context came back as " + ctx));
            } else if (future.isDone()) {
                future.obtrudeException(new AssertionError("answered twice"));
            }
        }
    }

    static CompletableFuture<ManagedLedger> open(ManagedLedgerFactory factory, String name,
                                                 ManagedLedgerConfig config) {
        return open(factory, name, config, null);
    }

    static CompletableFuture<ManagedLedger> open(ManagedLedgerFactory factory, String name, ManagedLedgerConfig config,
                                                 Supplier<CompletableFuture<Boolean>> ownershipChecker) {
        Answer<ManagedLedger> answer = new Answer<>();
        factory.asyncOpen(name, config, opened(answer), ownershipChecker, answer.context);
        return answer.future;
    }

    /** Opens with the default configuration. */
    static CompletableFuture<ManagedLedger> open(ManagedLedgerFactory factory, String name) {
        Answer<ManagedLedger> answer = new Answer<>();
        factory.asyncOpen(name, opened(answer), answer.context);
        return answer.future;
    }

    private static OpenLedgerCallback opened(Answer<ManagedLedger> answer) {
        return new OpenLedgerCallback() {
            @Override
            public void openLedgerComplete(ManagedLedger ledger, Object ctx) {
                answer.complete(ledger, ctx);
            }

            @Override
            public void openLedgerFailed(ManagedLedgerException exception, Object ctx) {
                answer.fail(exception, ctx);
            }
        };
    }

    static CompletableFuture<ReadOnlyCursor> readOnlyCursor(ManagedLedgerFactory factory, String name, Position start,
                                                            ManagedLedgerConfig config) {
        CompletableFuture<ReadOnlyCursor> answer = new CompletableFuture<>(); // stock drops the context
        factory.asyncOpenReadOnlyCursor(name, start, config, new OpenReadOnlyCursorCallback() {
            @Override
            public void openReadOnlyCursorComplete(ReadOnlyCursor cursor, Object ctx) {
                answer.complete(cursor);
            }

            @Override
            public void openReadOnlyCursorFailed(ManagedLedgerException exception, Object ctx) {
                answer.completeExceptionally(exception);
            }
        }, null);
        return answer;
    }

    static CompletableFuture<ReadOnlyManagedLedger> readOnly(ManagedLedgerFactory factory, String name,
                                                             ManagedLedgerConfig config) {
        Answer<ReadOnlyManagedLedger> answer = new Answer<>();
        factory.asyncOpenReadOnlyManagedLedger(name, new OpenReadOnlyManagedLedgerCallback() {
            @Override
            public void openReadOnlyManagedLedgerComplete(ReadOnlyManagedLedger ledger, Object ctx) {
                answer.complete(ledger, ctx);
            }

            @Override
            public void openReadOnlyManagedLedgerFailed(ManagedLedgerException exception, Object ctx) {
                answer.fail(exception, ctx);
            }
        }, config, answer.context);
        return answer.future;
    }

    static CompletableFuture<ManagedLedgerInfo> info(ManagedLedgerFactory factory, String name) {
        Answer<ManagedLedgerInfo> answer = new Answer<>();
        factory.asyncGetManagedLedgerInfo(name, new ManagedLedgerInfoCallback() {
            @Override
            public void getInfoComplete(ManagedLedgerInfo info, Object ctx) {
                answer.complete(info, ctx);
            }

            @Override
            public void getInfoFailed(ManagedLedgerException exception, Object ctx) {
                answer.fail(exception, ctx);
            }
        }, answer.context);
        return answer.future;
    }

    /** Closes the ledgers of a factory and then the factory: stock's own shutdown answers before its ledgers are closed. */
    static void shutdown(ManagedLedgerFactory factory) throws Exception {
        for (ManagedLedger ledger : List.copyOf(factory.getManagedLedgers().values())) {
            try {
                ledger.close();
            } catch (ManagedLedgerException e) {
                // fenced, or closed by the test: a shutdown does not report it either
            }
        }
        factory.shutdown();
    }

    static CompletableFuture<Void> delete(ManagedLedgerFactory factory, String name) {
        Answer<Void> answer = new Answer<>();
        factory.asyncDelete(name, deleted(answer), answer.context);
        return answer.future;
    }

    static CompletableFuture<Void> delete(ManagedLedgerFactory factory, String name,
                                          CompletableFuture<ManagedLedgerConfig> config) {
        Answer<Void> answer = new Answer<>();
        factory.asyncDelete(name, config, deleted(answer), answer.context);
        return answer.future;
    }

    static CompletableFuture<Void> delete(ManagedLedger ledger) {
        Answer<Void> answer = new Answer<>();
        ledger.asyncDelete(deleted(answer), answer.context);
        return answer.future;
    }

    private static DeleteLedgerCallback deleted(Answer<Void> answer) {
        return new DeleteLedgerCallback() {
            @Override
            public void deleteLedgerComplete(Object ctx) {
                answer.complete(null, ctx);
            }

            @Override
            public void deleteLedgerFailed(ManagedLedgerException exception, Object ctx) {
                answer.fail(exception, ctx);
            }
        };
    }
}
