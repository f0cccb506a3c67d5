package io.nereus.pulsar;

import org.apache.bookkeeper.mledger.ManagedLedgerException;

/** The one way in which the facade refuses a feature by name, before any effect (L14). */
final class Unsupported {

    private Unsupported() {
    }

    /**
     * @param feature what was asked for, in Pulsar's words
     * @param advice  what to do instead
     */
    static ManagedLedgerException feature(String feature, String advice) {
        String text = "Nereus does not support " + feature + "; " + advice;
        return new ManagedLedgerException(text, new UnsupportedOperationException(text));
    }
}
