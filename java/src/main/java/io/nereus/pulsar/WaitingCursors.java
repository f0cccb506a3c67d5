package io.nereus.pulsar;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The cursors of one ledger that wait for entries.
 *
 * <p>Promises: a cursor is told once per registration, on the ledger's executor, and is forgotten by being told. A
 * cursor that registers looks at the committed end again afterwards, so that an entry committed in between is not
 * missed. Registration is safe from any thread.
 */
final class WaitingCursors {

    private static final Logger log = LoggerFactory.getLogger(WaitingCursors.class);

    private final Set<ManagedCursor> waiting = ConcurrentHashMap.newKeySet();

    void add(NereusManagedCursor cursor) {
        waiting.add(cursor);
    }

    void remove(ManagedCursor cursor) {
        waiting.remove(cursor);
    }

    int size() {
        return waiting.size();
    }

    /** Tells every cursor that waits now. On the ledger's executor. */
    void wakeAll() {
        if (waiting.isEmpty()) {
            return;
        }
        for (ManagedCursor cursor : waiting) {
            if (!waiting.remove(cursor)) {
                continue; // it stopped waiting in the meantime
            }
            try {
                ((NereusManagedCursor) cursor).notifyEntriesAvailable();
            } catch (RuntimeException e) {
                log.error("[{}] a waiting read failed when it was woken", cursor.getName(), e);
            }
        }
    }
}
