package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.CursorCalls.assertBacklog;
import static io.nereus.pulsar.contract.CursorCalls.earliest;
import static io.nereus.pulsar.contract.CursorCalls.read;
import static io.nereus.pulsar.contract.CursorCalls.reset;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Storage.STOCK;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** How much a cursor has left: entries and bytes. */
public class BacklogContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCursorHasWhatCameAfterItsStart(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        addMany(ledger, 3);
        ManagedCursor first = earliest(ledger, "first");
        ManagedCursor last = ledger.openCursor("last", InitialPosition.Latest);
        assertBacklog(first, 3);
        assertBacklog(last, 0);
        assertThat(last.hasMoreEntries()).isFalse();
        add(ledger, "next");
        assertBacklog(first, 4);
        assertBacklog(last, 1);
        assertThat(read(last, 10)).containsExactly("next");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readingLeavesTheBacklogAndTakesFromWhatIsLeftToRead(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 6);
        cursor.delete(positions.get(4));
        read(cursor, 2);
        assertThat(cursor.getNumberOfEntries()).as("from the read position").isEqualTo(3);
        assertBacklog(cursor, 5);
        assertThat(cursor.hasMoreEntries()).isTrue();
        read(cursor, 10);
        assertThat(cursor.getNumberOfEntries()).isZero();
        assertThat(cursor.hasMoreEntries()).isFalse();
        assertBacklog(cursor, 5);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theSpanFromTheFirstUnacknowledgedEntryToTheReadPositionIsCounted(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 6);
        long atStart = cursor.getNumberOfEntriesSinceFirstNotAckedMessage();
        read(cursor, 4);
        assertThat(cursor.getNumberOfEntriesSinceFirstNotAckedMessage()).isEqualTo(atStart + 4);
        cursor.delete(positions.get(2));
        assertThat(cursor.getNumberOfEntriesSinceFirstNotAckedMessage()).as("holes count").isEqualTo(atStart + 4);
        cursor.markDelete(positions.get(1));
        assertThat(cursor.getNumberOfEntriesSinceFirstNotAckedMessage()).isEqualTo(atStart + 1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void consumedEntriesOfDifferentSizesCountTheWholeBytesOfTheAverage(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = new ArrayList<>();
        for (int size : new int[] {43, 43, 43, 45, 45}) {
            positions.add(ledger.addEntry(new byte[size]));
        }
        cursor.markDelete(positions.get(2));
        assertThat(cursor.getEstimatedSizeSinceMarkDeletePosition()).isEqualTo(219 - 3 * 43);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theSizeOfTheBacklogFallsWithTheMarkDeleteTowardsNothing(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            positions.add(ledger.addEntry(new byte[1000]));
        }
        assertThat(cursor.getEstimatedSizeSinceMarkDeletePosition()).isEqualTo(10_000);
        cursor.markDelete(positions.get(4));
        assertThat(cursor.getEstimatedSizeSinceMarkDeletePosition()).isEqualTo(5_000);
        cursor.delete(positions.get(7));
        assertThat(cursor.getEstimatedSizeSinceMarkDeletePosition()).as("holes count").isEqualTo(5_000);
        cursor.markDelete(positions.get(9));
        assertThat(cursor.getEstimatedSizeSinceMarkDeletePosition()).isZero();
    }

    /** Stock's cheap figure drifts after a reset; its precise one is right. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void afterAnyOperationsTheBacklogIsThatOfAModel_case_046_case_043(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        Random random = new Random(46);
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = new ArrayList<>(addMany(ledger, 100));
        BitSet acked = new BitSet();
        for (int step = 0; step < 300; step++) {
            int at = random.nextInt(positions.size());
            switch (random.nextInt(12)) {
                case 0 -> {
                    try {
                        cursor.markDelete(positions.get(at));
                        acked.set(0, at + 1);
                    } catch (ManagedLedgerException e) {
                        assertThat(at + 1).as("refused as behind").isLessThan(acked.nextClearBit(0));
                    }
                }
                case 1 -> {
                    if (random.nextInt(6) == 0) {
                        await(reset(cursor, positions.get(at)));
                        acked.clear();
                        acked.set(0, at);
                    }
                }
                case 2 -> {
                    if (random.nextInt(5) == 0) {
                        world.restart();
                        ledger = world.open(name);
                        cursor = earliest(ledger, "c");
                    }
                }
                case 3 -> read(cursor, 1 + random.nextInt(20));
                case 4 -> positions.add(add(ledger, "e" + positions.size()));
                default -> {
                    List<Position> some = new ArrayList<>();
                    for (int k = 0; k < 3; k++) {
                        int one = random.nextInt(positions.size());
                        some.add(positions.get(one));
                        acked.set(one);
                    }
                    cursor.delete(some);
                }
            }
            long expected = positions.size() - acked.cardinality();
            String when = "step " + step;
            assertThat(cursor.getNumberOfEntriesInBacklog(true)).as(when).isEqualTo(expected);
            assertThat(cursor.getNumberOfEntriesInBacklog(false)).as(when).isNotNegative();
            assertThat(cursor.getNumberOfEntries()).as(when).isNotNegative();
            if (storage != STOCK) {
                assertThat(cursor.getNumberOfEntriesInBacklog(false)).as(when).isEqualTo(expected);
            }
            if (acked.get(0)) {
                assertThat(cursor.getMarkDeletedPosition()).as(when)
                    .isEqualTo(positions.get(acked.nextClearBit(0) - 1));
            }
        }
        cursor.rewind();
        List<String> left = new ArrayList<>();
        for (int i = acked.nextClearBit(0); i < positions.size(); i = acked.nextClearBit(i + 1)) {
            left.add("e" + i);
        }
        List<String> found = new ArrayList<>();
        while (cursor.hasMoreEntries() && found.size() < left.size()) {
            found.addAll(read(cursor, 1000));
        }
        assertThat(found).isEqualTo(left);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReadersBacklogIsItsOwnAndShrinksWithItsAcks(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> positions = addMany(ledger, 5);
        ManagedCursor reader = ledger.newNonDurableCursor(PositionFactory.EARLIEST);
        ManagedCursor later = ledger.newNonDurableCursor(positions.get(2));
        assertBacklog(reader, 5);
        assertBacklog(later, 2);
        reader.markDelete(positions.get(3));
        assertBacklog(reader, 1);
        assertThat(reader.getPersistentMarkDeletedPosition()).as("nothing of a reader is persisted").isNull();
        add(ledger, "next");
        assertBacklog(later, 3);
    }

    /** Trimming and acknowledging at once, a crash, and the figures are those of what can be read. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void trimmingWhileCursorsMoveLeavesNoneBehindTheFirstEntry_case_006_case_047(Storage storage)
            throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedgerConfig config = world.config();
        config.setMaxEntriesPerLedger(2);
        config.setMinimumRolloverTime(0, TimeUnit.SECONDS);
        config.setRetentionTime(0, TimeUnit.SECONDS);
        config.setRetentionSizeInMB(0);
        ManagedLedger ledger = world.open(name, config);
        ManagedCursor cursor = earliest(ledger, "c");
        ManagedCursor other = earliest(ledger, "other");
        List<Position> positions = addMany(ledger, 9);
        Thread opener = new Thread(() -> {
            try {
                ledger.newNonDurableCursor(PositionFactory.EARLIEST, "reader").getNumberOfEntriesInBacklog(false);
            } catch (ManagedLedgerException e) {
                throw new IllegalStateException(e);
            }
        });
        opener.start();
        for (int i = 0; i < 6; i++) {
            cursor.markDelete(positions.get(i));
            other.delete(positions.get(i));
            CompletableFuture<Void> trimmed = new CompletableFuture<>();
            ledger.trimConsumedLedgersInBackground(trimmed);
            await(trimmed);
        }
        opener.join();
        for (ManagedCursor each : ledger.getCursors()) {
            assertThat(each.getNumberOfEntriesInBacklog(true)).as(each.getName()).isNotNegative();
            assertThat(each.getNumberOfEntriesInBacklog(false)).as(each.getName()).isNotNegative();
        }
        world.crash();
        ManagedLedger again = world.open(name, config);
        for (String each : List.of("c", "other")) {
            ManagedCursor found = earliest(again, each);
            assertBacklog(found, 3);
            assertThat(read(found, 10)).containsExactly("e6", "e7", "e8");
            found.markDelete(positions.get(8));
            assertBacklog(found, 0);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void oneExpiryPassRemovesExactlyTheExpiredPrefix_case_018(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        List<String> cursors = List.of("1", "50", "99", "100");
        ManagedLedger ledger = world.open(name);
        for (String expired : cursors) {
            earliest(ledger, expired);
        }
        List<Position> positions = addMany(ledger, 100);
        ManagedCursor none = earliest(ledger, "none");
        assertThat(none.findNewestMatching(entry -> number(entry) < 0)).isNull();
        world.restart(); // stock goes on in an empty ledger
        ManagedLedger again = world.open(name);
        for (String expired : cursors) {
            ManagedCursor cursor = again.openCursor(expired);
            int count = Integer.parseInt(expired);
            Position newest = cursor.findNewestMatching(entry -> number(entry) < count);
            assertThat(newest).as(expired).isEqualTo(positions.get(count - 1));
            cursor.markDelete(newest);
            assertBacklog(cursor, 100 - count);
            assertThat(cursor.findNewestMatching(entry -> number(entry) < count)).as("nothing younger").isNull();
        }
    }

    private static int number(Entry entry) {
        return Integer.parseInt(Ledgers.text(entry).substring(1));
    }
}
