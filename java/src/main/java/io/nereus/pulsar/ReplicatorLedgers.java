package io.nereus.pulsar;

import io.nereus.pulsar.compat.ReplicatorCast;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which cursors have to answer their ledger as stock's class, because the broker's replicator casts it, and the making of
 * that answer.
 *
 * <p>Promises: a broker whose replicator casts nothing, and every other cursor of one that does, see the ledger itself. That
 * matters: where the broker only asks whether a ledger is of stock's class, it goes another way with one that is. Where
 * the answer cannot be made, the ledger itself is answered, and a warning says once what follows from it. Thread-safe.
 */
final class ReplicatorLedgers {

    private static final Logger log = LoggerFactory.getLogger(ReplicatorLedgers.class);

    /** Makes what stands for a ledger. */
    interface Maker {

        ManagedLedger make(NereusManagedLedger ledger) throws ReflectiveOperationException;
    }

    private final boolean cast;
    private final String prefix;
    private final Maker maker;
    private final AtomicBoolean warned = new AtomicBoolean();

    /**
     * @param cast   whether the replicator casts its ledger
     * @param prefix what the names of cursors of replicators, and of no others, begin with
     */
    ReplicatorLedgers(boolean cast, String prefix, Maker maker) {
        this.cast = cast;
        this.prefix = prefix;
        this.maker = maker;
    }

    /** As this broker needs it; {@code prefix} is its {@code replicatorPrefix}. */
    static ReplicatorLedgers ofBroker(String prefix) {
        return new ReplicatorLedgers(ReplicatorCast.exists(), prefix, CastableLedger::of);
    }

    /**
     * Whether the cursor of that name belongs to a replicator that casts. Names are told apart as the broker does it: it
     * keeps all that begin with the prefix for its replicators, those to clusters and those to shadow topics.
     */
    boolean castBy(String cursorName) {
        return cast && cursorName.startsWith(prefix);
    }

    /** Makes what stands for {@code ledger}; {@code ledger} itself if that does not succeed. */
    ManagedLedger castable(NereusManagedLedger ledger) {
        try {
            return maker.make(ledger);
        } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
            if (warned.compareAndSet(false, true)) {
                log.warn("[{}] The replicator of this Pulsar release takes stock's class only, and no object of it can be made:"
                    + " geo-replication and replication to shadow topics send nothing", ledger.getName(), e);
            }
            return ledger;
        }
    }
}
