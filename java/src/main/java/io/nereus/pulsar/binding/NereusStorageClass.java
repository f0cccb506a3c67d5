package io.nereus.pulsar.binding;

import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.pulsar.broker.storage.ManagedLedgerStorageClass;

/**
 * The storage class {@code nereus}: what a namespace or topic policy names to have its topics stored by Nereus, and the
 * broker's default. Immutable.
 */
public final class NereusStorageClass implements ManagedLedgerStorageClass {

    /** Name of the storage class in policies. */
    public static final String NAME = "nereus";

    private final ManagedLedgerFactory factory;

    /** Serves topics through {@code factory}. */
    public NereusStorageClass(ManagedLedgerFactory factory) {
        this.factory = factory;
    }

    @Override
    public String getName() {
        return NAME;
    }

    @Override
    public ManagedLedgerFactory getManagedLedgerFactory() {
        return factory;
    }
}
