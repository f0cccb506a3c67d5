package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.failure;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerTerminatedException;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.broker.intercept.ManagedLedgerInterceptorImpl;
import org.apache.pulsar.common.api.proto.BrokerEntryMetadata;
import org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor;
import org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor;
import org.apache.pulsar.common.protocol.Commands;
import org.testng.annotations.Test;

/** The broker's own interceptor, which numbers messages and notes when the broker took them. */
public class BrokerEntryMetadataContractTest extends ContractTest {

    private static ManagedLedgerConfig numbering(World world, ManagedLedgerInterceptorImpl interceptor) {
        ManagedLedgerConfig config = world.config();
        config.setManagedLedgerInterceptor(interceptor);
        return config;
    }

    private static ManagedLedgerInterceptorImpl interceptor() {
        return new ManagedLedgerInterceptorImpl(
            Set.of(new AppendIndexMetadataInterceptor(), new AppendBrokerTimestampMetadataInterceptor()), null);
    }

    /** The index of the last message of every entry. */
    private static List<Long> indexes(ManagedLedger ledger) throws Exception {
        List<Long> indexes = new ArrayList<>();
        ManagedCursor cursor = ledger.newNonDurableCursor(PositionFactory.EARLIEST);
        while (cursor.hasMoreEntries()) {
            for (Entry entry : cursor.readEntries(100)) {
                BrokerEntryMetadata metadata = Commands.parseBrokerEntryMetadataIfExist(entry.getDataBuffer());
                indexes.add(metadata.getIndex());
                assertThat(metadata.getBrokerTimestamp()).isPositive();
                entry.release();
            }
        }
        return indexes;
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void messagesAreNumberedWithoutGapOverFailuresAndRestarts(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedgerInterceptorImpl first = interceptor();
        ManagedLedger ledger = world.open(name, numbering(world, first));
        assertThat(first.getIndex()).isEqualTo(-1);
        ledger.addEntry(Messages.published(1), 3);
        ledger.addEntry(Messages.published(2), 1);
        assertThat(first.getIndex()).isEqualTo(3);
        ledger.setProperty("k", "v"); // stores the index with the properties
        ledger.addEntry(Messages.published(3), 2);
        world.crash();
        ManagedLedgerInterceptorImpl second = interceptor();
        ManagedLedger again = world.open(name, numbering(world, second));
        assertThat(second.getIndex()).as("of the last entry, not of the properties").isEqualTo(5);
        again.addEntry(Messages.published(4), 5);
        assertThat(indexes(again)).containsExactly(2L, 3L, 5L, 10L);
        again.terminate();
        assertThat(failure(() -> again.addEntry(Messages.published(5), 7)))
            .isInstanceOf(ManagedLedgerTerminatedException.class);
        assertThat(second.getIndex()).as("a refused append gives its numbers back").isEqualTo(10);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void theLastNumberSurvivesWhenEverythingWasConsumed(Storage storage) throws Exception {
        World world = freshWorld(storage);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name, numbering(world, interceptor()).setMaxEntriesPerLedger(2));
        for (int i = 0; i < 4; i++) {
            ledger.addEntry(Messages.published(i), 1);
        }
        Ledgers.await(ledger.asyncTruncate());
        world.restart();
        ManagedLedgerInterceptorImpl next = interceptor();
        ManagedLedger again = world.open(name, numbering(world, next));
        again.addEntry(Messages.published(9), 1);
        assertThat(next.getIndex()).isEqualTo(4);
    }
}
