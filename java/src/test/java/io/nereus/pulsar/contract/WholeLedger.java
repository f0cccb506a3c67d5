package io.nereus.pulsar.contract;

import java.util.ArrayList;
import java.util.List;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.PositionFactory;

/** A look at everything a ledger holds, through a cursor that is not stored. */
final class WholeLedger implements AutoCloseable {

    private static final int BATCH = 1000;

    private final ManagedLedger ledger;
    private final ManagedCursor cursor;

    WholeLedger(ManagedLedger ledger) throws Exception {
        this.ledger = ledger;
        this.cursor = ledger.newNonDurableCursor(PositionFactory.EARLIEST);
    }

    /** Every live entry; the caller releases them. */
    List<Entry> all() throws Exception {
        List<Entry> entries = new ArrayList<>();
        while (cursor.hasMoreEntries()) {
            entries.addAll(cursor.readEntries(BATCH));
        }
        return entries;
    }

    @Override
    public void close() {
        try {
            ledger.deleteCursor(cursor.getName());
        } catch (Exception e) {
            throw new IllegalStateException("the reader of " + ledger.getName() + " did not go away", e);
        }
    }
}
