package io.nereus.pulsar.cursor;

import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.bookkeeper.mledger.ManagedLedgerException;

/**
 * Keeps what a cursor has acknowledged and its properties: in the engine for a durable cursor, in memory for one that
 * lives as long as its reader.
 *
 * <p>Every completion is called exactly once, on the ledger's executor, with no lock held, in the order in which the
 * changes were made. Thread-safe.
 */
public interface CursorKeeper {

    /**
     * Acknowledges everything below {@code end} and takes the properties of that position, in one step.
     *
     * @param unacked    if not null, what the entry at {@code end} still has unacknowledged
     * @param properties new position properties, or null to leave them
     */
    CursorProgress.MarkDelete markDelete(long end, long[] unacked, Map<String, Long> properties);

    /** Calls back when every change made before this call is kept. */
    void whenKept(Completion completion);

    /** Calls back as {@link #whenKept} does, and keeps what is to be kept without waiting for others. */
    void flush(Completion completion);

    /** Changes the position properties at once and keeps them with the next change. */
    void editPositionProperties(UnaryOperator<Map<String, Long>> edit);

    /** Changes the properties of the cursor; they show once they are kept, and never if that fails. */
    void editCursorProperties(UnaryOperator<Map<String, String>> edit, Completion completion);

    /**
     * Replaces all acknowledgements, at the end of a reset that the caller has begun on the cursor's progress. Nothing
     * changes if it fails.
     *
     * @param fresh      what is acknowledged afterwards
     * @param readOffset where reading goes on
     * @param properties position properties afterwards, or null to leave them
     */
    void replace(AckState fresh, long readOffset, Map<String, Long> properties, Completion completion);

    /** The mark-delete end that would survive a crash now, or -1 if none would. */
    long keptMarkDeleteEnd();

    /** Properties kept with the position. */
    Map<String, Long> positionProperties();

    /** Properties of the cursor. */
    Map<String, String> cursorProperties();

    /** Fails what waits and refuses every later change with {@code reason}; a write under way is left to end. */
    void stop(ManagedLedgerException reason);

    /** Takes a {@link #stop} back. */
    void resume();

    /** What happened to a change. */
    interface Completion {

        void done();

        void failed(ManagedLedgerException exception);
    }

    /** Told, on the ledger's executor, that the kept mark-delete end has moved; also backwards, by a reset. */
    interface Moved {

        void moved(long oldMarkDeleteEnd, long newMarkDeleteEnd);
    }
}
