package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.MarkDeleteCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ResetCursorCallback;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;

/** The asynchronous calls on a cursor as futures. Public for the tests of the facade itself. */
public final class CursorCalls {

    private CursorCalls() {
    }

    /** The durable cursor {@code name}, made before the first entry if it is not there. */
    static ManagedCursor earliest(ManagedLedger ledger, String name) throws Exception {
        return ledger.openCursor(name, InitialPosition.Earliest);
    }

    /** {@code position} with those messages of its batch still unacknowledged whose bits are set. */
    static Position batch(Position position, long... unacked) {
        return AckSetStateUtil.createPositionWithAckSet(position.getLedgerId(), position.getEntryId(), unacked);
    }

    /** The texts of what the cursor reads next, at most {@code most}, without waiting for entries. */
    static List<String> read(ManagedCursor cursor, int most) throws Exception {
        return cursor.hasMoreEntries() ? texts(cursor.readEntries(most)) : List.of();
    }

    /** The backlog is the same figure whichever way it is asked for. */
    public static void assertBacklog(ManagedCursor cursor, long expected) {
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).as("precise backlog").isEqualTo(expected);
        assertThat(cursor.getNumberOfEntriesInBacklog(false)).as("cheap backlog").isEqualTo(expected);
    }

    static CompletableFuture<Void> delete(ManagedCursor cursor, Position... positions) {
        return delete(cursor, List.of(positions));
    }

    public static CompletableFuture<Void> delete(ManagedCursor cursor, Iterable<Position> positions) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        cursor.asyncDelete(positions, new DeleteCallback() {
            @Override
            public void deleteComplete(Object ctx) {
                done.complete(null);
            }

            @Override
            public void deleteFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
        return done;
    }

    public static CompletableFuture<Void> markDelete(ManagedCursor cursor, Position position, Map<String, Long> properties) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        cursor.asyncMarkDelete(position, properties, new MarkDeleteCallback() {
            @Override
            public void markDeleteComplete(Object ctx) {
                done.complete(null);
            }

            @Override
            public void markDeleteFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
        return done;
    }

    static CompletableFuture<Object> reset(ManagedCursor cursor, Position position) {
        return reset(cursor, position, false);
    }

    /** Answers the new read position. */
    public static CompletableFuture<Object> reset(ManagedCursor cursor, Position position, boolean force) {
        CompletableFuture<Object> done = new CompletableFuture<>();
        cursor.asyncResetCursor(position, force, new ResetCursorCallback() {
            @Override
            public void resetComplete(Object ctx) {
                done.complete(ctx);
            }

            @Override
            public void resetFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        });
        return done;
    }

    static CompletableFuture<ManagedCursor> open(ManagedLedger ledger, String name) {
        CompletableFuture<ManagedCursor> done = new CompletableFuture<>();
        ledger.asyncOpenCursor(name, new OpenCursorCallback() {
            @Override
            public void openCursorComplete(ManagedCursor cursor, Object ctx) {
                done.complete(cursor);
            }

            @Override
            public void openCursorFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
        return done;
    }

    static CompletableFuture<Void> drop(ManagedLedger ledger, String name) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        ledger.asyncDeleteCursor(name, new DeleteCursorCallback() {
            @Override
            public void deleteCursorComplete(Object ctx) {
                done.complete(null);
            }

            @Override
            public void deleteCursorFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
        return done;
    }

    static CompletableFuture<Void> close(ManagedCursor cursor) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        cursor.asyncClose(new CloseCallback() {
            @Override
            public void closeComplete(Object ctx) {
                done.complete(null);
            }

            @Override
            public void closeFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null);
        return done;
    }

    static void awaitAll(List<? extends CompletableFuture<?>> answers) throws Exception {
        await(CompletableFuture.allOf(answers.toArray(CompletableFuture[]::new)));
    }
}
