package io.nereus.bench.ledger;

import io.nereus.bench.Figures;
import io.nereus.bench.Proc;
import io.nereus.bench.WorkerMain;
import io.netty.buffer.ByteBuf;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.ManagedLedger;

/** Many ledgers at a time, each with a subscription: made, opened again, and then only there. */
final class OpenLoad {

    private static final int AT_A_TIME = 64;
    private static final int SECONDS = 120;
    private static final long IDLE_MILLIS = 3_000;

    private OpenLoad() {
    }

    static String name(int number) {
        return "public/default/persistent/many-" + number;
    }

    /** Opens the ledgers from {@code from} to {@code to}, which need not exist. */
    static List<ManagedLedger> open(LedgerStore store, int from, int to) throws Exception {
        InFlight opens = new InFlight(AT_A_TIME, SECONDS);
        List<CompletableFuture<ManagedLedger>> opened = new ArrayList<>();
        for (int i = from; i < to; i++) {
            opens.enter();
            CompletableFuture<ManagedLedger> one = Calls.open(store.factory(), name(i), store.ledgerConfig());
            opened.add(one);
            opens.follow(one);
        }
        opens.drain();
        return opened.stream().map(CompletableFuture::join).toList();
    }

    /** Deletes open ledgers: what was measured must not fill the disk of what comes next. */
    static void delete(List<ManagedLedger> ledgers) throws Exception {
        InFlight deletes = new InFlight(AT_A_TIME, SECONDS);
        for (ManagedLedger ledger : ledgers) {
            deletes.enter();
            deletes.follow(Calls.delete(ledger));
        }
        deletes.drain();
    }

    /** Makes ledgers, each with one entry and one subscription; {@code seconds} is how long that took. */
    static Figures create(LedgerStore store, int count, ByteBuf entry) throws Exception {
        WorkerMain.begin();
        long start = System.nanoTime();
        InFlight opens = new InFlight(AT_A_TIME, SECONDS);
        for (int i = 0; i < count; i++) {
            opens.enter();
            opens.follow(Calls.open(store.factory(), name(i), store.ledgerConfig())
                .thenCompose(ledger -> Calls.cursor(ledger, "sub").thenCompose(cursor -> Calls.add(ledger, entry))));
        }
        opens.drain();
        double seconds = (System.nanoTime() - start) / 1e9;
        WorkerMain.end();
        return new Figures().with("seconds", seconds).with("all", count);
    }

    /**
     * Opens ledgers that exist, with their subscriptions, and leaves them alone.
     *
     * @return {@code seconds} that it took; {@code heap} and {@code native} bytes for each, once all are idle. The JVM must
     *     have its whole heap resident from the start: then what is resident beyond it is native
     */
    static Figures reopen(LedgerStore store, int count) throws Exception {
        long heap = heapBytes();
        long resident = Proc.residentBytes(ProcessHandle.current().pid());
        WorkerMain.begin();
        long start = System.nanoTime();
        InFlight opens = new InFlight(AT_A_TIME, SECONDS);
        for (int i = 0; i < count; i++) {
            opens.enter();
            opens.follow(Calls.open(store.factory(), name(i), store.ledgerConfig())
                .thenCompose(ledger -> Calls.cursor(ledger, "sub")));
        }
        opens.drain();
        double seconds = (System.nanoTime() - start) / 1e9;
        Thread.sleep(IDLE_MILLIS);
        Figures figures = new Figures().with("seconds", seconds)
            .with("heap", (double) (heapBytes() - heap) / count)
            .with("native", (double) (Proc.residentBytes(ProcessHandle.current().pid()) - resident) / count);
        WorkerMain.end();
        return figures;
    }

    /** What is live on the heap. */
    private static long heapBytes() throws InterruptedException {
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(200);
        }
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
