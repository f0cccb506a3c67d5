package io.nereus.pulsar.contract;

import java.util.List;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.Position;

/**
 * A ledger that was opened afresh, so that no cache holds its entries and each read meets {@code hook}.
 *
 * @param cursor    stands before the first entry
 * @param positions of the entries, whose texts are e0, e1, ...
 */
record Reopened(PayloadHook hook, ManagedCursor cursor, List<Position> positions) {

    static Reopened of(World world, Storage storage, int entries) throws Exception {
        PayloadHook hook = new PayloadHook(storage);
        ManagedLedgerConfig config = world.config();
        config.setManagedLedgerInterceptor(hook);
        String name = world.freshName();
        ManagedLedger ledger = world.open(name, config);
        Reads.earliest(ledger, "sub");
        List<Position> positions = Ledgers.addMany(ledger, entries);
        ledger.close();
        return new Reopened(hook, Reads.earliest(world.open(name, config), "sub"), positions);
    }
}
