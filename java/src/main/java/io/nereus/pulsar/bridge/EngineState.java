package io.nereus.pulsar.bridge;

import java.util.List;

/**
 * An engine at one moment, for metrics.
 *
 * @param poison       why nothing is acknowledged any more; empty as long as all is well
 * @param segments     journal segments: those that hold data, and the prepared one
 * @param bytes        bytes of them
 * @param freeSegments dead segment files that wait to be used again
 * @param freeBytes    bytes of them
 * @param oldest       the oldest segment
 * @param checkpoints  checkpoints
 * @param work         what was done since the engine opened
 * @param memory       memory accounts
 * @param reads        what reads cost
 * @param streams      streams that are open
 * @param results      results that nobody has fetched or let go of yet
 */
public record EngineState(String poison, long segments, long bytes, long freeSegments, long freeBytes, Oldest oldest,
        Checkpoints checkpoints, Work work, List<Account> memory, Reads reads, long streams, long results) {

    /** Who keeps a segment; the order is that of the codes at the border. */
    public enum Holder {
        /** There is no segment. */
        NOBODY,
        /** A ledger that has entries in it. */
        LEDGER,
        /** Somebody who reads it right now. */
        READER,
        /** Damage, kept for a rescue. */
        DAMAGE,
        /** No checkpoint is past it yet, or it goes with the next one. */
        CHECKPOINT
    }

    /**
     * The oldest segment.
     *
     * @param segment its sequence number
     * @param holder  what keeps it
     * @param ledger  of {@link Holder#LEDGER}: Pulsar's name of the ledger, or the stream's id where it is not recorded
     */
    public record Oldest(long segment, Holder holder, String ledger) {
    }

    /**
     * Checkpoints.
     *
     * @param ageMillis   since the last completed one, or the open
     * @param replayBytes what a recovery would read now
     * @param completed   completed since the open
     * @param failed      failed since the open, and tried again
     */
    public record Checkpoints(long ageMillis, long replayBytes, long completed, long failed) {
    }

    /**
     * Counters since the open.
     *
     * @param frames          frames written and synced
     * @param syncs           syncs of the journal
     * @param syncNanos       time that they took, nanoseconds
     * @param bytes           bytes of the frames
     * @param removedSegments segments that are gone because nothing needed them
     * @param keptSegments    those of them whose file was kept for a later segment
     * @param replayedFrames  frames replayed when the engine was opened
     * @param recoveryMillis  how long that took
     */
    public record Work(long frames, long syncs, long syncNanos, long bytes, long removedSegments, long keptSegments,
            long replayedFrames, long recoveryMillis) {
    }

    /**
     * Reads since the open; the last two are of this moment.
     *
     * @param tail        reads that recent appends in memory answered
     * @param hits        slices that the cache had
     * @param joined      slices that another reader, or reading ahead, had asked for already
     * @param device      reads of the journal's files
     * @param bytes       bytes of entries in those
     * @param ahead       bytes of slices that were read ahead
     * @param aheadWasted of those, bytes that went before anybody wanted them
     * @param aheadHeld   bytes read ahead and not wanted yet
     * @param waiting     reads that wait for their turn
     */
    public record Reads(long tail, long hits, long joined, long device, long bytes, long ahead, long aheadWasted,
            long aheadHeld, long waiting) {
    }

    /**
     * One memory account.
     *
     * @param name  its name
     * @param used  bytes in use
     * @param limit most bytes
     */
    public record Account(String name, long used, long limit) {
    }
}
