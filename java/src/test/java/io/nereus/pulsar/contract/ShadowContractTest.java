package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Ledgers.text;
import static io.nereus.pulsar.contract.Ledgers.texts;
import static io.nereus.pulsar.contract.Storage.NEREUS;
import static io.nereus.pulsar.contract.Storage.STOCK;
import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerNotFoundException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.common.naming.TopicName;
import org.testng.annotations.Test;

/** A ledger whose configuration names a shadow source shows the entries of that source, under their positions. */
public class ShadowContractTest extends ContractTest {

    /** The configuration with which a broker opens a shadow of the ledger {@code source}. */
    static ManagedLedgerConfig shadowOf(World world, String source) {
        ManagedLedgerConfig config = world.config();
        config.setProperties(Map.of(ManagedLedgerConfig.PROPERTY_SOURCE_TOPIC_KEY,
            TopicName.fromPersistenceNamingEncoding(source)));
        config.setShadowSourceName(source);
        return config;
    }

    private static ManagedLedger shadow(World world, ManagedLedger source, String name) throws Exception {
        return world.open(name, shadowOf(world, source.getName()));
    }

    /** Tells {@code shadow} of the source's entry at {@code position}, as the broker's replicator does. */
    static Position tell(ManagedLedger shadow, Object position, String bytes) throws Exception {
        return await(telling(shadow, position, bytes));
    }

    private static CompletableFuture<Position> telling(ManagedLedger shadow, Object position, String bytes) {
        CompletableFuture<Position> told = new CompletableFuture<>();
        ByteBuf buffer = Unpooled.wrappedBuffer(bytes.getBytes(StandardCharsets.UTF_8));
        shadow.asyncAddEntry(buffer, 1, new AddEntryCallback() {
            @Override
            public void addComplete(Position at, ByteBuf entryData, Object ctx) {
                told.complete(at);
            }

            @Override
            public void addFailed(ManagedLedgerException exception, Object ctx) {
                told.completeExceptionally(exception);
            }
        }, position);
        buffer.release();
        return told;
    }

    private static ManagedCursor earliest(ManagedLedger ledger, String name) throws Exception {
        return ledger.openCursor(name, InitialPosition.Earliest);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAddTakesTheSourcesPositionAndItsEntryIsReadFromTheSource(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger source = world.open(world.freshName());
        add(source, "before");
        ManagedLedger shadow = shadow(world, source, world.freshName());
        ManagedCursor cursor = earliest(shadow, "c");
        Position last = add(source, "after");
        if (storage == NEREUS) { // stock also looks at the source when it learns of a ledger
            assertThat(shadow.getLastConfirmedEntry()).isNotEqualTo(last);
        }
        assertThat(tell(shadow, last, "what the replicator sends")).isEqualTo(last);
        assertThat(shadow.getLastConfirmedEntry()).isEqualTo(last);
        assertThat(shadow.getNumberOfEntries()).isEqualTo(2);
        List<Entry> read = cursor.readEntries(10);
        assertThat(read.get(1).getPosition()).isEqualTo(last);
        assertThat(texts(read)).containsExactly("before", "after");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void whatWasNotToldOfShowsWithTheNextEntryThatIs(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger source = world.open(world.freshName());
        ManagedLedger shadow = shadow(world, source, world.freshName());
        ManagedCursor cursor = earliest(shadow, "c");
        List<Position> all = addMany(source, 5);
        if (storage == NEREUS) { // stock also looks at the source when it learns of a ledger
            assertThat(cursor.hasMoreEntries()).isFalse();
        }
        tell(shadow, all.get(3), "e3");
        assertThat(texts(cursor.readEntries(10))).containsExactly("e0", "e1", "e2", "e3");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitingReadIsWokenByTheAddAndNotByTheSource(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger source = world.open(world.freshName());
        ManagedLedger shadow = shadow(world, source, world.freshName());
        CompletableFuture<List<Entry>> read = new CompletableFuture<>();
        earliest(shadow, "c").asyncReadEntriesOrWait(1, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                read.complete(entries);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                read.completeExceptionally(exception);
            }
        }, null, PositionFactory.LATEST);
        Position position = add(source, "one");
        if (storage == NEREUS) { // stock may have looked at the source when it learned of its ledger
            assertThat(read).isNotDone();
        }
        tell(shadow, position, "one");
        assertThat(texts(await(read))).containsExactly("one");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anEntryToldOfAgainDoesNotMoveTheEndBack(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger source = world.open(world.freshName());
        ManagedLedger shadow = shadow(world, source, world.freshName());
        List<Position> all = addMany(source, 2);
        tell(shadow, all.get(0), "e0");
        tell(shadow, all.get(1), "e1");
        assertThat(tell(shadow, all.get(0), "e0")).isEqualTo(all.get(0));
        // stock takes every position it is told of for the last one
        assertThat(shadow.getLastConfirmedEntry()).isEqualTo(all.get(storage == STOCK ? 0 : 1));
        assertThat(shadow.getNumberOfEntries()).isEqualTo(storage == STOCK ? 3 : 2);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAddWithoutAPositionIsRefused(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger source = world.open(world.freshName());
        ManagedLedger shadow = shadow(world, source, world.freshName());
        Position first = add(source, "one");
        assertThat(failure(() -> tell(shadow, "no position", "x"))).isExactlyInstanceOf(ManagedLedgerException.class);
        assertThat(tell(shadow, first, "one")).as("what comes next is not held up").isEqualTo(first);
        assertThat(shadow.getPendingAddEntriesCount()).isZero();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anAddOfWhatTheSourceDoesNotHaveIsRefused(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger source = world.open(world.freshName());
        Position only = add(source, "one");
        ManagedLedger shadow = shadow(world, source, world.freshName());
        Position next = PositionFactory.create(only.getLedgerId(), only.getEntryId() + 1);
        if (storage == STOCK) { // it believes every position of a ledger that it knows
            assertThat(tell(shadow, next, "x")).isEqualTo(next);
            return;
        }
        assertThat(failure(() -> tell(shadow, next, "x"))).hasMessageContaining(source.getName())
            .hasMessageContaining(next.toString());
        assertThat(shadow.getLastConfirmedEntry()).isEqualTo(only);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aShadowWithoutItsSourceIsNotFoundAndNothingIsCreated(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedgerConfig config = shadowOf(world, world.freshName());
        assertThat(failure(() -> world.open(name, config))).isInstanceOf(ManagedLedgerNotFoundException.class);
        assertThat(await(world.factory().asyncExists(name))).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aShadowIsNotTerminated(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger source = world.open(world.freshName());
        ManagedLedger shadow = shadow(world, source, world.freshName());
        assertThat(failure(shadow::terminate)).isExactlyInstanceOf(ManagedLedgerException.class);
        assertThat(shadow.isTerminated()).isFalse();
        Position first = add(source, "one");
        assertThat(tell(shadow, first, "one")).isEqualTo(first);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void ofATerminatedSourceEverythingIsShown(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger source = world.open(world.freshName());
        addMany(source, 2);
        Position end = source.terminate();
        ManagedLedger shadow = shadow(world, source, world.freshName());
        assertThat(shadow.getLastConfirmedEntry()).isEqualTo(end);
        assertThat(shadow.isTerminated()).isFalse();
        assertThat(texts(earliest(shadow, "c").readEntries(10))).containsExactly("e0", "e1");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void cursorsAreTheShadowsOwn(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger source = world.open(world.freshName());
        ManagedCursor ofSource = earliest(source, "same");
        List<Position> all = addMany(source, 3);
        ManagedLedger shadow = shadow(world, source, world.freshName());
        ManagedCursor ofShadow = earliest(shadow, "same");
        ofShadow.markDelete(all.get(1));
        assertThat(ofShadow.getNumberOfEntriesInBacklog(true)).isEqualTo(1);
        assertThat(ofSource.getNumberOfEntriesInBacklog(true)).isEqualTo(3);
        assertThat(source.getCursors()).hasSize(1);
        assertThat(shadow.getCursors()).hasSize(1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void oneEntryIsReadByItsPosition(Storage storage) throws Exception {
        World world = world(storage);
        ManagedLedger source = world.open(world.freshName());
        List<Position> all = addMany(source, 3);
        ManagedLedger shadow = shadow(world, source, world.freshName());
        ManagedCursor cursor = earliest(shadow, "c");
        cursor.seek(all.get(1));
        assertThat(text(cursor.readEntries(1).get(0))).isEqualTo("e1");
        assertThat(shadow.getLedgersInfo().lastKey()).isEqualTo(all.get(2).getLedgerId());
        assertThat(shadow.getTotalSize()).isEqualTo(source.getTotalSize());
    }

    /** Stock opens again when it hears of its source after the close. */
    @Test
    public void anAddAfterTheCloseIsRefused() throws Exception {
        World world = world(NEREUS);
        ManagedLedger source = world.open(world.freshName());
        ManagedLedger shadow = shadow(world, source, world.freshName());
        Position first = add(source, "one");
        shadow.close();
        assertThat(failure(() -> tell(shadow, first, "one"))).isInstanceOf(
            ManagedLedgerException.ManagedLedgerAlreadyClosedException.class);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void anotherLifeOfTheSourceFencesTheShadow(Storage storage) throws Exception {
        World world = world(storage);
        String name = world.freshName();
        ManagedLedger source = world.open(name);
        add(source, "old");
        ManagedLedger shadow = shadow(world, source, world.freshName());
        source.delete();
        Position anew = add(world.open(name), "new");
        if (storage == STOCK) { // it waits for a ledger that it will never learn of
            CompletableFuture<Position> told = telling(shadow, anew, "new");
            await("the add waits", () -> shadow.getPendingAddEntriesCount() == 1);
            assertThat(told).isNotDone();
            return;
        }
        assertThat(failure(() -> tell(shadow, anew, "new"))).isInstanceOf(ManagedLedgerFencedException.class);
        assertThat(failure(() -> earliest(shadow, "c"))).isInstanceOf(ManagedLedgerFencedException.class);
    }
}
