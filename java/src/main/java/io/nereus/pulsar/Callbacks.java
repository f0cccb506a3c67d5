package io.nereus.pulsar;

import io.netty.buffer.ByteBuf;
import io.nereus.pulsar.bridge.NativeErrors;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ClearBacklogCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteLedgerCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.TerminateCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.UpdatePropertiesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.protocol.Commands;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Translates between futures and Pulsar's pairs of callbacks; each side is called exactly once. */
final class Callbacks {

    private static final Logger log = LoggerFactory.getLogger(Callbacks.class);

    private Callbacks() {
    }

    /** Hands the outcome of {@code future} to a callback; what the callback throws is logged, it is not an outcome. */
    static <T> void deliver(CompletableFuture<T> future, Consumer<T> complete,
                            Consumer<ManagedLedgerException> failed) {
        future.whenComplete((value, failure) -> {
            try {
                if (failure == null) {
                    complete.accept(value);
                } else {
                    failed.accept(NativeErrors.toManagedLedgerException(failure));
                }
            } catch (RuntimeException e) {
                log.error("a callback failed", e);
            }
        });
    }

    static AddEntryCallback added(CompletableFuture<Position> future) {
        return new AddEntryCallback() {
            @Override
            public void addComplete(Position position, ByteBuf entryData, Object ctx) {
                future.complete(position);
            }

            @Override
            public void addFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }

    static CloseCallback closed(CompletableFuture<Void> future) {
        return new CloseCallback() {
            @Override
            public void closeComplete(Object ctx) {
                future.complete(null);
            }

            @Override
            public void closeFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }

    static DeleteLedgerCallback deleted(CompletableFuture<Void> future) {
        return new DeleteLedgerCallback() {
            @Override
            public void deleteLedgerComplete(Object ctx) {
                future.complete(null);
            }

            @Override
            public void deleteLedgerFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }

    static DeleteCursorCallback cursorDeleted(CompletableFuture<Void> future) {
        return new DeleteCursorCallback() {
            @Override
            public void deleteCursorComplete(Object ctx) {
                future.complete(null);
            }

            @Override
            public void deleteCursorFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }

    static TerminateCallback terminated(CompletableFuture<Position> future) {
        return new TerminateCallback() {
            @Override
            public void terminateComplete(Position lastCommittedPosition, Object ctx) {
                future.complete(lastCommittedPosition);
            }

            @Override
            public void terminateFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }

    static UpdatePropertiesCallback propertiesUpdated(CompletableFuture<Map<String, String>> future) {
        return new UpdatePropertiesCallback() {
            @Override
            public void updatePropertiesComplete(Map<String, String> properties, Object ctx) {
                future.complete(properties);
            }

            @Override
            public void updatePropertiesFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }

    static ClearBacklogCallback cleared(CompletableFuture<Void> future) {
        return new ClearBacklogCallback() {
            @Override
            public void clearBacklogComplete(Object ctx) {
                future.complete(null);
            }

            @Override
            public void clearBacklogFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }

    /** The entry, through {@code map}; whoever receives the result releases the entry. */
    static <T> ReadEntryCallback entry(CompletableFuture<T> future, Function<Entry, T> map) {
        return new ReadEntryCallback() {
            @Override
            public void readEntryComplete(Entry entry, Object ctx) {
                future.complete(map.apply(entry));
            }

            @Override
            public void readEntryFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }

    /** The publish time of the entry in milliseconds; releases the entry. */
    static ReadEntryCallback publishTime(CompletableFuture<Long> future) {
        return new ReadEntryCallback() {
            @Override
            public void readEntryComplete(Entry entry, Object ctx) {
                try {
                    future.complete(Commands.getEntryTimestamp(entry.getDataBuffer()));
                } catch (IOException | RuntimeException e) {
                    future.completeExceptionally(e);
                } finally {
                    entry.release();
                }
            }

            @Override
            public void readEntryFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }
}
