package io.nereus.pulsar.cursor;

import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledExecutorService;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;

/**
 * What the cursor side needs of the ledger it reads: bounds, arithmetic, reads and threads, and nothing else, so that
 * every operation can be tested without an engine.
 */
public interface CursorLedger {

    /** Offset of a position past everything a ledger can hold; adding 1 to it does not overflow. */
    long BEYOND = Long.MAX_VALUE - 1;

    /** Runs tasks one after another, in order, never in place. Every callback to the broker happens on it. */
    Executor executor();

    /** For delayed work only; what it runs hops onto {@link #executor()}. */
    ScheduledExecutorService scheduler();

    /** The next offset; everything below it is committed. Never goes back. Any thread. */
    long committedEnd();

    /** The first readable offset. Never goes back. Any thread. */
    long trimOffset();

    /** Whether no entry will ever be added behind {@link #committedEnd()}. Any thread. */
    boolean isTerminated();

    /** Whether closing or fencing has begun. Any thread. */
    boolean isClosed();

    /** Whether cursors may pass over entries that are damaged for good, by Pulsar's configuration. Any thread. */
    default boolean skipsDamaged() {
        return false;
    }

    /** The position of {@code offset} in normal form; -1 answers the position before the first entry. */
    Position position(long offset);

    /**
     * The offset that a position names, by arithmetic alone: -1 for anything before the first entry of this
     * incarnation, {@link #BEYOND} for anything past its last span; an entry id of -1 names the offset before the first
     * of its ledger. Says nothing about what is committed. Never throws.
     */
    long offset(Position position);

    /**
     * Reads entries from exactly {@code start}.
     *
     * @param maxEntries at least 1
     * @param maxBytes   soft limit of at least 1; one entry comes in any case
     * @param upTo       exclusive bound of the offsets
     * @param result     called exactly once, on {@link #executor()}, never before this method has returned
     */
    void read(long start, int maxEntries, long maxBytes, long upTo, EntriesResult result);

    /** Receives the outcome of one read. */
    interface EntriesResult {

        /**
         * @param entries consecutive entries from the offset asked for; empty at the committed end. One reference each,
         *                owned by the receiver
         */
        void entries(List<Entry> entries);

        void failed(ManagedLedgerException exception);
    }
}
