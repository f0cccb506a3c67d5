package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.CursorCalls.earliest;
import static io.nereus.pulsar.contract.CursorCalls.markDelete;
import static io.nereus.pulsar.contract.Ledgers.addMany;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static io.nereus.pulsar.contract.Storage.STOCK;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.Test;

/** The properties of a cursor's mark-delete position, and those of the cursor itself. */
public class CursorPropertiesContractTest extends ContractTest {

    private static final String INTERNAL = ManagedCursor.CURSOR_INTERNAL_PROPERTY_PREFIX + "of-the-broker";

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void propertiesBelongToTheirMarkDelete(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        assertThat(cursor.getProperties()).isEmpty();
        List<Position> positions = addMany(ledger, 4);
        cursor.markDelete(positions.get(0), Map.of("a", 1L, "b", 2L));
        assertThat(cursor.getProperties()).containsOnly(Map.entry("a", 1L), Map.entry("b", 2L));
        cursor.delete(positions.get(2));
        assertThat(cursor.getProperties()).as("individual acks leave them").hasSize(2);
        cursor.markDelete(positions.get(1), Map.of("c", Long.MIN_VALUE));
        assertThat(cursor.getProperties()).containsOnly(Map.entry("c", Long.MIN_VALUE));
        cursor.markDelete(positions.get(3));
        assertThat(cursor.getProperties()).as("a mark-delete without properties has none").isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void positionPropertiesSurviveACrashWithTheirPosition(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        cursor.markDelete(positions.get(1), Map.of("sequence", 17L));
        world.crash();
        ManagedCursor again = earliest(world.open(name), "c");
        assertThat(again.getMarkDeletedPosition()).isEqualTo(positions.get(1));
        assertThat(again.getProperties()).containsOnly(Map.entry("sequence", 17L));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void singlePropertiesShowAtOnceAndSurviveAClose(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 2);
        cursor.markDelete(positions.get(0), new HashMap<>(Map.of("a", 1L, "b", 2L)));
        assertThat(cursor.putProperty("c", 3L)).isTrue();
        assertThat(cursor.removeProperty("a")).isTrue();
        assertThat(cursor.removeProperty("never there")).isTrue();
        assertThat(cursor.getProperties()).containsOnly(Map.entry("b", 2L), Map.entry("c", 3L));
        world.restart();
        assertThat(earliest(world.open(name), "c").getProperties())
            .containsOnly(Map.entry("b", 2L), Map.entry("c", 3L));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void cursorPropertiesAreSetPutRemovedAndSurviveACrash(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedCursor cursor = earliest(world.open(name), "c");
        assertThat(cursor.getCursorProperties()).isEmpty();
        await(cursor.setCursorProperties(Map.of("a", "1", "b", "2")));
        await(cursor.putCursorProperty("c", "3"));
        await(cursor.putCursorProperty("a", "4"));
        await(cursor.removeCursorProperty("b"));
        await(cursor.removeCursorProperty("never there"));
        Map<String, String> expected = Map.of("a", "4", "c", "3");
        assertThat(cursor.getCursorProperties()).isEqualTo(expected);
        world.crash();
        ManagedCursor again = earliest(world.open(name), "c");
        assertThat(again.getCursorProperties()).isEqualTo(expected);
        await(again.setCursorProperties(null));
        assertThat(again.getCursorProperties()).isEmpty();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void settingCursorPropertiesKeepsInternalOnesAndMayNotSetThem(Storage storage) throws Exception {
        ManagedCursor cursor = earliest(ledger(storage), "c");
        await(cursor.putCursorProperty(INTERNAL, "kept"));
        await(cursor.setCursorProperties(Map.of("a", "1")));
        assertThat(cursor.getCursorProperties()).containsOnly(Map.entry(INTERNAL, "kept"), Map.entry("a", "1"));
        assertThatThrownBy(() -> await(cursor.setCursorProperties(Map.of(INTERNAL, "mine"))))
            .isInstanceOf(IllegalArgumentException.class);
        assertThat(cursor.getCursorProperties()).containsEntry(INTERNAL, "kept");
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void bothKindsAreGivenAtCreationAndNotByALaterOpen(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ledger.openCursor("c", InitialPosition.Earliest, Map.of("p", 1L), Map.of("q", "2"));
        ManagedCursor opened = ledger.openCursor("c", InitialPosition.Latest, Map.of("p", 9L), Map.of("q", "9"));
        assertThat(opened.getProperties()).isEqualTo(Map.of("p", 1L));
        assertThat(opened.getCursorProperties()).isEqualTo(Map.of("q", "2"));
        world.restart();
        ManagedCursor again = world.open(name).openCursor("c", InitialPosition.Earliest, Map.of(), Map.of());
        assertThat(again.getProperties()).isEqualTo(Map.of("p", 1L));
        assertThat(again.getCursorProperties()).isEqualTo(Map.of("q", "2"));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void concurrentEditsAndMarkDeletesAllStand_case_115(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 20);
        cursor.markDelete(positions.get(0));
        int threads = 16;
        List<CompletableFuture<Void>> edits = new ArrayList<>();
        List<Thread> running = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            String key = "k" + t;
            Position position = positions.get(1 + t);
            running.add(new Thread(() -> {
                CompletableFuture<Void> edit = cursor.putCursorProperty(key, key);
                CompletableFuture<Void> ack = markDelete(cursor, position, Map.of()).exceptionally(late -> null);
                synchronized (edits) {
                    edits.add(edit);
                    edits.add(ack);
                }
            }));
        }
        running.forEach(Thread::start);
        for (Thread thread : running) {
            thread.join();
        }
        if (storage == STOCK) { // edits overtake each other: some are refused as BadVersion, some are lost
            for (CompletableFuture<Void> edit : edits) {
                await(edit.exceptionally(refused -> null));
            }
            assertThat(cursor.getCursorProperties().size()).isBetween(1, threads);
            return;
        }
        CursorCalls.awaitAll(edits);
        world.restart();
        ManagedCursor again = earliest(world.open(name), "c");
        assertThat(again.getCursorProperties()).hasSize(threads);
        assertThat(again.getMarkDeletedPosition()).isEqualTo(positions.get(threads));
    }

    /** A compaction horizon lies in such properties: it must not show before it would survive. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void propertiesOfAMarkDeleteThatFailedDoNotShow_case_091(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        cursor.markDelete(positions.get(0), Map.of("horizon", 1L));
        if (storage == STOCK) { // shows them from the moment the write begins, whatever becomes of it
            CompletableFuture<Void> answer = markDelete(cursor, positions.get(1), Map.of("horizon", 2L));
            assertThat(cursor.getProperties()).isEqualTo(Map.of("horizon", 2L));
            await(answer);
            return;
        }
        ManagedLedger taken = world.secondBroker().open(name, world.config());
        assertThat(failure(() -> cursor.markDelete(positions.get(1), Map.of("horizon", 2L)))).isNotNull();
        assertThat(cursor.getPersistentMarkDeletedPosition()).isEqualTo(positions.get(0));
        assertThat(earliest(taken, "c").getProperties()).isEqualTo(Map.of("horizon", 1L));
        assertThat(cursor.getProperties()).isEqualTo(Map.of("horizon", 1L));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void propertiesWithoutAValueAreRefusedAndBreakNothing(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        cursor.markDelete(positions.get(0), Map.of("a", 1L));
        Map<String, String> nothing = new HashMap<>();
        nothing.put("k", null);
        assertThatThrownBy(() -> await(cursor.putCursorProperty("k", null))).isInstanceOf(Exception.class);
        assertThatThrownBy(() -> await(cursor.setCursorProperties(nothing))).isInstanceOf(Exception.class);
        Map<String, Long> noPosition = new HashMap<>();
        noPosition.put("a", null);
        if (storage != STOCK) { // stock fails after it has moved, and its cursor may stay stuck
            assertThatThrownBy(() -> await(markDelete(cursor, positions.get(1), noPosition)))
                .isInstanceOf(Exception.class);
            assertThatThrownBy(() -> cursor.putProperty("a", null)).isInstanceOf(NullPointerException.class);
            assertThat(cursor.getMarkDeletedPosition()).isEqualTo(positions.get(0));
            assertThat(cursor.getProperties()).isEqualTo(Map.of("a", 1L));
            assertThatThrownBy(() -> ledger.openCursor("d", InitialPosition.Earliest, noPosition, Map.of()))
                .isInstanceOf(Exception.class);
            assertThat(ledger.openCursor("d", InitialPosition.Earliest, Map.of(), Map.of()).getName()).isEqualTo("d");
        }
        await(cursor.putCursorProperty("good", "1"));
        cursor.markDelete(positions.get(2), Map.of("a", 2L));
        assertThat(cursor.getCursorProperties()).isEqualTo(Map.of("good", "1"));
        assertThat(cursor.getProperties()).isEqualTo(Map.of("a", 2L));
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void propertiesOfMoreThan192KibibytesAreRefusedByNameAndTheAcksGoOn(Storage storage) throws Exception {
        ManagedLedger ledger = ledger(storage);
        ManagedCursor cursor = earliest(ledger, "c");
        List<Position> positions = addMany(ledger, 3);
        String large = "x".repeat(200 << 10);
        if (storage == STOCK) { // has no limit of its own; the metadata store has one
            await(cursor.putCursorProperty("k", large));
            assertThat(cursor.getCursorProperties()).containsKey("k");
            return;
        }
        assertThat(failure(() -> await(cursor.putCursorProperty("k", large)))).hasMessageContaining("properties");
        assertThat(cursor.getCursorProperties()).isEmpty();
        assertThat(failure(() -> cursor.markDelete(positions.get(0), Map.of(large, 1L))))
            .hasMessageContaining("properties");
        cursor.markDelete(positions.get(1), Map.of("small", 1L));
        assertThat(cursor.getPersistentMarkDeletedPosition()).isEqualTo(positions.get(1));
        assertThat(cursor.getProperties()).isEqualTo(Map.of("small", 1L));
    }
}
