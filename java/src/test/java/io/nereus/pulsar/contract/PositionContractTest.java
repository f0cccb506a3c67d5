package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.LedgerCalls.textAt;
import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Ledgers.text;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.collect.Range;
import io.nereus.pulsar.compat.LedgerDetails;
import io.nereus.pulsar.compat.LedgerInfoReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException.LedgerNotExistException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionBound;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** Positions: the first, the last, the next, the previous, and how a ledger is searched without a cursor. */
public class PositionContractTest extends ContractTest {

    private static Position at(Position like, long entryId) {
        return PositionFactory.create(like.getLedgerId(), entryId);
    }

    /** A predicate that owns the entry it is shown. */
    private static Predicate<Entry> releasing(Predicate<String> matches) {
        return entry -> matches.test(text(entry));
    }

    /** A predicate that only looks. */
    private static Predicate<Entry> textIs(Predicate<String> matches) {
        return entry -> matches.test(entry.getDataBuffer().toString(StandardCharsets.UTF_8));
    }

    @Test
    public void theEdgesOfAllPositionsHaveTheirNumbers() {
        assertThat(PositionFactory.EARLIEST).isEqualTo(PositionFactory.create(-1, -1));
        assertThat(PositionFactory.LATEST).isEqualTo(PositionFactory.create(Long.MAX_VALUE, Long.MAX_VALUE));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aLedgerNeverWrittenStandsBeforeItsFirstEntry(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        assertThat(ledger.getLastConfirmedEntry().getEntryId()).isEqualTo(-1);
        assertThat(ledger.getFirstPosition()).isEqualTo(ledger.getLastConfirmedEntry());
        assertThat(ledger.getNextValidPosition(ledger.getLastConfirmedEntry()))
            .isEqualTo(at(ledger.getLastConfirmedEntry(), 0));
        assertThat(ledger.getPreviousPosition(at(ledger.getLastConfirmedEntry(), 0)))
            .isEqualTo(ledger.getLastConfirmedEntry());
        Position first = add(ledger, "a");
        assertThat(ledger.getFirstPosition()).isEqualTo(at(first, -1));
        assertThat(ledger.getLastConfirmedEntry()).isEqualTo(first);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theFirstPositionLiesBeforeTheFirstEntry(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> all = addMany(ledger, 3);
        assertThat(ledger.getFirstPosition()).isEqualTo(at(all.get(0), -1));
        assertThat(ledger.getPreviousPosition(all.get(0))).isEqualTo(at(all.get(0), -1));
        assertThat(ledger.getNextValidPosition(ledger.getFirstPosition())).isEqualTo(all.get(0));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void nextAndPreviousWalkEveryEntry(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName(), keepsAll(world, 3));
        List<Position> all = addMany(ledger, 8);
        for (int i = 0; i + 1 < all.size(); i++) {
            assertThat(ledger.getNextValidPosition(all.get(i))).isEqualTo(all.get(i + 1));
            assertThat(ledger.getPreviousPosition(all.get(i + 1))).isEqualTo(all.get(i));
        }
        Position after = ledger.getNextValidPosition(all.get(7));
        assertThat(after).as("the place of the next entry").isGreaterThan(all.get(7));
        assertThat(add(ledger, "next")).isEqualTo(after);
    }

    private static LedgerDetails info(ManagedLedger ledger, long ledgerId) {
        return LedgerInfoReader.read(ledger.getLedgersInfo().get(ledgerId));
    }

    private static boolean timeIsSet(ManagedLedger ledger, long ledgerId) throws Exception {
        Object info = ledger.getLedgersInfo().get(ledgerId);
        return (boolean) info.getClass().getMethod("hasTimestamp").invoke(info);
    }

    private static ManagedLedgerConfig keepsAll(World world, int entriesPerLedger) {
        return world.config().setMaxEntriesPerLedger(entriesPerLedger).setRetentionTime(-1, TimeUnit.MINUTES)
            .setRetentionSizeInMB(-1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void positionsOfOtherLedgersResolveToTheEdges(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> all = addMany(ledger, 3);
        long id = all.get(0).getLedgerId();
        assertThat(ledger.getNextValidPosition(PositionFactory.EARLIEST)).isEqualTo(all.get(0));
        assertThat(ledger.getNextValidPosition(PositionFactory.create(id - 1, 7))).isEqualTo(all.get(0));
        assertThat(ledger.getNextValidPosition(PositionFactory.create(id + 50, 0))).isEqualTo(at(all.get(0), 3));
        assertThat(ledger.getNextValidPosition(at(all.get(0), 900))).isEqualTo(at(all.get(0), 3));
        // the edge overflows in stock
        assertThat(ledger.getNextValidPosition(PositionFactory.LATEST))
            .isEqualTo(at(all.get(0), storage == Storage.STOCK ? 0 : 3));
        // stock takes its open ledger for empty
        assertThat(ledger.getPreviousPosition(PositionFactory.create(id + 50, 0)))
            .isEqualTo(at(all.get(0), storage == Storage.STOCK ? -1 : 2));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void nEntriesFurtherIsClippedAtTheLastOne_case_018(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        List<Position> all = addMany(world.open(name, keepsAll(world, 50_000)), 20);
        world.restart(); // stock's open ledger is empty now
        ManagedLedger ledger = world.open(name, keepsAll(world, 50_000));
        Position first = all.get(0);
        for (int n : new int[] {1, 19, 20}) {
            assertThat(ledger.getPositionAfterN(first, n, PositionBound.startIncluded)).isEqualTo(all.get(n - 1));
        }
        assertThat(ledger.getPositionAfterN(first, 5, PositionBound.startExcluded)).isEqualTo(all.get(5));
        assertThat(ledger.getPositionAfterN(first, 21, PositionBound.startIncluded)).isEqualTo(all.get(19));
        assertThat(ledger.getPositionAfterN(first, 1_000, PositionBound.startExcluded)).isEqualTo(all.get(19));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void entriesOfARangeAreCountedByItsBounds(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName(), keepsAll(world, 4));
        List<Position> all = addMany(ledger, 10);
        assertThat(ledger.getNumberOfEntries()).isEqualTo(10);
        assertThat(ledger.getNumberOfEntries(Range.closed(all.get(0), all.get(9)))).isEqualTo(10);
        assertThat(ledger.getNumberOfEntries(Range.openClosed(all.get(1), all.get(6)))).isEqualTo(5);
        assertThat(ledger.getNumberOfEntries(Range.closedOpen(all.get(1), all.get(6)))).isEqualTo(5);
        assertThat(ledger.getNumberOfEntries(Range.open(all.get(1), all.get(2)))).isZero();
        assertThat(ledger.getNumberOfEntries(Range.openClosed(ledger.getFirstPosition(), all.get(9)))).isEqualTo(10);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theLastPositionSurvivesAReopenWithNothingNew_case_015(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        Position last = addMany(world.open(name), 3).get(2);
        world.restart();
        ManagedLedger again = world.open(name);
        assertThat(again.getLastConfirmedEntry()).isEqualTo(last);
        assertThat(textAt(again, last)).isEqualTo("e2");
        assertThat(add(again, "later")).isGreaterThan(last);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theLastPositionNeverGoesBackWhenEverythingIsGone_case_015(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        Position last = addMany(ledger, 3).get(2);
        await(ledger.asyncTruncate());
        assertThat(ledger.getLastConfirmedEntry()).isGreaterThanOrEqualTo(last);
        assertThat(cursor.hasMoreEntries()).isFalse();
        world.restart();
        ManagedLedger again = world.open(name);
        assertThat(again.openCursor("c").hasMoreEntries()).isFalse();
        assertThat(again.openCursor("c").getNumberOfEntriesInBacklog(true)).isZero();
        assertThat(again.getLastConfirmedEntry()).isGreaterThanOrEqualTo(last);
        assertThat(add(again, "later")).isGreaterThan(last);
        assertThat(texts(again.openCursor("c").readEntries(5))).containsExactly("later");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyQuestionHasAnAnswerWhenNothingIsLeft_case_051(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName(), world.config().setMaxEntriesPerLedger(2));
        Position last = addMany(ledger, 4).get(3);
        await(ledger.asyncTruncate());
        assertThat(ledger.getFirstPosition()).isNotNull();
        assertThat(ledger.getSlowestConsumer()).isNull();
        assertThat(ledger.getLedgersInfo()).isNotEmpty();
        assertThat(ledger.getNumberOfActiveEntries()).isZero();
        assertThat(ledger.getEstimatedBacklogSize()).isZero();
        assertThat(await(ledger.getEarliestMessagePublishTimeInBacklog())).isZero();
        assertThat(await(ledger.getManagedLedgerInternalStats(false)).ledgers).isNotEmpty();
        ManagedCursor earliest = ledger.newNonDurableCursor(PositionFactory.EARLIEST);
        ManagedCursor latest = ledger.newNonDurableCursor(PositionFactory.LATEST);
        // stock tells clients that there is no last message; we tell it, and a reader finds it (KeptLastEntryContractTest)
        assertThat(earliest.hasMoreEntries()).isEqualTo(storage == Storage.NEREUS);
        assertThat(latest.hasMoreEntries()).isFalse();
        assertThat(add(ledger, "next")).isGreaterThan(last);
        assertThat(texts(earliest.readEntries(5))).containsExactly("next");
        assertThat(texts(latest.readEntries(5))).containsExactly("next");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCursorAtTrimmedPositionsStartsAtTheFirstLiveEntry_case_034(Storage storage) throws Exception {
        World world = freshWorld(storage);
        ManagedLedger ledger = world.open(world.freshName(), world.config().setMaxEntriesPerLedger(2));
        List<Position> all = addMany(ledger, 4);
        await(ledger.asyncTruncate());
        for (Position start : List.of(all.get(1), all.get(3), at(all.get(3), all.get(3).getEntryId() + 1))) {
            ManagedCursor cursor = ledger.newNonDurableCursor(start);
            // the last message, which we tell clients and keep for them, is still to come for a reader from before it
            boolean kept = storage == Storage.NEREUS && start.equals(all.get(1));
            assertThat(cursor.getNumberOfEntriesInBacklog(true)).as("backlog of a cursor from %s", start).isEqualTo(kept ? 1 : 0);
            assertThat(cursor.hasMoreEntries()).isEqualTo(kept);
        }
        add(ledger, "next");
        assertThat(texts(ledger.newNonDurableCursor(all.get(1)).readEntries(5))).containsExactly("next");
    }

    /** Without the type of the value, which has another name in later Pulsar releases. */
    private static Object later(CompletableFuture<?> future) throws Exception {
        return await(future);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theListOfLedgersHoldsTheLastEntryAndEndsWithAnOpenOne(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        assertThat(ledger.getLedgersInfo().keySet()).containsExactly(ledger.getLastConfirmedEntry().getLedgerId());
        addMany(ledger, 3);
        assertThat(ledger.getLedgersInfo().lastKey()).isEqualTo(ledger.getLastConfirmedEntry().getLedgerId());
        LedgerDetails open = info(ledger, ledger.getLedgersInfo().lastKey());
        assertThat(timeIsSet(ledger, open.ledgerId())).as("the broker asks whether the time is set").isTrue();
        assertThat(open.closedMillis()).isZero();
        assertThat(LedgerInfoReader.read(later(ledger.getLedgerInfo(open.ledgerId())))).isEqualTo(open);
        assertThat(ledger.getOptionalLedgerInfo(open.ledgerId()).isPresent()).isTrue();
        assertThat(LedgerInfoReader.read(later(ledger.getLedgerInfo(open.ledgerId() + 7)))).isNull();
        assertThat(ledger.getOptionalLedgerInfo(open.ledgerId() - 7).isPresent()).isFalse();
        if (storage == Storage.STOCK) {
            assertThat(open.entries()).as("stock counts a ledger when it closes").isZero();
        } else {
            assertThat(open.entries()).isEqualTo(3);
            assertThat(open.bytes()).isEqualTo(6);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aClosedLedgerTellsWhenItClosedAndWhatItHolds(Storage storage) throws Exception {
        World world = world(storage);
        int entries = storage == Storage.STOCK ? 3 : 65_536; // where a ledger ends, and a span
        ManagedLedger ledger = world.open(world.freshName(), keepsAll(world, entries));
        RecordedAdds adds = new RecordedAdds();
        for (int i = 0; i < entries; i++) {
            ledger.asyncAddEntry(new byte[] {1, 2}, adds, i);
        }
        adds.await(entries);
        ManagedCursor cursor = ledger.openCursor("c"); // everything is acknowledged, the next ledger may not exist yet
        assertThat(cursor.getMarkDeletedPosition().getLedgerId())
            .as("the broker takes the ledgers from the mark-delete position's to the last one")
            .isLessThanOrEqualTo(ledger.getLedgersInfo().lastKey());
        Position next = add(ledger, "next");
        assertThat(next.getEntryId()).isZero();
        long full = ledger.getLedgersInfo().firstKey();
        await("the full ledger to be a closed one",
            () -> ledger.getLedgersInfo().size() == 2 && info(ledger, full).closedMillis() > 0);
        assertThat(info(ledger, full).entries()).isEqualTo(entries);
        assertThat(info(ledger, full).bytes()).isEqualTo(2L * entries);
        assertThat(ledger.getLedgersInfo().lastKey()).isEqualTo(next.getLedgerId());
        assertThat(info(ledger, next.getLedgerId()).closedMillis()).isZero();
        assertThat(ledger.getLedgersInfo().subMap(cursor.getMarkDeletedPosition().getLedgerId(), true,
            ledger.getLedgersInfo().lastKey(), true).isEmpty()).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEntryIsReadByPositionAndAMissingOneFailsByItsKind(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        List<Position> all = addMany(ledger, 3);
        assertThat(textAt(ledger, all.get(1))).isEqualTo("e1");
        Position foreign = PositionFactory.create(all.get(0).getLedgerId() + 1_000_000, 0);
        assertThat(failure(() -> textAt(ledger, foreign))).as("the broker answers not found")
            .isInstanceOf(LedgerNotExistException.class);
        assertThat(failure(() -> textAt(ledger, PositionFactory.create(1, 0))))
            .isInstanceOf(LedgerNotExistException.class);
        if (storage == Storage.NEREUS) { // the mock of BookKeeper fails differently from BookKeeper here
            assertThat(failure(() -> textAt(ledger, at(all.get(0), 3)))).isNotInstanceOf(LedgerNotExistException.class);
            assertThat(failure(() -> textAt(ledger, at(all.get(0), -1)))).isNotInstanceOf(LedgerNotExistException.class);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSearchAnswersThePlaceAfterTheNewestMatch(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> all = addMany(ledger, 9);
        assertThat(await(ledger.asyncFindPosition(releasing(text -> text.compareTo("e4") <= 0)))).isEqualTo(all.get(5));
        assertThat(await(ledger.asyncFindPosition(releasing(text -> true)))).isEqualTo(at(all.get(8), 9));
        assertThat(await(ledger.asyncFindPosition(releasing(text -> false)))).as("nothing matches").isEqualTo(all.get(0));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theLastDispatchablePositionIsSearchedBackwards(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        List<Position> all = addMany(ledger, 6);
        Position last = ledger.getLastConfirmedEntry();
        assertThat(await(ledger.getLastDispatchablePosition(entry -> true, last))).isEqualTo(last);
        assertThat(await(ledger.getLastDispatchablePosition(textIs(text -> text.compareTo("e2") <= 0), last)))
            .isEqualTo(all.get(2));
        assertThat(await(ledger.getLastDispatchablePosition(entry -> false, last))).isEqualTo(at(all.get(0), -1));
        List<String> seen = new ArrayList<>();
        failureOrResult(ledger.getLastDispatchablePosition(entry -> {
            seen.add("asked");
            throw new IllegalStateException("of the test");
        }, last));
        assertThat(seen).hasSize(1);
    }

    private static void failureOrResult(CompletableFuture<Position> future) {
        assertThat(future).failsWithin(Ledgers.PATIENCE);
    }
}
