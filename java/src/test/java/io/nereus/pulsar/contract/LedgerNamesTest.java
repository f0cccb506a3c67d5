package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.add;
import static io.nereus.pulsar.contract.Ledgers.await;
import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.pulsar.common.naming.TopicName;
import org.testng.annotations.DataProvider;
import org.testng.annotations.Test;

/** Names of ledgers: opaque paths, made of a topic's name or of whatever later versions of Pulsar make of it. */
public class LedgerNamesTest extends ContractTest {

    /** Legal names, each with the storages. */
    @DataProvider(name = "legal")
    public static Object[][] legal() {
        List<Object[]> cases = new ArrayList<>();
        for (String name : List.of(
                TopicName.get("persistent://public/default/plain").getPersistenceNamingEncoding(),
                TopicName.get("persistent://public/default/a b+c%d").getPersistenceNamingEncoding(),
                TopicName.get("persistent://public/default/ünïcödé-\uD83D\uDE80").getPersistenceNamingEncoding(),
                TopicName.get("persistent://public/default/t-partition-7").getPersistenceNamingEncoding(),
                TopicName.get("persistent://pulsar/system/__change_events").getPersistenceNamingEncoding(),
                "prop/cluster/ns/persistent/old-style", // a cluster in a topic's name: Pulsar 4.2 reads none
                "public/default/segment/topic/0000-7fff-1",
                "one-element",
                "public/default/persistent/nereus",
                "public/default/persistent/" + "x".repeat(1000),
                "public/default/persistent/ü\uD83D\uDE80",
                "public/default/persistent/with space, comma;semicolon=equals",
                "public/default/persistent/...")) {
            for (Object[] storage : Storages.storages()) {
                cases.add(new Object[] {storage[0], name});
            }
        }
        return cases.toArray(Object[][]::new);
    }

    @Test(dataProvider = "legal")
    public void aLegalNameLivesThroughEverything_case_113(Storage storage, String name) throws Exception {
        World world = world(storage);
        ManagedLedger ledger = world.open(name);
        assertThat(ledger.getName()).isEqualTo(name);
        add(ledger, "a");
        assertThat(world.factory().getManagedLedgers()).containsEntry(name, ledger);
        assertThat(await(world.store().direct().exists(World.registryNode(name)))).isTrue();
        ledger.close();
        assertThat(world.open(name).getNumberOfEntries()).isEqualTo(1);
        assertThat(await(world.factory().asyncExists(name))).isTrue();
        assertThat(world.factory().getManagedLedgerInfo(name).ledgers).isNotEmpty();
        world.factory().delete(name);
        assertThat(await(world.factory().asyncExists(name))).isFalse();
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void namesThatDifferLittleAreDifferentLedgers_case_113(Storage storage) throws Exception {
        World world = world(storage);
        String base = world.freshName();
        List<String> names = List.of(base, base + "/b", base + "%2Fb", base + "%2fb", base + "B", base + "b",
            base + " b", base + "+b", base + "%20b");
        if (storage == Storage.STOCK) { // takes the ledger below for a cursor of the ledger above, and does not open
            names = List.of(base, base + "%2Fb", base + "%2fb", base + "B", base + "b");
        }
        for (String name : names) {
            add(world.open(name), name);
        }
        for (String name : names) {
            ManagedLedger ledger = world.open(name);
            try (WholeLedger all = new WholeLedger(ledger)) {
                assertThat(Ledgers.texts(all.all())).containsExactly(name);
            }
        }
        world.factory().delete(base);
        assertThat(world.open(base + "%2Fb").getNumberOfEntries()).isEqualTo(1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aNameThatIsNoPathIsRefusedBeforeAnythingIsStored_case_113(Storage storage) throws Exception {
        World world = freshWorld(storage);
        for (String name : List.of("", "/a", "a/", "a//b", "a/../b", "a/.", "..", "a\u0000b", "a\nb")) {
            if (storage == Storage.STOCK) { // hands every name to its metadata store, whatever that makes of it
                continue;
            }
            assertThat(failure(() -> world.open(name))).as("open %s", name)
                .isInstanceOf(ManagedLedgerException.class).hasMessageContaining("no ledger name");
            assertThat(failure(() -> world.factory().delete(name))).as("delete %s", name)
                .isInstanceOf(ManagedLedgerException.class);
            assertThat(failure(() -> world.factory().getManagedLedgerInfo(name))).as("info of %s", name)
                .isInstanceOf(ManagedLedgerException.class);
            assertThat(world.factory().getManagedLedgers()).isEmpty();
        }
        assertThat(await(world.store().direct().getChildren("/managed-ledgers"))).isEmpty();
        add(world.open(world.freshName()), "the factory goes on");
    }
}
