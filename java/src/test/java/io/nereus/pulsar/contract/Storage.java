package io.nereus.pulsar.contract;

/** The two storages whose behaviour one contract test states. */
public enum Storage {
    /** Pulsar's own managed ledger over a mock of BookKeeper. */
    STOCK,
    /** Nereus, loaded through the storage class that broker.conf names. */
    NEREUS
}
