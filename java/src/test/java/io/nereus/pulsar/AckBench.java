package io.nereus.pulsar;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.MarkDeleteCallback;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;

/**
 * What acknowledgements cost: {@code main} prints acks and persists per second and bytes persisted per ack. Loads: one
 * caller that waits for each mark-delete; one cursor whose individual acks all come at once; many cursors, each waiting
 * for each of its mark-deletes, or not waiting; and the opening of a ledger with a large cursor. Not a test: nothing
 * here is asserted.
 */
public final class AckBench {

    private static final long SECONDS = 120;

    private AckBench() {
    }

    /** Runs every load twice, because the first run warms up. */
    public static void main(String[] args) throws Exception {
        try (LedgerFixture fixture = new LedgerFixture()) {
            synchronous(fixture, 1000);
            synchronous(fixture, 1000);
            individual(fixture, 100_000);
            individual(fixture, 100_000);
            many(fixture, 1000, 20);
            many(fixture, 1000, 20);
            manyAtOnce(fixture, 1000, 20);
            manyAtOnce(fixture, 1000, 20);
            recovery(fixture);
        }
    }

    private static void synchronous(LedgerFixture fixture, int acks) throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        ManagedCursor cursor = ledger.openCursor("sub", InitialPosition.Earliest);
        List<Position> positions = add(ledger, acks);
        long start = System.nanoTime();
        for (Position position : positions) {
            cursor.markDelete(position);
        }
        report("1 cursor, synchronous mark-deletes", acks, start, List.of(cursor));
        ledger.close();
    }

    private static void individual(LedgerFixture fixture, int acks) throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        ManagedCursor cursor = ledger.openCursor("sub", InitialPosition.Earliest);
        List<Position> positions = add(ledger, 2 * acks);
        long start = System.nanoTime();
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        for (int i = 1; i < 2 * acks; i += 2) {
            answers.add(delete(cursor, positions.get(i)));
        }
        await(answers);
        report("1 cursor, asynchronous individual acks", acks, start, List.of(cursor));
        ledger.close();
    }

    private static void many(LedgerFixture fixture, int cursorCount, int acks) throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        List<ManagedCursor> cursors = new ArrayList<>();
        for (int i = 0; i < cursorCount; i++) {
            cursors.add(ledger.openCursor("sub" + i, InitialPosition.Earliest));
        }
        List<Position> positions = add(ledger, acks);
        long before = cursors.stream().mapToLong(c -> c.getStats().getPersistLedgerSucceed()).sum();
        long start = System.nanoTime();
        List<CompletableFuture<Void>> ends = new ArrayList<>();
        for (ManagedCursor cursor : cursors) {
            CompletableFuture<Void> end = new CompletableFuture<>();
            ends.add(end);
            next(cursor, positions, 0, end);
        }
        await(ends);
        report(cursorCount + " cursors, one mark-delete in flight each (" + before + " persists before)",
            cursorCount * acks, start, cursors);
        ledger.close();
    }

    private static void manyAtOnce(LedgerFixture fixture, int cursorCount, int acks) throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        List<ManagedCursor> cursors = new ArrayList<>();
        for (int i = 0; i < cursorCount; i++) {
            cursors.add(ledger.openCursor("sub" + i, InitialPosition.Earliest));
        }
        List<Position> positions = add(ledger, acks);
        long start = System.nanoTime();
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        for (Position position : positions) {
            for (ManagedCursor cursor : cursors) {
                answers.add(delete(cursor, position));
            }
        }
        await(answers);
        report(cursorCount + " cursors, acks without waiting", cursorCount * acks, start, cursors);
        ledger.close();
    }

    /** A million holes and a hundred thousand partly acknowledged batches. */
    private static void recovery(LedgerFixture fixture) throws Exception {
        NereusManagedLedger ledger = fixture.ledger(LedgerFixture.freshName());
        ManagedCursor cursor = ledger.openCursor("sub", InitialPosition.Earliest);
        List<Position> positions = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            positions.addAll(add(ledger, 100_000));
        }
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        for (int i = 1; i < positions.size(); i += 2) {
            answers.add(delete(cursor, positions.get(i)));
        }
        for (int i = 0; i < 200_000; i += 2) {
            Position position = positions.get(i);
            answers.add(delete(cursor, AckSetStateUtil.createPositionWithAckSet(position.getLedgerId(),
                position.getEntryId(), new long[] {0b1100})));
        }
        await(answers);
        ledger.close();
        long start = System.nanoTime();
        NereusManagedLedger again = fixture.ledger(ledger.getName());
        double millis = (System.nanoTime() - start) / 1e6;
        System.out.printf("opened a cursor of %,d holes and 100,000 partly acknowledged batches in %,.0f ms%n",
            again.openCursor("sub").getTotalNonContiguousDeletedMessagesRange(), millis);
        again.close();
    }

    private static void next(ManagedCursor cursor, List<Position> positions, int at, CompletableFuture<Void> end) {
        if (at == positions.size()) {
            end.complete(null);
            return;
        }
        cursor.asyncMarkDelete(positions.get(at), new MarkDeleteCallback() {
            @Override
            public void markDeleteComplete(Object ctx) {
                next(cursor, positions, at + 1, end);
            }

            @Override
            public void markDeleteFailed(ManagedLedgerException exception, Object ctx) {
                end.completeExceptionally(exception);
            }
        }, null);
    }

    private static CompletableFuture<Void> delete(ManagedCursor cursor, Position position) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        cursor.asyncDelete(position, new DeleteCallback() {
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

    private static List<Position> add(NereusManagedLedger ledger, int entries) throws Exception {
        List<CompletableFuture<Position>> added = new ArrayList<>();
        for (int i = 0; i < entries; i++) {
            CompletableFuture<Position> one = new CompletableFuture<>();
            added.add(one);
            ledger.asyncAddEntry(new byte[] {1}, Callbacks.added(one), null);
        }
        List<Position> positions = new ArrayList<>();
        for (CompletableFuture<Position> one : added) {
            positions.add(one.get(SECONDS, TimeUnit.SECONDS));
        }
        return positions;
    }

    private static void await(List<CompletableFuture<Void>> answers) throws Exception {
        CompletableFuture.allOf(answers.toArray(CompletableFuture[]::new)).get(SECONDS, TimeUnit.SECONDS);
    }

    private static void report(String what, int acks, long startNanos, List<ManagedCursor> cursors) {
        double seconds = (System.nanoTime() - startNanos) / 1e9;
        long persists = cursors.stream().mapToLong(c -> c.getStats().getPersistLedgerSucceed()).sum();
        long bytes = cursors.stream().mapToLong(c -> c.getStats().getWriteCursorLedgerSize()).sum();
        System.out.printf("%-70s %,10.0f acks/s %,9.0f persists/s %,8.1f acks/persist %,9.1f bytes/ack%n", what,
            acks / seconds, persists / seconds, (double) acks / persists, (double) bytes / acks);
    }
}
