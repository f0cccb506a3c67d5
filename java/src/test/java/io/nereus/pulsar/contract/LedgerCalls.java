package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.await;

import io.netty.buffer.ByteBuf;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.TerminateCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.UpdatePropertiesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;

/** The asynchronous calls of a ledger as futures. */
final class LedgerCalls {

    private static final int BATCH = 100;

    private LedgerCalls() {
    }

    static CompletableFuture<Position> add(ManagedLedger ledger, ByteBuf buffer) {
        CompletableFuture<Position> added = new CompletableFuture<>();
        ledger.asyncAddEntry(buffer, new AddEntryCallback() {
            @Override
            public void addComplete(Position position, ByteBuf data, Object ctx) {
                added.complete(position);
            }

            @Override
            public void addFailed(ManagedLedgerException exception, Object ctx) {
                added.completeExceptionally(exception);
            }
        }, null);
        return added;
    }

    /** The entry at {@code position}; the caller releases it. */
    static CompletableFuture<Entry> read(ManagedLedger ledger, Position position) {
        CompletableFuture<Entry> read = new CompletableFuture<>();
        ledger.asyncReadEntry(position, new ReadEntryCallback() {
            @Override
            public void readEntryComplete(Entry entry, Object ctx) {
                read.complete(entry);
            }

            @Override
            public void readEntryFailed(ManagedLedgerException exception, Object ctx) {
                read.completeExceptionally(exception);
            }
        }, null);
        return read;
    }

    static String textAt(ManagedLedger ledger, Position position) throws Exception {
        return Ledgers.text(await(read(ledger, position)));
    }

    /** The texts of everything the ledger holds. */
    static List<String> stored(ManagedLedger ledger) throws Exception {
        ManagedCursor cursor = ledger.newNonDurableCursor(PositionFactory.EARLIEST);
        List<String> texts = new ArrayList<>();
        while (cursor.hasMoreEntries()) {
            texts.addAll(Ledgers.texts(cursor.readEntries(BATCH)));
        }
        ledger.deleteCursor(cursor.getName());
        return texts;
    }

    static CompletableFuture<List<Entry>> readOrWait(ManagedCursor cursor) {
        CompletableFuture<List<Entry>> read = new CompletableFuture<>();
        cursor.asyncReadEntriesOrWait(BATCH, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                read.complete(entries);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                read.completeExceptionally(exception);
            }
        }, null, PositionFactory.LATEST);
        return read;
    }

    /** Lets retention look, and waits until it has. */
    static void trim(ManagedLedger ledger) throws Exception {
        CompletableFuture<Void> trimmed = new CompletableFuture<>();
        ledger.trimConsumedLedgersInBackground(trimmed);
        await(trimmed);
    }

    @SuppressWarnings("deprecation") // stock's brokers call it
    static void rollIfFull(ManagedLedger ledger) {
        ledger.rollCurrentLedgerIfFull();
    }

    static CompletableFuture<Position> terminate(ManagedLedger ledger) {
        CompletableFuture<Position> terminated = new CompletableFuture<>();
        ledger.asyncTerminate(new TerminateCallback() {
            @Override
            public void terminateComplete(Position position, Object ctx) {
                terminated.complete(position);
            }

            @Override
            public void terminateFailed(ManagedLedgerException exception, Object ctx) {
                terminated.completeExceptionally(exception);
            }
        }, null);
        return terminated;
    }

    static CompletableFuture<Void> close(ManagedLedger ledger) {
        CompletableFuture<Void> closed = new CompletableFuture<>();
        ledger.asyncClose(new CloseCallback() {
            @Override
            public void closeComplete(Object ctx) {
                closed.complete(null);
            }

            @Override
            public void closeFailed(ManagedLedgerException exception, Object ctx) {
                closed.completeExceptionally(exception);
            }
        }, null);
        return closed;
    }

    /** Completes a future with what a callback of cursors is told. */
    static OpenCursorCallback opened(CompletableFuture<ManagedCursor> future) {
        return new OpenCursorCallback() {
            @Override
            public void openCursorComplete(ManagedCursor cursor, Object ctx) {
                future.complete(cursor);
            }

            @Override
            public void openCursorFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }

    /** Completes a future with what a callback of properties is told. */
    static UpdatePropertiesCallback updated(CompletableFuture<Map<String, String>> future) {
        return new UpdatePropertiesCallback() {
            @Override
            public void updatePropertiesComplete(Map<String, String> properties, Object ctx) {
                future.complete(Map.copyOf(properties));
            }

            @Override
            public void updatePropertiesFailed(ManagedLedgerException exception, Object ctx) {
                future.completeExceptionally(exception);
            }
        };
    }
}
