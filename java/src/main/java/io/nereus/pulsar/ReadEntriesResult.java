package io.nereus.pulsar;

import java.util.List;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;

/** Receives the outcome of one ledger read: exactly one call, on the ledger's ordered executor. */
interface ReadEntriesResult {

    /**
     * @param entries consecutive entries from the requested offset on, in a mutable list; empty at the committed end.
     *                Each entry holds one reference that now belongs to the receiver
     */
    void entries(List<Entry> entries);

    void failed(ManagedLedgerException exception);
}
