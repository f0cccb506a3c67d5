package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static org.assertj.core.api.Assertions.assertThat;

import java.lang.reflect.Method;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.ManagedLedgerFactoryMXBean;
import org.testng.annotations.Test;

/** ManagedLedgerFactory: configuration, caches and the factory's bean; the broker's dynamic settings reach them. */
public class FactoryCachesTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theConfigurationIsThatOfTheBroker(Storage storage) throws Exception {
        ManagedLedgerFactory factory = world(storage).factory();
        assertThat(factory.getConfig()).isNotNull().isSameAs(factory.getConfig());
        assertThat(factory.getConfig().getStatsPeriodSeconds()).isEqualTo(World.STATS_PERIOD_SECONDS);
        assertThat(factory.getConfig().getMaxCacheSize()).isPositive();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theEvictionThresholdReadsBackAsSet(Storage storage) throws Exception {
        ManagedLedgerFactory factory = world(storage).factory();
        assertThat(factory.getCacheEvictionTimeThreshold())
            .isEqualTo(TimeUnit.MILLISECONDS.toNanos(factory.getConfig().getCacheEvictionTimeThresholdMillis()));
        factory.updateCacheEvictionTimeThreshold(7_000_000);
        assertThat(factory.getCacheEvictionTimeThreshold()).isEqualTo(7_000_000);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void sizeAndWatermarkOfTheEntryCacheReadBackAsSet(Storage storage) throws Exception {
        var caches = world(storage).factory().getEntryCacheManager();
        assertThat(caches).isNotNull();
        caches.updateCacheSizeAndThreshold(12_345_678);
        assertThat(caches.getMaxSize()).isEqualTo(12_345_678);
        caches.updateCacheEvictionWatermark(0.5);
        assertThat(caches.getCacheEvictionWatermark()).isEqualTo(0.5);
        assertThat(caches.getSize()).isNotNegative();
        assertThat(world(storage).factory().getCacheStats().getCacheMaxSize()).isEqualTo(12_345_678);
        caches.removeEntryCache("no such ledger");
        caches.clear();
        assertThat(caches.getSize()).isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theBeanCountsOpenLedgers(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedgerFactoryMXBean bean = world.factory().getCacheStats();
        assertThat(bean.getNumberOfManagedLedgers()).isZero();
        ManagedLedger first = world.open(world.freshName());
        world.open(world.freshName());
        assertThat(bean.getNumberOfManagedLedgers()).isEqualTo(2);
        first.close();
        assertThat(bean.getNumberOfManagedLedgers()).isEqualTo(1);
        assertThat(world.factory().getCacheStats()).as("one bean for life").isSameAs(bean);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyMemberOfTheBeanAnswersAndTheJavaCacheOfNereusIsTrulyEmpty(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName());
        for (int i = 0; i < 10; i++) {
            add(ledger, "e" + i);
        }
        try (WholeLedger all = new WholeLedger(ledger)) {
            assertThat(Ledgers.texts(all.all())).hasSize(10);
        }
        ManagedLedgerFactoryMXBean bean = world.factory().getCacheStats();
        int members = 0;
        for (Method member : ManagedLedgerFactoryMXBean.class.getMethods()) {
            double value = ((Number) member.invoke(bean)).doubleValue();
            assertThat(value).as(member.getName()).isNotNegative();
            members++;
            boolean ofCache = !member.getName().equals("getNumberOfManagedLedgers")
                && !member.getName().equals("getCacheMaxSize");
            if (storage == Storage.NEREUS && ofCache) { // caches are native: no hit ever shows in Java
                assertThat(value).as(member.getName()).isZero();
            }
        }
        assertThat(members).isGreaterThanOrEqualTo(16);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theMapOfLedgersIsTheCallersOwn(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName());
        var listed = world.factory().getManagedLedgers();
        assertThat(listed).containsOnly(java.util.Map.entry(ledger.getName(), ledger));
        world.open(world.freshName());
        if (storage == Storage.NEREUS) {
            assertThat(listed).hasSize(1);
        }
        assertThat(await(world.factory().asyncExists(ledger.getName()))).isTrue();
    }
}
