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

    /** Made by the first cursor that waits, and then kept; null before: a topic without consumers never has one. */
    private volatile Set<ManagedCursor> waiting;

    void add(NereusManagedCursor cursor) {
        made().add(cursor);
    }

    private Set<ManagedCursor> made() {
        Set<ManagedCursor> made = waiting;
        if (made == null) {
            synchronized (this) {
                made = waiting;
                if (made == null) {
                    made = ConcurrentHashMap.newKeySet();
                    waiting = made;
                }
            }
        }
        return made;
    }

    void remove(ManagedCursor cursor) {
        Set<ManagedCursor> made = waiting;
        if (made != null) {
            made.remove(cursor);
        }
    }

    int size() {
        Set<ManagedCursor> made = waiting;
        return made == null ? 0 : made.size();
    }

    /** Tells every cursor that waits now. On the ledger's executor. */
    void wakeAll() {
        Set<ManagedCursor> made = waiting;
        if (made == null || made.isEmpty()) {
            return;
        }
        for (ManagedCursor cursor : made) {
            if (!made.remove(cursor)) {
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
