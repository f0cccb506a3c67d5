package io.nereus.bench.ledger;

import io.netty.buffer.ByteBuf;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;

/** The managed ledger's calls as futures, for where a measurement does not count each of them. */
final class Calls {

    private Calls() {
    }

    static CompletableFuture<ManagedLedger> open(ManagedLedgerFactory factory, String name, ManagedLedgerConfig config) {
        CompletableFuture<ManagedLedger> opened = new CompletableFuture<>();
        factory.asyncOpen(name, config, new AsyncCallbacks.OpenLedgerCallback() {
            @Override
            public void openLedgerComplete(ManagedLedger ledger, Object ctx) {
                opened.complete(ledger);
            }

            @Override
            public void openLedgerFailed(ManagedLedgerException exception, Object ctx) {
                opened.completeExceptionally(exception);
            }
        }, null, null);
        return opened;
    }

    static CompletableFuture<ManagedCursor> cursor(ManagedLedger ledger, String name) {
        CompletableFuture<ManagedCursor> opened = new CompletableFuture<>();
        ledger.asyncOpenCursor(name, InitialPosition.Earliest, new AsyncCallbacks.OpenCursorCallback() {
            @Override
            public void openCursorComplete(ManagedCursor cursor, Object ctx) {
                opened.complete(cursor);
            }

            @Override
            public void openCursorFailed(ManagedLedgerException exception, Object ctx) {
                opened.completeExceptionally(exception);
            }
        }, null);
        return opened;
    }

    /** The caller keeps its reference of {@code entry}. */
    static CompletableFuture<Position> add(ManagedLedger ledger, ByteBuf entry) {
        CompletableFuture<Position> added = new CompletableFuture<>();
        ByteBuf given = entry.retainedDuplicate();
        ledger.asyncAddEntry(given, new AsyncCallbacks.AddEntryCallback() {
            @Override
            public void addComplete(Position position, ByteBuf data, Object ctx) {
                added.complete(position);
            }

            @Override
            public void addFailed(ManagedLedgerException exception, Object ctx) {
                added.completeExceptionally(exception);
            }
        }, null);
        given.release();
        return added;
    }

    static CompletableFuture<Void> delete(ManagedLedger ledger) {
        CompletableFuture<Void> deleted = new CompletableFuture<>();
        ledger.asyncDelete(new AsyncCallbacks.DeleteLedgerCallback() {
            @Override
            public void deleteLedgerComplete(Object ctx) {
                deleted.complete(null);
            }

            @Override
            public void deleteLedgerFailed(ManagedLedgerException exception, Object ctx) {
                deleted.completeExceptionally(exception);
            }
        }, null);
        return deleted;
    }

    static CompletableFuture<Void> delete(ManagedCursor cursor, Position position) {
        CompletableFuture<Void> deleted = new CompletableFuture<>();
        cursor.asyncDelete(position, new AsyncCallbacks.DeleteCallback() {
            @Override
            public void deleteComplete(Object ctx) {
                deleted.complete(null);
            }

            @Override
            public void deleteFailed(ManagedLedgerException exception, Object ctx) {
                deleted.completeExceptionally(exception);
            }
        }, null);
        return deleted;
    }
}
