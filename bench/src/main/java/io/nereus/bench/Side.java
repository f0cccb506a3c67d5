package io.nereus.bench;

/** The two that are compared. */
public enum Side {
    /** Nereus in the broker's process. */
    NEREUS("io.nereus.pulsar.NereusManagedLedgerStorage"),
    /** Pulsar's own managed ledger on one BookKeeper bookie. */
    STOCK("org.apache.pulsar.broker.ManagedLedgerClientFactory");

    private final String storageClass;

    Side(String storageClass) {
        this.storageClass = storageClass;
    }

    /** Value of {@code managedLedgerStorageClassName}. */
    public String storageClass() {
        return storageClass;
    }

    /** How it is called in commands, file names and reports. */
    public String id() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }

    /** The side that {@link #id()} names. */
    public static Side of(String id) {
        return valueOf(id.toUpperCase(java.util.Locale.ROOT));
    }

    /** Who begins in a round: the other one than in the round before, so that neither always has the fresher disk. */
    static Side[] order(int round) {
        return round % 2 == 0 ? new Side[] {NEREUS, STOCK} : new Side[] {STOCK, NEREUS};
    }
}
