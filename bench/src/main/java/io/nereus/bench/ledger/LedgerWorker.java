package io.nereus.bench.ledger;

import io.nereus.bench.Figures;
import io.nereus.bench.Side;
import io.nereus.bench.WorkerMain;
import io.netty.buffer.ByteBuf;
import io.prometheus.client.Collector.MetricFamilySamples;
import io.prometheus.client.CollectorRegistry;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.pulsar.common.allocator.PulsarByteBufAllocator;

/**
 * The worker of the ledger level. System properties: {@code bench.data} (a directory), {@code bench.metadata.nereus} and
 * {@code bench.metadata.stock} (metadata store URLs). A side is opened by the first command that names it.
 */
public final class LedgerWorker implements WorkerMain.Duty {

    private static final int ENTRY_BYTES = 1024;
    private static final int SMALL_BYTES = 16;

    private final Path data = Path.of(System.getProperty("bench.data"));
    private final Map<Side, LedgerStore> stores = new EnumMap<>(Side.class);
    private final Map<Side, List<ManagedLedger>> kept = new EnumMap<>(Side.class);
    private final ByteBuf entry = noise(ENTRY_BYTES);
    private final ByteBuf small = noise(SMALL_BYTES);
    private int ledgers;

    private LedgerWorker() {
    }

    /** Commands: see {@link #run}. */
    public static void main(String[] args) {
        WorkerMain.serve(new LedgerWorker());
    }

    private static ByteBuf noise(int bytes) {
        byte[] noise = new byte[bytes];
        new Random(1).nextBytes(noise);
        return PulsarByteBufAllocator.DEFAULT.directBuffer(bytes).writeBytes(noise);
    }

    /**
     * append SIDE OUTSTANDING LEDGERS WARM SECONDS, drop SIDE, acks SIDE HOLES SECONDS,
     * create SIDE LEDGERS, reopen SIDE LEDGERS, bare OUTSTANDING WARM SECONDS, syncs.
     */
    @Override
    public Figures run(String[] words) throws Exception {
        switch (words[0]) {
            case "append":
                return append(Side.of(words[1]), integer(words[2]), integer(words[3]), number(words[4]), number(words[5]));
            case "drop":
                OpenLoad.delete(kept.remove(Side.of(words[1])));
                return new Figures();
            case "acks":
                return new AckLoad(store(words[1]), freshName(), integer(words[2])).run(small, number(words[3]));
            case "create":
                return OpenLoad.create(store(words[1]), integer(words[2]), entry);
            case "reopen":
                stores.remove(Side.of(words[1])).close();
                return OpenLoad.reopen(store(words[1]), integer(words[2]));
            case "bare":
                return bare(integer(words[1]), number(words[2]), number(words[3]));
            case "syncs":
                return new Figures().with("syncs", nereusSyncs());
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private static int integer(String word) {
        return Integer.parseInt(word);
    }

    private static double number(String word) {
        return Double.parseDouble(word);
    }

    private String freshName() {
        return "public/default/persistent/fresh-" + ledgers++;
    }

    private LedgerStore store(String side) throws Exception {
        return store(Side.of(side));
    }

    private LedgerStore store(Side side) throws Exception {
        LedgerStore store = stores.get(side);
        if (store == null) {
            store = new LedgerStore(side, System.getProperty("bench.metadata." + side.id()), data.resolve("nereus").toString());
            stores.put(side, store);
        }
        return store;
    }

    /** One ledger is a new one and is deleted afterwards; many are the first of those that stay open until they are dropped. */
    private Figures append(Side side, int outstanding, int count, double warm, double seconds) throws Exception {
        LedgerStore store = store(side);
        if (count == 1) {
            ManagedLedger fresh = store.factory().open(freshName(), store.ledgerConfig());
            Figures figures = appends(List.of(fresh), outstanding, warm, seconds);
            fresh.delete();
            return figures;
        }
        List<ManagedLedger> open = kept.computeIfAbsent(side, none -> new ArrayList<>());
        if (open.size() < count) {
            open.addAll(OpenLoad.open(store, open.size(), count));
        }
        return appends(open.subList(0, count), outstanding, warm, seconds);
    }

    private Figures appends(List<ManagedLedger> ledgers, int outstanding, double warm, double seconds) throws Exception {
        return new ClosedLoop(new LedgerAppends(ledgers, outstanding), entry, outstanding).run(warm, seconds);
    }

    private Figures bare(int outstanding, double warm, double seconds) throws Exception {
        try (BareLog log = new BareLog(data.resolve("bare-log"))) {
            Figures figures = new ClosedLoop(log, entry, outstanding).run(warm, seconds);
            return figures.with("syncs", log.syncs());
        }
    }

    /** What the engine itself says, where a broker's page takes it from. */
    private static double nereusSyncs() {
        for (MetricFamilySamples family : Collections.list(CollectorRegistry.defaultRegistry.metricFamilySamples())) {
            for (MetricFamilySamples.Sample sample : family.samples) {
                if (sample.name.equals("nereus_journal_syncs_total")) {
                    return sample.value;
                }
            }
        }
        throw new IllegalStateException("the engine shows no nereus_journal_syncs_total");
    }

    @Override
    public void close() {
        stores.values().forEach(LedgerStore::close);
    }
}
