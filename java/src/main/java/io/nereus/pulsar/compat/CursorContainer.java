package io.nereus.pulsar.compat;

import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.ManagedCursorContainer;
import org.apache.commons.lang3.tuple.Pair;

/**
 * Pulsar's own container of cursors, ordered by the slowest durable one, behind one type of ours: it is a class in
 * Pulsar 4.0 and an interface with a separate implementation later.
 *
 * <p>Why Pulsar's container and not a map: the broker's time-based backlog quota asks {@code getCursors()} whether it
 * is one, and works only then. Safe for use by several threads.
 */
public final class CursorContainer {

    private final ManagedCursorContainer container = new ManagedCursorContainer();

    /**
     * Adds a cursor.
     *
     * @param position mark-delete position by which a durable cursor is ordered; null for a cursor that does not count
     *                 among the slowest
     */
    public void add(ManagedCursor cursor, Position position) {
        container.add(cursor, position);
    }

    /** Returns the cursor of that name, or null. */
    public ManagedCursor get(String name) {
        return container.get(name);
    }

    /** Removes the cursor of that name and tells whether it was there. */
    public boolean remove(String name) {
        return container.removeCursor(name);
    }

    /**
     * Records the new mark-delete position of an ordered cursor.
     *
     * @return whether the slowest position changed; false also for a cursor that is not here or not ordered
     */
    public boolean moved(ManagedCursor cursor, Position position) {
        Pair<Position, Position> slowest = container.cursorUpdated(cursor, position);
        return slowest != null && slowest.getLeft().compareTo(slowest.getRight()) != 0;
    }

    /** Returns the ordered cursor that lies furthest back, or null if no cursor is ordered. */
    public ManagedCursor slowest() {
        return container.getSlowestReader();
    }

    /** Returns whether at least one durable cursor is here. */
    public boolean hasDurable() {
        return container.hasDurableCursors();
    }

    /** Returns whether no cursor at all is here. */
    public boolean isEmpty() {
        return container.isEmpty();
    }

    /** Returns the container as the type the broker tests for; iterating over it sees a weakly consistent snapshot. */
    public Iterable<ManagedCursor> asPulsar() {
        return container;
    }
}
