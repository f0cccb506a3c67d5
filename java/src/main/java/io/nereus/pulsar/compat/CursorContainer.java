package io.nereus.pulsar.compat;

import static java.lang.invoke.MethodType.methodType;

import java.lang.invoke.MethodHandle;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.ManagedCursorContainer;
import org.apache.commons.lang3.tuple.Pair;

/**
 * Pulsar's own container of cursors, ordered by the slowest durable one, behind one type of ours: it is a class in
 * Pulsar 4.0 and an interface with a separate implementation, and other names, later.
 *
 * <p>Why Pulsar's container and not a map: the broker's time-based backlog quota asks {@code getCursors()} whether it
 * is one, and works only then. Safe for use by several threads.
 */
public final class CursorContainer {

    private static final Class<?> TYPE = ManagedCursorContainer.class;
    private static final boolean RENAMED = TYPE.isInterface();

    private static final MethodHandle NEW = Handles.constructor(
        RENAMED ? Handles.require(TYPE.getName() + "Impl") : TYPE, Iterable.class);
    private static final MethodHandle ADD = Handles.method(TYPE, "add",
        methodType(void.class, ManagedCursor.class, Position.class),
        methodType(void.class, Iterable.class, ManagedCursor.class, Position.class));
    private static final MethodHandle GET = Handles.method(TYPE, "get",
        methodType(ManagedCursor.class, String.class), methodType(ManagedCursor.class, Iterable.class, String.class));
    private static final MethodHandle REMOVE = Handles.method(TYPE, "removeCursor",
        methodType(boolean.class, String.class), methodType(boolean.class, Iterable.class, String.class));
    private static final MethodHandle MOVED = Handles.method(TYPE, "cursorUpdated",
        methodType(Pair.class, ManagedCursor.class, Position.class),
        methodType(Pair.class, Iterable.class, ManagedCursor.class, Position.class));
    private static final MethodHandle SLOWEST = Handles.method(TYPE, RENAMED ? "getSlowestCursor" : "getSlowestReader",
        methodType(ManagedCursor.class), methodType(ManagedCursor.class, Iterable.class));
    private static final MethodHandle HAS_DURABLE = Handles.method(TYPE, "hasDurableCursors",
        methodType(boolean.class), methodType(boolean.class, Iterable.class));
    private static final MethodHandle IS_EMPTY = Handles.method(TYPE, "isEmpty",
        methodType(boolean.class), methodType(boolean.class, Iterable.class));

    /** A ManagedCursorContainer; every call of it goes through a handle. */
    private final Iterable<ManagedCursor> container = create();

    @SuppressWarnings("unchecked")
    private static Iterable<ManagedCursor> create() {
        try {
            return (Iterable<ManagedCursor>) (Iterable<?>) NEW.invokeExact();
        } catch (Throwable e) {
            throw Handles.unchecked(e);
        }
    }

    /**
     * Adds a cursor.
     *
     * @param position mark-delete position by which a durable cursor is ordered; null for a cursor that does not count
     *                 among the slowest
     */
    public void add(ManagedCursor cursor, Position position) {
        try {
            ADD.invokeExact(container, cursor, position);
        } catch (Throwable e) {
            throw Handles.unchecked(e);
        }
    }

    /** Returns the cursor of that name, or null. */
    public ManagedCursor get(String name) {
        try {
            return (ManagedCursor) GET.invokeExact(container, name);
        } catch (Throwable e) {
            throw Handles.unchecked(e);
        }
    }

    /** Removes the cursor of that name and tells whether it was there. */
    public boolean remove(String name) {
        try {
            return (boolean) REMOVE.invokeExact(container, name);
        } catch (Throwable e) {
            throw Handles.unchecked(e);
        }
    }

    /**
     * Records the new mark-delete position of an ordered cursor.
     *
     * @return whether the slowest position changed; false also for a cursor that is not here or not ordered
     */
    public boolean moved(ManagedCursor cursor, Position position) {
        try {
            Pair<?, ?> slowest = (Pair<?, ?>) MOVED.invokeExact(container, cursor, position);
            return slowest != null && ((Position) slowest.getLeft()).compareTo((Position) slowest.getRight()) != 0;
        } catch (Throwable e) {
            throw Handles.unchecked(e);
        }
    }

    /** Returns the ordered cursor that lies furthest back, or null if no cursor is ordered. */
    public ManagedCursor slowest() {
        try {
            return (ManagedCursor) SLOWEST.invokeExact(container);
        } catch (Throwable e) {
            throw Handles.unchecked(e);
        }
    }

    /** Returns whether at least one durable cursor is here. */
    public boolean hasDurable() {
        try {
            return (boolean) HAS_DURABLE.invokeExact(container);
        } catch (Throwable e) {
            throw Handles.unchecked(e);
        }
    }

    /** Returns whether no cursor at all is here. */
    public boolean isEmpty() {
        try {
            return (boolean) IS_EMPTY.invokeExact(container);
        } catch (Throwable e) {
            throw Handles.unchecked(e);
        }
    }

    /** Returns the container as the type the broker tests for; iterating over it sees a weakly consistent snapshot. */
    public Iterable<ManagedCursor> asPulsar() {
        return container;
    }
}
