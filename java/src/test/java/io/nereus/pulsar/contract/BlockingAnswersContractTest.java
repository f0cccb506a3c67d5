package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.addMany;
import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.testng.annotations.Test;

/** Where the broker blocks on a ledger in a callback of the same ledger, and must not wait for itself. */
public class BlockingAnswersContractTest extends ContractTest {

    /** Far below the 30 seconds after which a synchronous call gives up. */
    private static final Duration PROMPT = Duration.ofSeconds(10);

    /** As the check of backlog quotas does: it reads the oldest message, and skips what is too much in the callback. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theCallbackOfASingleReadMayBlockOnItsLedger_case_075(Storage storage) throws Exception {
        World world = world(storage);
        if (storage == Storage.STOCK) { // answers in the caller's thread only what its cache, which forgets after 1 s, has
            world.factory().updateCacheEvictionTimeThreshold(TimeUnit.HOURS.toNanos(1));
        }
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursor cursor = ledger.openCursor("c");
        List<Position> added = addMany(ledger, 6);
        CompletableFuture<Long> left = new CompletableFuture<>();
        ledger.asyncReadEntry(added.get(0), new ReadEntryCallback() {
            @Override
            public void readEntryComplete(Entry entry, Object ctx) {
                entry.release();
                try {
                    cursor.skipEntries(2, IndividualDeletedEntries.Include);
                    cursor.markDelete(added.get(2));
                    left.complete(cursor.getNumberOfEntriesInBacklog(true));
                } catch (Exception e) {
                    left.completeExceptionally(e);
                }
            }

            @Override
            public void readEntryFailed(ManagedLedgerException exception, Object ctx) {
                left.completeExceptionally(exception);
            }
        }, null);
        assertThat(left).succeedsWithin(PROMPT).isEqualTo(3L);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aBlockingCallOfACursorInTheCallbackOfAnAppendEnds_case_075(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(world.freshName());
        ManagedCursor cursor = ledger.openCursor("c");
        if (storage == Storage.STOCK) { // stock waits 30 seconds for itself when the cursor's own ledger is not there yet
            cursor.markDelete(Ledgers.add(ledger, "x"));
            assertThat(cursor.getNumberOfEntriesInBacklog(true)).isZero();
            return;
        }
        CompletableFuture<Position> acked = new CompletableFuture<>();
        ledger.asyncAddEntry("x".getBytes(StandardCharsets.UTF_8), new AddEntryCallback() {
            @Override
            public void addComplete(Position position, ByteBuf data, Object ctx) {
                try {
                    cursor.markDelete(position);
                    acked.complete(position);
                } catch (Exception e) {
                    acked.completeExceptionally(e);
                }
            }

            @Override
            public void addFailed(ManagedLedgerException exception, Object ctx) {
                acked.completeExceptionally(exception);
            }
        }, null);
        // its answer comes on the thread of the append's callback: refused, and carried out
        assertThat(acked).failsWithin(PROMPT).withThrowableOfType(ExecutionException.class).havingCause()
            .isInstanceOf(ManagedLedgerException.class).withMessageContaining("callback");
        Ledgers.await("the entry is acknowledged", () -> cursor.getNumberOfEntriesInBacklog(true) == 0);
    }
}
