package io.nereus.pulsar.contract;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.common.util.OrderedScheduler;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.ManagedLedgerFactoryConfig;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerFactoryImpl;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/** Pulsar's factory over a mock of BookKeeper in memory. */
final class StockBackend implements Backend {

    private static final long THREADS_SECONDS = 5;

    private final OrderedScheduler threads = OrderedScheduler.newSchedulerBuilder().numThreads(2).name("stock").build();
    private final FencingBookKeeper bookKeeper;
    private final List<Broker> running = new ArrayList<>();
    private final List<Broker> killed = new ArrayList<>();

    StockBackend() throws Exception {
        bookKeeper = new FencingBookKeeper(threads);
    }

    @Override
    public Broker start(MetadataStoreExtended store) throws Exception {
        ManagedLedgerFactoryConfig config = new ManagedLedgerFactoryConfig();
        config.setNumManagedLedgerSchedulerThreads(2);
        config.setStatsPeriodSeconds(World.STATS_PERIOD_SECONDS);
        ManagedLedgerFactoryImpl factory = new ManagedLedgerFactoryImpl(store, bookKeeper, config);
        Broker broker = new Broker() {
            @Override
            public ManagedLedgerFactory factory() {
                return factory;
            }

            @Override
            public void stop() throws Exception {
                running.remove(this);
                try {
                    Factories.shutdown(factory);
                } catch (ManagedLedgerException.ManagedLedgerFactoryClosedException e) {
                    // the test closed it
                }
            }
        };
        running.add(broker);
        return broker;
    }

    /** The bookies live on; the next open of a ledger fences the handle of the killed process. */
    @Override
    public void kill() {
        killed.addAll(running);
        running.clear();
    }

    @Override
    public void close() throws Exception {
        for (Broker broker : killed) {
            try {
                broker.factory().shutdown();
            } catch (ManagedLedgerException e) {
                // a killed broker reaches no metadata store: its ledgers cannot close cleanly
            }
        }
        bookKeeper.shutdown();
        threads.shutdownNow();
        threads.awaitTermination(THREADS_SECONDS, TimeUnit.SECONDS);
    }
}
