package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.rollIfFull;
import static io.nereus.pulsar.contract.LedgerCalls.stored;
import static io.nereus.pulsar.contract.LedgerCalls.trim;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerAlreadyClosedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/**
 * What retention, truncation and trimming let go of, and what they keep. With few entries to a ledger both storages have
 * the same unit: stock deletes ledgers, Nereus parts that end where stock would have closed a ledger.
 */
public class RetentionContractTest extends ContractTest {

    private static ManagedLedgerConfig retaining(World world, int minutes, int megabytes) {
        return world.config().setMaxEntriesPerLedger(2).setRetentionTime(minutes, TimeUnit.MINUTES)
            .setRetentionSizeInMB(megabytes);
    }

    /** Trims until at most {@code entries} are left: stock's open ledger is closed by the append that fills it. */
    private static void trimTo(ManagedLedger ledger, long entries) {
        await("retention to leave " + entries + " entries", () -> {
            trim(ledger);
            return ledger.getNumberOfEntries() <= entries;
        });
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whatIsConsumedGoesAndWhatIsNotStays(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, 0, 0));
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        List<Position> all = addMany(ledger, 9);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(9);
        cursor.markDelete(all.get(4));
        trimTo(ledger, 5);
        assertThat(ledger.getNumberOfEntries()).as("whole parts of two").isEqualTo(5);
        assertThat(texts(cursor.readEntries(10))).containsExactly("e5", "e6", "e7", "e8");
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(4);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theSlowestDurableCursorDecides(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, 0, 0));
        ManagedCursor slow = ledger.openCursor("slow", InitialPosition.Earliest);
        ManagedCursor fast = ledger.openCursor("fast", InitialPosition.Earliest);
        List<Position> all = addMany(ledger, 9);
        fast.markDelete(all.get(8));
        trim(ledger);
        assertThat(stored(ledger)).hasSize(9);
        assertThat(ledger.getSlowestConsumer().getName()).isEqualTo("slow");
        slow.markDelete(all.get(3));
        trimTo(ledger, 5);
        assertThat(stored(ledger)).containsExactly("e4", "e5", "e6", "e7", "e8");
        ledger.deleteCursor("slow");
        trimTo(ledger, 1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aLiveReaderKeepsWhatItHasNotAcknowledged(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, 0, 0));
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        Position last = addMany(ledger, 9).get(8);
        cursor.markDelete(last);
        trim(ledger);
        if (storage == Storage.STOCK) { // stock deletes below a reader and moves it
            trimTo(ledger, 1);
            assertThat(texts(reader.readEntries(10))).containsExactly("e8");
            return;
        }
        assertThat(texts(reader.readEntries(10))).hasSize(9);
        reader.markDelete(last);
        trimTo(ledger, 1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReaderThatNeverReadDoesNotStandBeforeTheFirstEntry_case_049(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, 0, 0));
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        Position last = addMany(ledger, 8).get(7);
        cursor.markDelete(last);
        assertThat(ledger.getSlowestConsumer().getName()).as("readers are not among the slowest").isEqualTo("c");
        await(ledger.asyncTruncate());
        add(ledger, "next");
        trim(ledger);
        assertThat(texts(reader.readEntries(10))).endsWith("next");
        assertThat(reader.getNumberOfEntriesInBacklog(true)).isLessThanOrEqualTo(ledger.getNumberOfEntries());
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void timeKeepsWhatIsYoung(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, 60, -1));
        addMany(ledger, 7);
        world.clock().advance(Duration.ofMinutes(59));
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(7);
        world.clock().advance(Duration.ofMinutes(2));
        trimTo(ledger, 1);
        assertThat(stored(ledger)).containsExactly("e6");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void sizeKeepsWhatFillsIt(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, -1, 1));
        for (int i = 0; i < 13; i++) {
            ledger.addEntry(new byte[200_000]);
        }
        trimTo(ledger, 7);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).as("without one more part less than 1 MB would be left").isEqualTo(7);
        assertThat(ledger.getTotalSize()).isEqualTo(7 * 200_000);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void minusOneKeepsForEver(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, -1, -1));
        addMany(ledger, 7);
        world.clock().advance(Duration.ofDays(10_000));
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(7);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aNewConfigurationHoldsAtOnce_case_114(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, -1, -1));
        addMany(ledger, 7);
        trim(ledger);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(7);
        ManagedLedgerConfig changed = retaining(world, 0, 0);
        changed.setThrottleMarkDelete(7);
        ManagedCursor cursor = ledger.openCursor("c");
        ledger.setConfig(changed);
        assertThat(ledger.getConfig()).isSameAs(changed);
        assertThat(cursor.getThrottleMarkDelete()).isCloseTo(7, within(0.001));
        trimTo(ledger, 1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aQuietLedgerIsLetGoByTime_case_050(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedgerConfig config = world.config().setMaxEntriesPerLedger(50_000);
        config.setMaximumRolloverTime(30, TimeUnit.MINUTES);
        ManagedLedger ledger = world.open(world.freshName(), config);
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        Position last = addMany(ledger, 5).get(4);
        cursor.markDelete(last);
        world.clock().advance(Duration.ofMinutes(40));
        if (storage == Storage.STOCK) { // stock rolls on a timer of the wall clock only
            rollIfFull(ledger);
            trimTo(ledger, 5);
            return;
        }
        trimTo(ledger, 0);
        assertThat(ledger.getTotalSize()).isZero();
        assertThat(ledger.getLastConfirmedEntry()).isEqualTo(last);
        assertThat(add(ledger, "next")).isGreaterThan(last);
        assertThat(texts(cursor.readEntries(5))).containsExactly("next");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aFullLedgerIsRolledWhenAskedTo(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedgerConfig config = world.config();
        config.setMaximumRolloverTime(30, TimeUnit.MINUTES);
        ManagedLedger ledger = world.open(world.freshName(), config);
        addMany(ledger, 5);
        rollIfFull(ledger);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(5);
        world.clock().advance(Duration.ofMinutes(40));
        rollIfFull(ledger);
        trimTo(ledger, 0);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anInactiveLedgerIsRolled(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedgerConfig config = world.config();
        config.setInactiveLedgerRollOverTime(1, TimeUnit.MILLISECONDS);
        ManagedLedger ledger = world.open(world.freshName(), config);
        assertThat(ledger.checkInactiveLedgerAndRollOver()).as("nothing in it").isFalse();
        addMany(ledger, 3);
        world.clock().advance(Duration.ofMinutes(5)); // Nereus goes by this clock, stock by the wall's
        await("the ledger to be found inactive", ledger::checkInactiveLedgerAndRollOver);
        trimTo(ledger, 0);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void truncationAcknowledgesForAllAndDropsTheData(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, -1, -1));
        ManagedCursor a = ledger.openCursor("a", InitialPosition.Earliest);
        ManagedCursor b = ledger.openCursor("b", InitialPosition.Earliest);
        List<Position> all = addMany(ledger, 8);
        b.delete(all.get(5));
        await(ledger.asyncTruncate());
        assertThat(ledger.getNumberOfEntries()).isZero();
        assertThat(ledger.getTotalSize()).isZero();
        for (ManagedCursor cursor : List.of(a, b)) {
            assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
            assertThat(cursor.hasMoreEntries()).isFalse();
        }
        add(ledger, "next");
        assertThat(texts(b.readEntries(10))).containsExactly("next");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aTrimOfAClosedLedgerIsRefused(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ledger.close();
        assertThat(failure(() -> trim(ledger))).isInstanceOf(ManagedLedgerAlreadyClosedException.class);
        if (storage == Storage.NEREUS) { // stock's answer depends on the cursors
            assertThat(failure(() -> await(ledger.asyncTruncate())))
                .isInstanceOf(ManagedLedgerAlreadyClosedException.class);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void trimmingWhileCursorsMoveLeavesNoNegativeBacklog_case_006(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name, retaining(world, 0, 0));
        ManagedCursor first = ledger.openCursor("first", InitialPosition.Earliest);
        List<Position> all = addMany(ledger, 12);
        CompletableFuture<Void> moving = CompletableFuture.runAsync(() -> {
            try {
                for (int i = 0; i < 12; i++) {
                    first.markDelete(all.get(i));
                    ledger.openCursor("c" + i, InitialPosition.Earliest).markDelete(all.get(11));
                }
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        while (!moving.isDone()) {
            trim(ledger);
        }
        await(moving);
        trim(ledger);
        world.crash();
        ManagedLedger again = world.open(name, retaining(world, 0, 0));
        for (ManagedCursor cursor : again.getCursors()) {
            assertThat(cursor.getNumberOfEntriesInBacklog(true)).as("backlog of %s", cursor.getName()).isZero();
            assertThat(cursor.hasMoreEntries()).isFalse();
        }
        add(again, "next");
        assertThat(texts(again.openCursor("first").readEntries(10))).containsExactly("next");
        trim(again);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReaderMadeWhileTrimmingStandsAtTheFirstLiveEntry_case_047(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, 0, 0));
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        Position last = addMany(ledger, 31).get(30);
        cursor.markDelete(last);
        List<ManagedCursor> readers = new ArrayList<>();
        CompletableFuture<Void> trimming = CompletableFuture.runAsync(() -> trimTo(ledger, 31));
        do {
            readers.add(ledger.newNonDurableCursor(PositionFactory.EARLIEST));
        } while (!trimming.isDone());
        await(trimming);
        for (ManagedCursor reader : readers) {
            long backlog = reader.getNumberOfEntriesInBacklog(true);
            assertThat(backlog).isBetween(0L, ledger.getNumberOfEntries());
            if (backlog > 0) {
                assertThat(texts(reader.readEntries(100))).hasSize((int) backlog);
            }
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAckOfATrimmedEntryPassesOverNothingLive_case_033(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, 0, 0));
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        List<Position> all = addMany(ledger, 9);
        cursor.markDelete(all.get(3));
        trimTo(ledger, 5);
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST);
        Position before = reader.getReadPosition();
        try {
            reader.markDelete(all.get(1));
        } catch (ManagedLedgerException e) {
            assertThat(e).as("or it is refused").isNotNull();
        }
        assertThat(reader.getReadPosition()).isEqualTo(before);
        assertThat(texts(reader.readEntries(10))).containsExactly("e4", "e5", "e6", "e7", "e8");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReaderGoesOnBehindWhatWasTruncated_case_038(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName(), retaining(world, -1, -1));
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader");
        addMany(ledger, 8);
        assertThat(texts(reader.readEntries(3))).hasSize(3);
        await(ledger.asyncTruncate());
        assertThat(reader.getNumberOfEntriesInBacklog(true)).as("what is gone is no backlog").isZero();
        add(ledger, "next");
        assertThat(reader.getNumberOfEntriesInBacklog(true)).isEqualTo(1);
        assertThat(texts(reader.readEntries(10))).containsExactly("next");
    }
}
