package io.nereus.bench.ledger;

import io.nereus.bench.Figures;
import io.nereus.bench.WorkerMain;
import io.netty.buffer.ByteBuf;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.Position;

/**
 * Every other entry of a ledger is acknowledged, in random order, at an even pace, as a shared subscription with slow
 * consumers does it: each ack makes a hole. Then the ledger is closed, so that all of it is persisted, and opened again.
 */
final class AckLoad {

    private static final int OUTSTANDING = 512;
    private static final int SECONDS = 120;
    private static final int RELOADS = 9;
    private static final String CURSOR = "sub";

    private final LedgerStore store;
    private final String name;
    private final int holes;

    AckLoad(LedgerStore store, String name, int holes) {
        this.store = store;
        this.name = name;
        this.holes = holes;
    }

    /**
     * Runs it.
     *
     * @return {@code bytes} that the cursor wrote by its own statistics, {@code persists}, {@code reload} in milliseconds
     *     (the median of nine), {@code seconds} until everything was persisted
     */
    Figures run(ByteBuf entry, double ackSeconds) throws Exception {
        ManagedLedger ledger = Calls.open(store.factory(), name, store.ledgerConfig()).get(SECONDS, TimeUnit.SECONDS);
        ManagedCursor cursor = Calls.cursor(ledger, CURSOR).get(SECONDS, TimeUnit.SECONDS);
        List<Position> acked = everyOther(fill(ledger, entry));
        Collections.shuffle(acked, new Random(1));
        WorkerMain.begin();
        long start = System.nanoTime();
        InFlight acks = new InFlight(holes, SECONDS);
        for (int i = 0; i < holes; i++) {
            long due = start + (long) (i * ackSeconds * 1e9 / holes);
            for (long early; (early = due - System.nanoTime()) > 100_000; ) {
                LockSupport.parkNanos(early);
            }
            acks.enter();
            acks.follow(Calls.delete(cursor, acked.get(i)));
        }
        acks.drain();
        ledger.close();
        double seconds = (System.nanoTime() - start) / 1e9;
        WorkerMain.end();
        Figures figures = new Figures().with("bytes", cursor.getStats().getWriteCursorLedgerSize())
            .with("persists", cursor.getStats().getPersistLedgerSucceed()).with("seconds", seconds);
        return figures.with("reload", reload());
    }

    private double reload() throws Exception {
        List<Double> millis = new ArrayList<>();
        for (int i = 0; i < RELOADS; i++) {
            long start = System.nanoTime();
            ManagedLedger ledger = Calls.open(store.factory(), name, store.ledgerConfig()).get(SECONDS, TimeUnit.SECONDS);
            ManagedCursor cursor = Calls.cursor(ledger, CURSOR).get(SECONDS, TimeUnit.SECONDS);
            long left = cursor.getNumberOfEntriesInBacklog(false);
            millis.add((System.nanoTime() - start) / 1e6);
            if (left != holes) {
                throw new IllegalStateException("after the reload " + left + " entries are not acknowledged instead of " + holes);
            }
            ledger.close();
        }
        Collections.sort(millis);
        return millis.get(RELOADS / 2);
    }

    private List<Position> fill(ManagedLedger ledger, ByteBuf entry) throws Exception {
        List<CompletableFuture<Position>> added = new ArrayList<>();
        InFlight adds = new InFlight(OUTSTANDING, SECONDS);
        for (int i = 0; i < 2 * holes; i++) {
            adds.enter();
            CompletableFuture<Position> one = Calls.add(ledger, entry);
            added.add(one);
            adds.follow(one);
        }
        adds.drain();
        return added.stream().map(CompletableFuture::join).toList();
    }

    private static List<Position> everyOther(List<Position> all) {
        List<Position> chosen = new ArrayList<>();
        for (int i = 1; i < all.size(); i += 2) {
            chosen.add(all.get(i));
        }
        return chosen;
    }
}
