package io.nereus.pulsar.bridge;

/**
 * A ledger that was opened.
 *
 * @param stream handle of its stream; the receiver owns it and closes it
 * @param description what was found
 */
public record OpenedLedger(NativeStream stream, LedgerDescription description) {
}
