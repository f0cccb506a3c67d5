package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.read;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerMXBean;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.ManagedCursorContainer;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerMBeanImpl;
import org.apache.bookkeeper.mledger.util.StatsBuckets;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats;
import org.testng.annotations.Test;

/** Counts, sizes, the bean of a ledger and its internal report. */
public class LedgerStatisticsContractTest extends ContractTest {

    /** Members that stay as they are on Nereus: there are no ledgers to switch, no bookies, no cache in Java. */
    private static final Set<String> CONSTANT = Set.of("getLedgerSwitchLatencyBuckets",
        "getLedgerSwitchLatencyAverageUsec", "getPendingBookieOpsStats", "getReadEntriesOpsCacheMissesRate",
        "getReadEntriesOpsCacheMissesTotal");

    private static Map<String, Object> members(ManagedLedgerMXBean bean) throws Exception {
        Map<String, Object> values = new TreeMap<>();
        for (Method method : ManagedLedgerMXBean.class.getMethods()) {
            Object value = method.invoke(bean);
            assertThat(value).as(method.getName()).isNotNull();
            if (value instanceof long[] buckets) {
                value = Arrays.toString(buckets);
            } else if (value instanceof StatsBuckets buckets) {
                value = Arrays.toString(buckets.getBuckets());
            } else if (!(value instanceof Number) && !(value instanceof String)) {
                value = "an object";
            }
            values.put(method.getName(), value);
        }
        return values;
    }

    /** Appends, reads, acknowledges, and fails at each of them. */
    private static void use(ManagedLedger ledger, ManagedCursor cursor) throws Exception {
        List<Position> all = addMany(ledger, 10);
        texts(cursor.readEntries(5));
        cursor.markDelete(all.get(3));
        await(read(ledger, all.get(0))).release();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyMemberOfTheBeanMoves(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        RecordingInterceptor interceptor = new RecordingInterceptor();
        interceptor.failBefore = "fails";
        ManagedLedgerConfig config = world.config();
        config.setManagedLedgerInterceptor(interceptor);
        ManagedLedger ledger = world.open(name, config);
        ManagedCursor cursor = ledger.openCursor("c");
        ManagedLedgerMXBean bean = ledger.getStats();
        assertThat(bean.getName()).isEqualTo(name);
        Map<String, Object> before = members(bean);
        Set<String> still = new TreeSet<>(before.keySet());
        still.remove("getName");
        still.remove("getReadEntriesErrors"); // only storage that fails moves these two
        still.remove("getReadEntriesErrorsTotal");
        await("every member but the constants to move, still are " + still, () -> {
            use(ledger, cursor);
            failure(() -> add(ledger, "fails"));
            Map<String, Object> now = members(bean);
            still.removeIf(member -> !now.get(member).equals(before.get(member)));
            if (storage == Storage.STOCK) { // rates of what its cache serves stay 0
                return !still.contains("getAddEntryMessagesRate");
            }
            return still.equals(CONSTANT);
        });
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void totalsCountEveryAppendAndMarkDelete(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = ledger.openCursor("c");
        List<Position> all = addMany(ledger, 10);
        cursor.markDelete(all.get(1));
        cursor.markDelete(all.get(2));
        ManagedLedgerMXBean bean = ledger.getStats();
        assertThat(bean.getAddEntrySucceedTotal()).isEqualTo(10);
        assertThat(bean.getAddEntryBytesTotal()).isEqualTo(20);
        assertThat(bean.getAddEntryWithReplicasBytesTotal()).isEqualTo(20);
        assertThat(bean.getAddEntryErrorsTotal()).isZero();
        assertThat(bean.getMarkDeleteTotal()).isEqualTo(2);
        assertThat(bean.getStoredMessagesSize()).isEqualTo(20);
        assertThat(bean.getStoredMessagesLogicalSize()).isEqualTo(20);
        assertThat(bean.getNumberOfMessagesInBacklog()).isEqualTo(7);
        ledger.openCursor("all", InitialPosition.Earliest);
        assertThat(bean.getNumberOfMessagesInBacklog()).as("summed over the cursors").isEqualTo(17);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readsCountWhatStorageServed(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        addMany(world.open(name), 10);
        world.restart(); // nothing is cached by stock any more
        ManagedLedger ledger = world.open(name);
        texts(ledger.openCursor("c", InitialPosition.Earliest).readEntries(10));
        ManagedLedgerMXBean bean = ledger.getStats();
        assertThat(bean.getReadEntriesSucceededTotal()).isEqualTo(10);
        assertThat(bean.getReadEntriesBytesTotal()).isEqualTo(20);
        assertThat(bean.getReadEntriesErrorsTotal()).isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theMetricsPageMayTakeTheBeanForStocks(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedLedgerMBeanImpl bean = (ManagedLedgerMBeanImpl) ledger.getStats();
        addMany(ledger, 3);
        await("the buckets of the page to fill", () -> {
            add(ledger, "x");
            return Arrays.stream(bean.getAddEntryLatencyBuckets()).sum() > 0
                && Arrays.stream(bean.getInternalEntrySizeBuckets().getBuckets()).sum() > 0
                && bean.getLedgerAddEntryLatencyBuckets().length > 0;
        });
        bean.refreshStats(1, TimeUnit.SECONDS);
        assertThat(bean.getStoredMessagesSize()).isPositive();
    }

    /** By name, because the container is a class in Pulsar 4.0 and an interface later. */
    private static Object ask(Object object, String getter) throws Exception {
        Method method = object.getClass().getMethod(getter);
        method.setAccessible(true);
        return method.invoke(object);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theCursorsComeInTheContainerThatTheTimeQuotaLooksFor(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> all = addMany(ledger, 5);
        ManagedCursor slow = ledger.openCursor("slow", InitialPosition.Earliest);
        ManagedCursor fast = ledger.openCursor("fast", InitialPosition.Earliest);
        assertThat(ledger.getCursors()).isInstanceOf(ManagedCursorContainer.class);
        Iterable<ManagedCursor> container = ledger.getCursors();
        String slowest = ManagedCursorContainer.class.isInterface() ? "getSlowestCursor" : "getSlowestReader"; // Pulsar 4.1 renamed it
        fast.markDelete(all.get(3));
        slow.markDelete(all.get(1));
        assertThat(ask(container, slowest)).isSameAs(slow);
        assertThat(ask(container, slowest + "Position")).isEqualTo(all.get(1));
        Object oldest = ask(container, "getCursorWithOldestPosition");
        assertThat(ask(oldest, "getCursor")).isSameAs(slow);
        assertThat(ask(oldest, "getPosition")).isEqualTo(all.get(1));
        slow.markDelete(all.get(4));
        assertThat(ask(ask(container, "getCursorWithOldestPosition"), "getCursor")).isSameAs(fast);
        assertThat(ledger.getCursors()).containsExactlyInAnyOrder(slow, fast);
        assertThat(ledger.getActiveCursors()).containsExactlyInAnyOrder(slow, fast);
        slow.setInactive();
        assertThat(ledger.getActiveCursors()).containsExactly(fast);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void sizesFollowTheSlowestCursor(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        assertThat(ledger.getTotalSize()).isZero();
        assertThat(ledger.getEstimatedBacklogSize()).isZero();
        List<Position> all = addMany(ledger, 10);
        assertThat(ledger.getTotalSize()).isEqualTo(20);
        assertThat(ledger.getNumberOfActiveEntries()).as("nobody consumes").isZero();
        assertThat(ledger.getEstimatedBacklogSize()).isZero();
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        assertThat(ledger.getNumberOfActiveEntries()).isEqualTo(10);
        assertThat(ledger.getEstimatedBacklogSize()).isEqualTo(20);
        cursor.markDelete(all.get(3));
        assertThat(ledger.getNumberOfActiveEntries()).isEqualTo(6);
        assertThat(ledger.getEstimatedBacklogSize()).isEqualTo(12);
        assertThat(ledger.getEstimatedBacklogSize(all.get(7))).isEqualTo(4);
        assertThat(ledger.getEstimatedBacklogSize(all.get(9))).isZero();
        assertThat(ledger.getEstimatedBacklogSize(null)).isZero();
        assertThat(ledger.getEstimatedBacklogSize(PositionFactory.EARLIEST)).isEqualTo(20);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theEarliestPublishTimeIsThatOfTheFirstUnacknowledgedEntry(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        assertThat(await(ledger.getEarliestMessagePublishTimeInBacklog())).as("no cursor").isZero();
        ManagedCursor cursor = ledger.openCursor("c");
        assertThat(await(ledger.getEarliestMessagePublishTimeInBacklog())).as("no backlog").isEqualTo(-1);
        Position first = ledger.addEntry(Messages.published(1_000));
        ledger.addEntry(Messages.published(2_000));
        assertThat(await(ledger.getEarliestMessagePublishTimeInBacklog())).isEqualTo(1_000);
        cursor.markDelete(first);
        assertThat(await(ledger.getEarliestMessagePublishTimeInBacklog())).isEqualTo(2_000);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theInternalReportSaysWhereTheLedgerStands(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursor cursor = ledger.openCursor("c");
        List<Position> all = addMany(ledger, 4);
        cursor.markDelete(all.get(0));
        ManagedLedgerInternalStats report = await(ledger.getManagedLedgerInternalStats(false));
        assertThat(report.entriesAddedCounter).isEqualTo(4);
        assertThat(report.numberOfEntries).isEqualTo(4);
        assertThat(report.totalSize).isEqualTo(8);
        assertThat(report.currentLedgerEntries).isEqualTo(4);
        assertThat(report.currentLedgerSize).isEqualTo(8);
        assertThat(report.lastLedgerCreatedTimestamp).isNotEmpty();
        assertThat(report.lastLedgerCreationFailureTimestamp).isNull();
        assertThat(report.waitingCursorsCount).isZero();
        assertThat(report.pendingAddEntriesCount).isZero();
        assertThat(report.lastConfirmedEntry).isEqualTo(all.get(3).toString());
        assertThat(report.state).isEqualTo("LedgerOpened");
        assertThat(report.ledgers).singleElement().satisfies(info -> {
            assertThat(info.ledgerId).isEqualTo(all.get(3).getLedgerId());
            assertThat(info.offloaded).isFalse();
            assertThat(info.underReplicated).isFalse();
        });
        assertThat(report.cursors).containsOnlyKeys("c");
        assertThat(report.cursors.get("c").markDeletePosition).isEqualTo(all.get(0).toString());
        ledger.terminate();
        assertThat(await(ledger.getManagedLedgerInternalStats(false)).state).isEqualTo("Terminated");
        if (storage == Storage.NEREUS) { // stock asks BookKeeper's registration service, which the mock has not
            assertThat(await(ledger.getManagedLedgerInternalStats(true)).ledgers).hasSize(1);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void countsAndSizesComeBackAfterACrash(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ledger.openCursor("c");
        addMany(ledger, 10);
        world.crash();
        ManagedLedger again = world.open(name);
        assertThat(again.getNumberOfEntries()).isEqualTo(10);
        if (storage == Storage.NEREUS) { // the mock of BookKeeper does not tell the length of a recovered ledger
            assertThat(again.getTotalSize()).isEqualTo(20);
            assertThat(again.getEstimatedBacklogSize()).isEqualTo(20);
        }
        assertThat(again.getStats().getNumberOfMessagesInBacklog()).isEqualTo(10);
    }
}
