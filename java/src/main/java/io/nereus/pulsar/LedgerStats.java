package io.nereus.pulsar;

import org.apache.bookkeeper.mledger.impl.ManagedLedgerMBeanImpl;

/** BORDER ONLY, being written. */
class LedgerStats extends ManagedLedgerMBeanImpl {
    LedgerStats() {
        super(null);
    }
}
