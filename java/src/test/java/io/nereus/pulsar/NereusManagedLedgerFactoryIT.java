package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenLedgerCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenReadOnlyManagedLedgerCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFactoryClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerNotFoundException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.MetadataNotFoundException;
import org.apache.bookkeeper.mledger.ManagedLedgerInfo;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;
import org.apache.bookkeeper.mledger.ReadOnlyManagedLedger;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.PersistentOfflineTopicStats;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

public class NereusManagedLedgerFactoryIT {

    private static final long TIMEOUT_SECONDS = 60;

    private LedgerFixture fixture;

    @BeforeMethod
    public void openFixture() throws Exception {
        fixture = new LedgerFixture();
    }

    @AfterMethod(alwaysRun = true)
    public void closeFixture() {
        if (fixture != null) {
            fixture.close();
        }
    }

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    private CompletableFuture<ManagedLedger> open(String name, ManagedLedgerConfig config) {
        CompletableFuture<ManagedLedger> opened = new CompletableFuture<>();
        fixture.factory().asyncOpen(name, config, new OpenLedgerCallback() {
            @Override
            public void openLedgerComplete(ManagedLedger ledger, Object ctx) {
                opened.complete(ledger);
            }

            @Override
            public void openLedgerFailed(ManagedLedgerException exception, Object ctx) {
                opened.completeExceptionally(exception);
            }
        }, null, null);
        return opened;
    }

    private static ManagedLedgerConfig notCreating() {
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        config.setCreateIfMissing(false);
        return config;
    }

    private String registryNode(String name) {
        return "/managed-ledgers/" + name;
    }

    @Test
    public void concurrentOpensShareOneInstance() throws Exception {
        String name = LedgerFixture.freshName();
        List<CompletableFuture<ManagedLedger>> opens = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            opens.add(open(name, new ManagedLedgerConfig()));
        }
        ManagedLedger first = get(opens.get(0));
        for (CompletableFuture<ManagedLedger> open : opens) {
            assertThat(get(open)).isSameAs(first);
        }
        assertThat(fixture.factory().getManagedLedgers()).containsOnlyKeys(name);
        assertThat(fixture.factory().getCacheStats().getNumberOfManagedLedgers()).isEqualTo(1);
    }

    @Test
    public void openingWhatIsNotThereFailsByTypeAndIsForgotten() throws Exception {
        String name = LedgerFixture.freshName();
        assertThatThrownBy(() -> fixture.ledger(name, notCreating()))
            .isInstanceOf(ManagedLedgerNotFoundException.class);
        assertThat(get(fixture.factory().asyncExists(name))).isFalse();
        assertThat(get(fixture.store().exists(registryNode(name)))).as("nothing was created").isFalse();
        LedgerFixture.add(fixture.ledger(name), "now it is");
        assertThat(get(fixture.factory().asyncExists(name))).isTrue();
    }

    @Test
    public void anOpenThatMayCreateIsNotFailedByOneThatMayNot() throws Exception {
        String name = LedgerFixture.freshName();
        CompletableFuture<ManagedLedger> asking = open(name, notCreating());
        CompletableFuture<ManagedLedger> creating = open(name, new ManagedLedgerConfig());
        assertThat(get(creating)).isNotNull();
        asking.handle((ledger, failure) -> null).get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    @Test
    public void deletingWhatIsNotThereFailsAsTheBrokerExpects() {
        assertThatThrownBy(() -> fixture.factory().delete(LedgerFixture.freshName()))
            .isInstanceOf(MetadataNotFoundException.class)
            .hasCauseInstanceOf(MetadataStoreException.NotFoundException.class);
    }

    @Test
    public void l13_aRecreatedLedgerIsEmptyAndItsLedgerIdsAreAboveTheOldOnes() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger old = fixture.ledger(name);
        old.openCursor("sub");
        Position before = LedgerFixture.add(old, "old");
        old.delete();
        assertThat(get(fixture.store().exists(registryNode(name)))).isFalse();
        assertThat(get(fixture.factory().asyncExists(name))).isFalse();
        assertThat(fixture.factory().getManagedLedgers()).isEmpty();
        NereusManagedLedger fresh = fixture.ledger(name);
        assertThat(fresh.getCursors()).isEmpty();
        assertThat(fresh.getNumberOfEntries()).isZero();
        assertThat(LedgerFixture.add(fresh, "new").getLedgerId()).isGreaterThan(before.getLedgerId());
        assertThatThrownBy(() -> LedgerFixture.add(old, "late")).isInstanceOf(ManagedLedgerException.class);
    }

    @Test
    public void aClosedLedgerCanBeDeleted() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        LedgerFixture.add(ledger, "a");
        ledger.close();
        fixture.factory().delete(name);
        assertThat(get(fixture.factory().asyncExists(name))).isFalse();
    }

    @Test
    public void theRegistryNodeIsMadeAtOpenAndAnEmptyOneIsAdopted() throws Exception {
        String name = LedgerFixture.freshName();
        get(fixture.store().put(registryNode(name), new byte[0], Optional.of(-1L)));
        LedgerFixture.add(fixture.ledger(name), "a");
        byte[] marker = get(fixture.store().get(registryNode(name))).orElseThrow().getValue();
        assertThat(new String(marker)).startsWith("nereus/1 ");
    }

    @Test
    public void l13_aStockTopicIsRefusedByNameAndLeftAsItIs() throws Exception {
        String name = LedgerFixture.freshName();
        byte[] stock = {8, 1, 18, 4};
        get(fixture.store().put(registryNode(name), stock, Optional.of(-1L)));
        assertThatThrownBy(() -> fixture.ledger(name)).isInstanceOf(ManagedLedgerException.class)
            .hasMessageContaining(name);
        assertThat(get(fixture.store().get(registryNode(name))).orElseThrow().getValue()).isEqualTo(stock);
    }

    @Test
    public void anOpenByABrokerThatLostTheTopicIsRefusedBeforeAnyEffect() {
        String name = LedgerFixture.freshName();
        CompletableFuture<ManagedLedger> opened = new CompletableFuture<>();
        fixture.factory().asyncOpen(name, new ManagedLedgerConfig(), new OpenLedgerCallback() {
            @Override
            public void openLedgerComplete(ManagedLedger ledger, Object ctx) {
                opened.complete(ledger);
            }

            @Override
            public void openLedgerFailed(ManagedLedgerException exception, Object ctx) {
                opened.completeExceptionally(exception);
            }
        }, () -> CompletableFuture.completedFuture(false), null);
        assertThatThrownBy(() -> get(opened)).hasMessageContaining("does not own");
        assertThat(fixture.factory().asyncExists(name).join()).isFalse();
    }

    @Test
    public void everythingIsThereAfterARestart() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        ManagedCursor cursor = ledger.openCursor("sub", InitialPosition.Earliest);
        Position first = LedgerFixture.add(ledger, "a");
        LedgerFixture.add(ledger, "b");
        cursor.delete(first);
        fixture.restart();
        NereusManagedLedger again = fixture.ledger(name, notCreating());
        assertThat(LedgerFixture.texts(again.openCursor("sub").readEntries(10))).containsExactly("b");
    }

    @Test
    public void anUnopenedLedgerIsDescribed() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        ManagedCursor cursor = ledger.openCursor("sub", InitialPosition.Earliest);
        LedgerFixture.add(ledger, "a");
        Position second = LedgerFixture.add(ledger, "b");
        LedgerFixture.add(ledger, "c");
        cursor.delete(second);
        ledger.close();
        ManagedLedgerInfo info = fixture.factory().getManagedLedgerInfo(name);
        assertThat(info.ledgers).hasSize(1);
        assertThat(info.ledgers.get(0).entries).isEqualTo(3);
        assertThat(info.cursors.get("sub").markDelete.entryId).isEqualTo(-1);
        assertThat(info.cursors.get("sub").individualDeletedMessages).hasSize(1);
        PersistentOfflineTopicStats stats = new PersistentOfflineTopicStats(name, "broker");
        fixture.factory().estimateUnloadedTopicBacklog(stats,
            TopicName.get("persistent://public/default/" + name.substring(name.lastIndexOf('/') + 1)), true, null);
        assertThat(stats.totalMessages).isEqualTo(3);
        assertThat(stats.messageBacklog).isEqualTo(2);
        assertThatThrownBy(() -> fixture.factory().getManagedLedgerInfo(LedgerFixture.freshName()))
            .isInstanceOf(MetadataNotFoundException.class);
        assertThat(get(fixture.factory().getManagedLedgerPropertiesAsync(LedgerFixture.freshName()))).isEmpty();
    }

    @Test
    public void readOnlyOpensReadAndClaimNothing() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        Position first = LedgerFixture.add(ledger, "a");
        LedgerFixture.add(ledger, "b");
        ReadOnlyCursor cursor =
            fixture.factory().openReadOnlyCursor(name, PositionFactory.EARLIEST, new ManagedLedgerConfig());
        assertThat(cursor.getNumberOfEntries()).isEqualTo(2);
        assertThat(cursor.getReadPosition()).isEqualTo(first);
        assertThat(LedgerFixture.texts(cursor.readEntries(1))).containsExactly("a");
        LedgerFixture.add(ledger, "c");
        assertThat(LedgerFixture.texts(cursor.readEntries(10))).as("as of its open").containsExactly("b");
        assertThat(cursor.hasMoreEntries()).isFalse();
        assertThat(cursor.findNewestMatching(
            ManagedCursor.FindPositionConstraint.SearchAllAvailableEntries, entry -> LedgerFixture.text(entry).equals("a"))).isEqualTo(first);
        cursor.close();
        assertThatThrownBy(() -> cursor.readEntries(1)).isInstanceOf(ManagedLedgerException.class);
        assertThat(LedgerFixture.add(ledger, "d").getEntryId()).as("the owner goes on").isEqualTo(3);
        assertThatThrownBy(() -> fixture.factory().openReadOnlyCursor(LedgerFixture.freshName(),
            PositionFactory.EARLIEST, new ManagedLedgerConfig())).isInstanceOf(ManagedLedgerNotFoundException.class);
    }

    @Test
    public void readOnlyLedgersReadSingleEntries() throws Exception {
        String name = LedgerFixture.freshName();
        Position first = LedgerFixture.add(fixture.ledger(name), "a");
        CompletableFuture<Entry> entry = new CompletableFuture<>();
        CompletableFuture<ReadOnlyManagedLedger> opened = new CompletableFuture<>();
        fixture.factory().asyncOpenReadOnlyManagedLedger(name, new OpenReadOnlyManagedLedgerCallback() {
            @Override
            public void openReadOnlyManagedLedgerComplete(ReadOnlyManagedLedger ledger, Object ctx) {
                opened.complete(ledger);
            }

            @Override
            public void openReadOnlyManagedLedgerFailed(ManagedLedgerException exception, Object ctx) {
                opened.completeExceptionally(exception);
            }
        }, new ManagedLedgerConfig(), null);
        get(opened).asyncReadEntry(first, Callbacks.entry(entry, read -> read), null);
        assertThat(LedgerFixture.text(get(entry))).isEqualTo("a");
        assertThat(get(opened).getNumberOfEntries()).isEqualTo(1);
    }

    @Test
    public void aClosedFactoryRefusesEverythingByType() throws Exception {
        String name = LedgerFixture.freshName();
        NereusManagedLedger ledger = fixture.ledger(name);
        NereusManagedLedgerFactory factory = fixture.factory();
        fixture.restart();
        assertThat(ledger.isClosed()).isTrue();
        assertThatThrownBy(() -> factory.open(name)).isInstanceOf(ManagedLedgerFactoryClosedException.class);
        assertThatThrownBy(() -> factory.delete(name)).isInstanceOf(ManagedLedgerFactoryClosedException.class);
        assertThatThrownBy(factory::shutdown).isInstanceOf(ManagedLedgerFactoryClosedException.class);
    }
}
