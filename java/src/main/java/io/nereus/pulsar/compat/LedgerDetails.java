package io.nereus.pulsar.compat;

/**
 * One virtual ledger as Pulsar is shown it, in a type that is the same under every Pulsar release.
 *
 * @param entries      live entries, counted from the ledger's first entry id
 * @param bytes        live bytes
 * @param closedMillis when it was closed; 0 for the open one
 */
public record LedgerDetails(long ledgerId, long entries, long bytes, long closedMillis) {
}
