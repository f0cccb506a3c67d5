package io.nereus.pulsar.compat;

import org.apache.bookkeeper.mledger.proto.MLDataFormats.ManagedLedgerInfo.LedgerInfo;

/** Makes and reads Pulsar's {@code LedgerInfo}: protobuf with builders in Pulsar 4.0, a mutable class later. */
public final class LedgerInfos {

    private LedgerInfos() {
    }

    /**
     * Makes the description of one virtual ledger.
     *
     * @param timestampMillis when the ledger was closed; 0 for the open one. Always set: the broker asks whether it is
     */
    public static LedgerInfo of(long ledgerId, long entries, long sizeBytes, long timestampMillis) {
        return LedgerInfo.newBuilder()
            .setLedgerId(ledgerId)
            .setEntries(entries)
            .setSize(sizeBytes)
            .setTimestamp(timestampMillis)
            .build();
    }

    /** Returns the ledger id. */
    public static long ledgerId(LedgerInfo info) {
        return info.getLedgerId();
    }

    /** Returns the number of live entries. */
    public static long entries(LedgerInfo info) {
        return info.getEntries();
    }

    /** Returns the live bytes. */
    public static long size(LedgerInfo info) {
        return info.getSize();
    }

    /** Returns the time of closing in milliseconds, 0 for the open ledger. */
    public static long timestamp(LedgerInfo info) {
        return info.getTimestamp();
    }
}
