package io.nereus.pulsar.contract;

import static org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries.Exclude;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.bookkeeper.mledger.AsyncCallbacks.MarkDeleteCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursor.FindPositionConstraint;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.AfterClass;
import org.testng.annotations.Test;

/** On which threads callbacks come, with what held, and how deep. */
public class CallbackThreadsContractTest extends ContractTest {

    private static final int CHAIN = 20_000;

    private final ExecutorService others = Executors.newCachedThreadPool();

    /** Ends the threads that look at cursors while a callback runs. */
    @AfterClass(alwaysRun = true)
    public void endThreads() {
        others.shutdownNow();
    }

    /** Everything a broker's thread may ask of a cursor while another one is in a callback. */
    private void assertFree(ManagedLedger ledger, ManagedCursor cursor) {
        Future<?> asked = others.submit(() -> {
            cursor.getReadPosition();
            cursor.getMarkDeletedPosition();
            cursor.hasMoreEntries();
            cursor.getNumberOfEntries();
            cursor.getNumberOfEntriesInBacklog(true);
            cursor.isMessageDeleted(PositionFactory.EARLIEST);
            cursor.isClosed();
            cursor.cancelPendingReadRequest();
            cursor.getCursorStats();
            ledger.getLastConfirmedEntry();
            ledger.getNumberOfEntries();
            ledger.getSlowestConsumer();
            cursor.asyncMarkDelete(cursor.getMarkDeletedPosition(), CursorCallsIgnored.MARK_DELETE, null);
            return null;
        });
        try {
            asked.get(15, TimeUnit.SECONDS); // less than the patience with the callback
        } catch (Exception e) {
            throw new AssertionError("another thread is blocked while this callback runs", e);
        }
    }

    /** Nobody waits for these. */
    private static final class CursorCallsIgnored {
        private static final MarkDeleteCallback MARK_DELETE =
            new MarkDeleteCallback() {
                @Override
                public void markDeleteComplete(Object ctx) {
                }

                @Override
                public void markDeleteFailed(ManagedLedgerException exception, Object ctx) {
                }
            };
    }

    /** Each pair of the reading half is called once, and while it runs no lock is held. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void everyCallbackComesOnceAndHoldsNoLock(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 12);
        AtomicReference<Throwable> blocked = new AtomicReference<>();
        Runnable look = () -> {
            try {
                assertFree(ledger, cursor);
            } catch (Throwable e) {
                blocked.set(e);
            }
        };
        List<Answer<?>> answers = new ArrayList<>();
        Answer<List<Entry>> read = new Answer<List<Entry>>().within(look);
        cursor.asyncReadEntries(2, Answer.entries(read), null, PositionFactory.LATEST);
        read.get().forEach(Entry::release);
        Answer<List<Entry>> wait = new Answer<List<Entry>>().within(look);
        cursor.asyncReadEntriesOrWait(2, Answer.entries(wait), null, PositionFactory.LATEST);
        wait.get().forEach(Entry::release);
        Answer<List<Entry>> replay = new Answer<List<Entry>>().within(look);
        cursor.asyncReplayEntries(Set.of(positions.get(3), positions.get(7)), Answer.entries(replay), null);
        replay.get().forEach(Entry::release);
        Answer<Entry> nth = new Answer<Entry>().within(look);
        cursor.asyncGetNthEntry(3, Exclude, Answer.entry(nth), null);
        nth.get().release();
        Answer<Entry> noNth = new Answer<Entry>().within(look);
        cursor.asyncGetNthEntry(300, Exclude, Answer.entry(noNth), null);
        assertThat(noNth.get()).isNull();
        Answer<Position> found = new Answer<Position>().within(look);
        cursor.asyncFindNewestMatching(FindPositionConstraint.SearchActiveEntries, Reads.numberAtMost(5),
            Answer.found(found), null);
        found.get();
        Answer<Object> reset = new Answer<>().within(look);
        cursor.asyncResetCursor(positions.get(1), false, Answer.reset(reset));
        reset.get();
        Answer<Void> skipped = new Answer<Void>().within(look);
        cursor.asyncSkipEntries(2, Exclude, Answer.skipped(skipped), null);
        skipped.get();
        Answer<Void> cleared = new Answer<Void>().within(look);
        cursor.asyncClearBacklog(Answer.cleared(cleared), null);
        cleared.get();
        Ledgers.await(cursor.scan(Optional.empty(), entry -> true, 1, 10, 1000).whenComplete((done, e) -> look.run()));
        cursor.close();
        Answer<List<Entry>> refused = new Answer<List<Entry>>().within(look);
        cursor.asyncReadEntries(2, Answer.entries(refused), null, PositionFactory.LATEST);
        refused.failure();
        answers.addAll(List.of(read, wait, replay, nth, noNth, found, reset, skipped, cleared, refused));
        assertThat(answers).extracting(Answer::calls).containsOnly(1);
        assertThat(blocked.get()).isNull();
    }

    /** Stock answers what it need not do in the caller's thread; Nereus never does. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void callbacksComeOnTheThreadOfTheLedger(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 3);
        Answer<List<Entry>> read = Reads.readLater(cursor, 1);
        read.get().forEach(Entry::release);
        Thread thread = read.thread();
        assertThat(thread).isNotSameAs(Thread.currentThread());
        Answer<Entry> none = Reads.nth(cursor, 100, Exclude);
        none.get();
        cursor.close();
        Answer<List<Entry>> refused = Reads.readLater(cursor, 1);
        refused.failure();
        for (Answer<?> answer : List.of(none, refused)) {
            assertThat(answer.thread()).isSameAs(storage == Storage.STOCK ? Thread.currentThread() : thread);
        }
    }

    /** Case 75: a call that would wait for the thread it is on is refused at once; reads before they take anything. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aBlockingCursorCallInACallbackIsRefusedAtOnce_case_075(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, 6);
        List<Ledgers.ThrowingRunnable> calls = List.of(() -> cursor.readEntries(1), () -> cursor.readEntriesOrWait(1),
            () -> cursor.replayEntries(Set.of(positions.get(1))), () -> cursor.getNthEntry(1, Exclude),
            () -> cursor.findNewestMatching(Reads.numberAtMost(2)), () -> cursor.markDelete(positions.get(0)));
        if (storage == Storage.STOCK) {
            // stock waits for ever, or for its time-out; the asynchronous calls work there too
            List<Answer<Entry>> nth = new ArrayList<>();
            Answer<List<Entry>> read =
                new Answer<List<Entry>>().within(() -> nth.add(Reads.nth(cursor, 1, Exclude)));
            cursor.asyncReadEntries(1, Answer.entries(read), null, PositionFactory.LATEST);
            assertThat(Ledgers.texts(read.get())).containsExactly("e0");
            assertThat(Ledgers.text(nth.get(0).get())).isEqualTo("e0");
            return;
        }
        List<ManagedLedgerException> refusals = new ArrayList<>();
        Answer<List<Entry>> read = new Answer<List<Entry>>()
            .within(() -> calls.forEach(call -> refusals.add(Ledgers.failure(call))));
        cursor.asyncReadEntries(2, Answer.entries(read), null, PositionFactory.LATEST);
        assertThat(Ledgers.texts(read.get())).isEqualTo(Reads.texts(0, 2));
        assertThat(refusals).hasSize(calls.size()).allMatch(refusal -> refusal.getMessage().contains("callback"));
        assertThat(Reads.readAll(cursor)).as("no refused read has taken an entry").isEqualTo(Reads.texts(2, 6));
        Ledgers.await("the mark-delete goes on", () -> cursor.getMarkDeletedPosition().equals(positions.get(0)));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aChainOfReadsDoesNotGrowTheStack(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        Ledgers.addMany(ledger, 2);
        CompletableFuture<Integer> deepest = new CompletableFuture<>();
        AtomicInteger left = new AtomicInteger(CHAIN);
        AtomicInteger depth = new AtomicInteger();
        cursor.asyncReadEntries(1, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                entries.forEach(Entry::release);
                int remaining = left.decrementAndGet();
                if (remaining % 1000 == 0) {
                    depth.accumulateAndGet(new Throwable().getStackTrace().length, Math::max);
                }
                if (remaining == 0) {
                    deepest.complete(depth.get());
                    return;
                }
                if (entries.isEmpty()) {
                    cursor.rewind();
                }
                cursor.asyncReadEntries(1, this, ctx, PositionFactory.LATEST);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                deepest.completeExceptionally(exception);
            }
        }, null, PositionFactory.LATEST);
        assertThat(Ledgers.await(deepest)).isLessThan(100);
    }

    /** Refusals chain like successes: a caller that asks again within the failure must not overflow the stack. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aChainOfRefusalsDoesNotGrowTheStack(Storage storage) throws Exception {
        if (storage == Storage.STOCK) {
            // stock answers in the caller's thread: the chain is as deep as it is long
            assertThat(Ledgers.await(chainOfRefusals(storage, 50))).isGreaterThan(50);
            return;
        }
        assertThat(Ledgers.await(chainOfRefusals(storage, CHAIN))).isLessThan(100);
    }

    private CompletableFuture<Integer> chainOfRefusals(Storage storage, int length) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        cursor.close();
        CompletableFuture<Integer> deepest = new CompletableFuture<>();
        AtomicInteger left = new AtomicInteger(length);
        cursor.asyncReadEntriesOrWait(1, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                deepest.completeExceptionally(new AssertionError("a closed cursor read"));
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                if (left.decrementAndGet() == 0) {
                    deepest.complete(new Throwable().getStackTrace().length);
                } else {
                    cursor.asyncReadEntriesOrWait(1, this, ctx, PositionFactory.LATEST);
                }
            }
        }, null, PositionFactory.LATEST);
        return deepest;
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aCallbackThatThrowsHarmsNobodyElse(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setNewEntriesCheckDelayInMillis(0);
        ManagedLedger ledger = world(storage).open(world(storage).freshName(), config);
        ManagedCursor throwing = Reads.earliest(ledger, "throwing");
        ManagedCursor other = Reads.earliest(ledger, "other");
        Answer<List<Entry>> bad = new Answer<>();
        throwing.asyncReadEntriesOrWait(1, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                Answer.entries(bad).readEntriesComplete(entries, ctx);
                throw new IllegalStateException("of the broker");
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                Answer.entries(bad).readEntriesFailed(exception, ctx);
            }
        }, null, PositionFactory.LATEST);
        Answer<List<Entry>> good = Reads.readOrWait(other, 1);
        Ledgers.add(ledger, "e0");
        assertThat(Ledgers.texts(good.get())).containsExactly("e0");
        assertThat(Ledgers.texts(bad.get())).containsExactly("e0");
        Answer<List<Entry>> next = Reads.readOrWait(throwing, 1);
        Ledgers.add(ledger, "e1");
        assertThat(Ledgers.texts(next.get())).containsExactly("e1");
        assertThat(bad.calls()).isEqualTo(1);
    }
}
