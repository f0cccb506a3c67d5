package io.nereus.pulsar.contract;

import static org.apache.bookkeeper.mledger.ManagedCursor.FindPositionConstraint.SearchActiveEntries;
import static org.apache.bookkeeper.mledger.ManagedCursor.FindPositionConstraint.SearchAllAvailableEntries;
import static org.assertj.core.api.Assertions.assertThat;

import io.netty.channel.DefaultEventLoop;
import io.netty.util.ReferenceCounted;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursor.FindPositionConstraint;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

/** The search for the newest entry that satisfies a predicate: expiry, seek by time, message id by time. */
public class FindNewestContractTest extends ContractTest {

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theNewestMatchIsFoundWhereverItLies(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        assertThat(cursor.findNewestMatching(Reads.numberAtMost(0))).as("an empty ledger").isNull();
        for (int size = 1; size <= 9; size++) {
            Position last = Ledgers.add(ledger, "e" + (size - 1));
            for (int newest = -1; newest < size; newest++) {
                Position expected = newest < 0 ? null : PositionFactory.create(last.getLedgerId(), newest);
                for (FindPositionConstraint constraint : FindPositionConstraint.values()) {
                    assertThat(Reads.find(cursor, constraint, Reads.numberAtMost(newest)).get())
                        .as("%s of %s, %s", newest, size, constraint).isEqualTo(expected);
                }
            }
        }
        assertThat(cursor.findNewestMatching(Reads.numberAtMost(4)).getEntryId()).isEqualTo(4);
        assertThat(cursor.findNewestMatching(SearchAllAvailableEntries, Reads.numberAtMost(3)).getEntryId())
            .isEqualTo(3);
    }

    /** A binary search of single entries, at most log2(n) + 2 of them; stock may read one more. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSearchReadsLogarithmicallyManyEntries(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        int entries = 500;
        Ledgers.addMany(ledger, entries);
        int most = 32 - Integer.numberOfLeadingZeros(entries - 1) + (storage == Storage.STOCK ? 3 : 2);
        for (int newest : new int[] {-1, 0, 1, 249, 250, 251, 498, 499, 600}) {
            for (FindPositionConstraint constraint : FindPositionConstraint.values()) {
                long before = ledger.getStats().getEntriesReadTotalCount();
                AtomicInteger tested = new AtomicInteger();
                Predicate<Entry> condition = Reads.numberAtMost(newest);
                Position found = Reads.find(cursor, constraint, entry -> {
                    tested.incrementAndGet();
                    return condition.test(entry);
                }).get();
                assertThat(found == null ? -1 : found.getEntryId()).isEqualTo(Math.min(newest, entries - 1));
                assertThat(tested.get()).as("entries read for %s, %s", newest, constraint).isBetween(1, most);
                if (storage == Storage.NEREUS) {
                    assertThat(ledger.getStats().getEntriesReadTotalCount() - before).isEqualTo(tested.get());
                }
            }
        }
        assertThat(cursor.getReadPosition().getEntryId()).as("a search moves nothing").isZero();
    }

    /** Otherwise a seek by time is answered before its consumers hear that they are disconnected. Stock searches in the caller. */
    @Test
    public void aSearchAskedForOnAnEventLoopIsAnsweredAfterTheTaskThatAsked() throws Exception {
        ManagedLedger ledger = ledger(Storage.NEREUS);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 10);
        DefaultEventLoop loop = new DefaultEventLoop();
        try {
            Answer<Position> answer = new Answer<>();
            CountDownLatch answered = new CountDownLatch(1);
            boolean early = loop.submit(() -> {
                cursor.asyncFindNewestMatching(SearchAllAvailableEntries, entry -> {
                    entry.release();
                    answered.countDown();
                    return true;
                }, Answer.found(answer), null);
                return answered.await(300, TimeUnit.MILLISECONDS);   // long enough for a search that does not wait
            }).get(20, TimeUnit.SECONDS);
            assertThat(early).isFalse();
            assertThat(answer.get()).isEqualTo(positions.get(9));
            assertThat(loop.submit(() -> cursor.findNewestMatching(Reads.numberAtMost(4))).get(20, TimeUnit.SECONDS))
                .as("a caller that waits is answered in the same task").isEqualTo(positions.get(4));
        } finally {
            loop.shutdownGracefully(0, 1, TimeUnit.SECONDS);
        }
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void onlyAnActiveSearchBeginsBehindTheMarkDeletePosition(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 10);
        cursor.markDelete(positions.get(4));
        assertThat(Reads.find(cursor, SearchActiveEntries, Reads.numberAtMost(3)).get()).isNull();
        assertThat(Reads.find(cursor, SearchActiveEntries, Reads.numberAtMost(4)).get()).isNull();
        assertThat(Reads.find(cursor, SearchActiveEntries, Reads.numberAtMost(7)).get())
            .isEqualTo(positions.get(7));
        assertThat(Reads.find(cursor, SearchAllAvailableEntries, Reads.numberAtMost(3)).get())
            .isEqualTo(positions.get(3));
        cursor.markDelete(positions.get(9));
        assertThat(Reads.find(cursor, SearchActiveEntries, Reads.numberAtMost(9)).get()).isNull();
        assertThat(Reads.find(cursor, SearchAllAvailableEntries, Reads.numberAtMost(9)).get())
            .isEqualTo(positions.get(9));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSearchFromTheLedgerIgnoresWhatTheCursorAcknowledged(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 10);
        cursor.markDelete(positions.get(9));
        Answer<Position> answer = new Answer<>();
        cursor.asyncFindNewestMatching(SearchAllAvailableEntries, Reads.numberAtMost(6), Answer.found(answer), "ctx",
            true);
        assertThat(answer.get()).isEqualTo(positions.get(6));
        assertThat(answer.ctx()).isEqualTo("ctx");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSearchKeepsWithinItsStartAndEndWhichAreIncluded(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 12);
        Position start = positions.get(3);
        Position end = positions.get(8);
        for (FindPositionConstraint constraint : FindPositionConstraint.values()) {
            assertThat(Reads.findWithin(cursor, constraint, start, end, Reads.numberAtMost(2)).get()).isNull();
            assertThat(Reads.findWithin(cursor, constraint, start, end, Reads.numberAtMost(3)).get())
                .isEqualTo(start);
            assertThat(Reads.findWithin(cursor, constraint, start, end, Reads.numberAtMost(6)).get())
                .isEqualTo(positions.get(6));
            // where everything matches stock answers the entry behind the range
            int beyond = storage == Storage.STOCK ? 1 : 0;
            assertThat(Reads.findWithin(cursor, constraint, start, end, Reads.numberAtMost(11)).get())
                .isEqualTo(positions.get(8 + beyond));
            assertThat(Reads.findWithin(cursor, constraint, start, PositionFactory.LATEST, Reads.numberAtMost(20))
                .get()).as("an end past the last entry").isEqualTo(positions.get(11));
            assertThat(Reads.findWithin(cursor, constraint, null, end, Reads.numberAtMost(1)).get())
                .isEqualTo(positions.get(1));
            assertThat(Reads.findWithin(cursor, constraint, start, start, Reads.numberAtMost(9)).get())
                .isEqualTo(positions.get(3 + beyond));
            assertThat(Reads.findWithin(cursor, constraint, end, start, Reads.numberAtMost(9)).get())
                .as("a range that ends before it starts").isNull();
        }
        cursor.markDelete(positions.get(5));
        assertThat(Reads.findWithin(cursor, SearchAllAvailableEntries, start, end, Reads.numberAtMost(4)).get())
            .isEqualTo(positions.get(4));
        assertThat(Reads.findWithin(cursor, SearchActiveEntries, positions.get(7), end, Reads.numberAtMost(7))
            .get()).isEqualTo(positions.get(7));
        assertThat(Reads.findWithin(cursor, SearchActiveEntries, null, end, Reads.numberAtMost(5)).get()).isNull();
    }

    /** Expiry must never take an entry that is younger than the first one it may keep. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anActiveSearchAnswersNothingIfTheFirstEntryDoesNotMatch(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        for (String text : List.of("e9", "e0", "e0", "e0", "e0")) {
            Ledgers.add(ledger, text);
        }
        assertThat(Reads.find(cursor, SearchActiveEntries, Reads.numberAtMost(5)).get()).isNull();
    }

    /** Case 39: times that do not rise strictly lead to the nearest entry, not to the start of the topic. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSearchByTimesOutOfOrderEndsNearby_case_039(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        int[] times = {2, 1, 3, 5, 4, 6};
        for (int time : times) {
            Ledgers.add(ledger, "e" + time);
        }
        // the first entry is newer than 1: stock gives up, the older entry behind it is not found
        int[] expected = storage == Storage.STOCK ? new int[] {-1, -1, 1, 2, 2, 4, 5, 5}
            : new int[] {-1, 1, 1, 2, 2, 4, 5, 5};
        for (int time = 0; time <= 7; time++) {
            Position found = Reads.find(cursor, SearchAllAvailableEntries, Reads.numberAtMost(time)).get();
            int index = found == null ? -1 : (int) found.getEntryId();
            assertThat(index).as("the newest entry not after %s", time).isEqualTo(expected[time]);
            assertThat(index < 0 || times[index] <= time).isTrue();
        }
        // with the tail acknowledged one by one the answers stay
        List<Position> tail = List.of(PositionFactory.create(ledger.getLastConfirmedEntry().getLedgerId(), 4),
            ledger.getLastConfirmedEntry());
        cursor.delete(tail);
        Position six = Reads.find(cursor, SearchAllAvailableEntries, Reads.numberAtMost(6)).get();
        assertThat(six).isEqualTo(storage == Storage.STOCK ? PositionFactory.create(six.getLedgerId(), 0)
            : ledger.getLastConfirmedEntry());
    }

    /** Case 18: with an empty tail after a reopen one pass finds exactly the expired prefix. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void oneSearchFindsAllOfTheExpiredPrefix_case_018(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 100);
        ledger.close();
        ledger = world.open(name);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        for (int expired : new int[] {-1, 0, 1, 49, 98, 99}) {
            assertThat(Reads.find(cursor, SearchActiveEntries, Reads.numberAtMost(expired)).get())
                .isEqualTo(expired < 0 ? null : positions.get(expired));
        }
    }

    /** The predicate owns the entry it is given. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void thePredicateOwnsTheEntry(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 7);
        AtomicInteger references = new AtomicInteger(1);
        Reads.find(cursor, SearchActiveEntries, entry -> {
            references.set(Math.max(references.get(), ((ReferenceCounted) entry).refCnt()));
            return Reads.numberAtMost(3).test(entry);
        }).get();
        assertThat(references.get()).isEqualTo(1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aSearchThatCannotReadFailsOnceAndSaysWhere(Storage storage) throws Exception {
        Reopened reopened = Reopened.of(freshWorld(storage), storage, 3);
        ManagedCursor cursor = reopened.cursor();
        List<Position> positions = reopened.positions();
        reopened.hook().failReadsOf("e0");
        Answer<Position> answer = Reads.find(cursor, SearchActiveEntries, Reads.numberAtMost(1));
        answer.failure();
        assertThat(answer.failedAt()).isEqualTo(positions.get(0));
        assertThat(answer.calls()).isEqualTo(1);
        reopened.hook().onRead(text -> { });
        assertThat(Reads.find(cursor, SearchActiveEntries, Reads.numberAtMost(1)).get())
            .as("the next search").isEqualTo(positions.get(1));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aPredicateThatThrowsFailsTheSearch(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 3);
        Answer<Position> answer = Reads.find(cursor, SearchActiveEntries, entry -> {
            entry.release();
            throw new IllegalStateException("of the predicate");
        });
        if (storage == Storage.STOCK) {
            assertThat(answer.calls()).as("stock forgets the search; from its cache it runs in the caller").isZero();
            return;
        }
        assertThat(answer.failure()).hasStackTraceContaining("of the predicate");
        assertThat(answer.calls()).isEqualTo(1);
    }
}
