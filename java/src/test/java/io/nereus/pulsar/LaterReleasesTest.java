package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;

import io.nereus.pulsar.compat.NoEntryCacheManager;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.testng.annotations.Test;

/** What only Pulsar releases after the one that is compiled against ask for, so that no interface here names it. */
public class LaterReleasesTest extends CursorFixture {

    @Test
    public void aScheduledReadCallbackRunsOnTheThreadOfTheLedgerAfterItsDelay() throws Exception {
        NereusManagedCursor cursor = earliest("c");
        CompletableFuture<Thread> ownThread = new CompletableFuture<>();
        ledger.execute(() -> ownThread.complete(Thread.currentThread()));
        CompletableFuture<Thread> ran = new CompletableFuture<>();
        long start = System.nanoTime();
        cursor.scheduleReadCallback(() -> ran.complete(Thread.currentThread()), 50, TimeUnit.MILLISECONDS);
        assertEquals(ran.get(SECONDS, TimeUnit.SECONDS), ownThread.get(SECONDS, TimeUnit.SECONDS));
        assertTrue(System.nanoTime() - start >= TimeUnit.MILLISECONDS.toNanos(50), "not before its delay");
    }

    @Test
    public void aScheduledReadCallbackThatThrowsLeavesTheThreadAlive() throws Exception {
        NereusManagedCursor cursor = earliest("c");
        cursor.scheduleReadCallback(() -> {
            throw new IllegalStateException("thrown on purpose");
        }, 0, TimeUnit.MILLISECONDS);
        CompletableFuture<Void> next = new CompletableFuture<>();
        cursor.scheduleReadCallback(() -> next.complete(null), 1, TimeUnit.MILLISECONDS);
        next.get(SECONDS, TimeUnit.SECONDS);
        add(1);
        assertEquals(read(cursor, 1), messages(0, 1));
    }

    /** Pulsar 5 asks whether there is a backlog instead of how large it is; its default counts. */
    @Test
    public void backlogIsKnownWhicheverWayItIsAskedFor() throws Exception {
        ManagedCursor cursor = earliest("c");
        assertBacklog(cursor, 0);
        add(3);
        assertBacklog(cursor, 3);
        cursor.markDelete(ledger.getLastConfirmedEntry());
        assertBacklog(cursor, 0);
    }

    @Test
    public void noCacheIsMadeForALedgerOfAnyKind() {
        NoEntryCacheManager manager = new NoEntryCacheManager(10, 0.9);
        assertThrows(UnsupportedOperationException.class, () -> manager.getEntryCache(ledger));
        manager.doCacheEviction();
        manager.updateCacheEvictionExtendTTLOfEntriesWithRemainingExpectedReadsMaxTimes(3);
        manager.updateCacheEvictionExtendTTLOfRecentlyAccessed(true);
        assertEquals(manager.getSize(), 0);
    }
}
