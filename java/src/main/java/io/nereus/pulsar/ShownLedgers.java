package io.nereus.pulsar;

import io.nereus.pulsar.compat.StockCasts;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Who has to see a ledger as one of stock's class, because it casts, and the making of what it sees.
 *
 * <p>Promises: everybody else sees the ledger itself. That matters: where the broker only asks whether a ledger is of stock's
 * class, it goes another way with one that is. Where the answer cannot be made, the ledger itself is answered, and a warning
 * says once what follows from it. Thread-safe.
 */
final class ShownLedgers {

    private static final Logger log = LoggerFactory.getLogger(ShownLedgers.class);

    /** Makes what stands for a ledger. */
    interface Maker {

        ManagedLedger make(NereusManagedLedger ledger) throws ReflectiveOperationException;
    }

    private final Predicate<Class<?>> casts;
    private final Maker maker;
    private final AtomicBoolean warned = new AtomicBoolean();

    /** @param casts whether a class that asks for a ledger casts it */
    ShownLedgers(Predicate<Class<?>> casts, Maker maker) {
        this.casts = casts;
        this.maker = maker;
    }

    /** As this broker needs it. */
    static ShownLedgers ofBroker() {
        return new ShownLedgers(StockCasts::in, CastableLedger::of);
    }

    /** Whether {@code caller} casts the ledger that it asks for. */
    boolean castBy(Class<?> caller) {
        return casts.test(caller);
    }

    /** Makes what stands for {@code ledger}; {@code ledger} itself if that does not succeed. */
    ManagedLedger castable(NereusManagedLedger ledger) {
        try {
            return maker.make(ledger);
        } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
            if (warned.compareAndSet(false, true)) {
                log.warn("[{}] This Pulsar release casts ledgers to stock's class, and no object of it can be made: geo-replication,"
                    + " replication to shadow topics and the classic Key_Shared dispatcher do not work", ledger.getName(), e);
            }
            return ledger;
        }
    }
}
