package io.nereus.pulsar;

import io.nereus.pulsar.bridge.EngineState;
import java.util.List;
import java.util.function.ToDoubleFunction;

/**
 * The figures of an engine, once for all who show them: the broker's page {@code /metrics} and OpenTelemetry.
 *
 * <p>Does not: ask an engine. Figures with labels of their own (memory accounts, who keeps the oldest segment) are made
 * by who shows them.
 */
final class EngineFigures {

    private static final double MILLIS = 1e3;
    private static final double NANOS = 1e9;

    /** Whether a figure only rises while the engine is open. */
    enum Kind {
        /** It goes up and down. */
        GAUGE,
        /** It rises only. */
        COUNTER
    }

    /**
     * One figure.
     *
     * @param page      its name on the page, without the {@code _total} of a counter
     * @param telemetry its name in OpenTelemetry
     * @param unit      its unit there
     * @param help      one line for an operator
     */
    record Figure(String page, String telemetry, String unit, Kind kind, String help,
                  ToDoubleFunction<EngineState> value) {
    }

    static final List<Figure> ALL = List.of(
        gauge("nereus_journal_poisoned", "nereus.journal.poisoned", "{engine}",
            "1 when nothing is acknowledged any more", state -> state.poison().isEmpty() ? 0 : 1),
        gauge("nereus_journal_segments", "nereus.journal.segments", "{segment}", "Segment files of the journal",
            EngineState::segments),
        gauge("nereus_journal_bytes", "nereus.journal.size", "By", "Bytes of the segment files", EngineState::bytes),
        gauge("nereus_journal_free_segments", "nereus.journal.free_segments", "{segment}",
            "Dead segment files that wait to be used again", EngineState::freeSegments),
        gauge("nereus_journal_free_bytes", "nereus.journal.free_size", "By", "Bytes of the dead segment files",
            EngineState::freeBytes),
        gauge("nereus_journal_oldest_segment", "nereus.journal.oldest_segment", "{segment}",
            "Number of the oldest segment", state -> state.oldest().segment()),
        gauge("nereus_journal_checkpoint_age_seconds", "nereus.journal.checkpoint.age", "s",
            "Since the last checkpoint", state -> state.checkpoints().ageMillis() / MILLIS),
        gauge("nereus_journal_replay_bytes", "nereus.journal.replay.size", "By", "Bytes that a start would replay now",
            state -> state.checkpoints().replayBytes()),
        counter("nereus_journal_checkpoints", "nereus.journal.checkpoints", "{checkpoint}", "Checkpoints completed",
            state -> state.checkpoints().completed()),
        counter("nereus_journal_failed_checkpoints", "nereus.journal.failed_checkpoints", "{checkpoint}",
            "Checkpoints that failed", state -> state.checkpoints().failed()),
        counter("nereus_journal_frames", "nereus.journal.frames", "{frame}", "Frames written and synced",
            state -> state.work().frames()),
        counter("nereus_journal_syncs", "nereus.journal.syncs", "{sync}", "Syncs of the journal",
            state -> state.work().syncs()),
        counter("nereus_journal_sync_seconds", "nereus.journal.sync.duration", "s", "Time that the syncs took, in all",
            state -> state.work().syncNanos() / NANOS),
        counter("nereus_journal_written_bytes", "nereus.journal.written", "By", "Bytes of the frames",
            state -> state.work().bytes()),
        counter("nereus_journal_removed_segments", "nereus.journal.removed_segments", "{segment}",
            "Segments that nothing needed any more", state -> state.work().removedSegments()),
        counter("nereus_journal_kept_segments", "nereus.journal.kept_segments", "{segment}",
            "Dead segments kept to be used again", state -> state.work().keptSegments()),
        gauge("nereus_journal_replayed_frames", "nereus.journal.replayed_frames", "{frame}",
            "Frames replayed by the last start", state -> state.work().replayedFrames()),
        gauge("nereus_journal_recovery_seconds", "nereus.journal.recovery.duration", "s",
            "How long the last start replayed", state -> state.work().recoveryMillis() / MILLIS),
        counter("nereus_cache_tail_reads", "nereus.cache.tail_reads", "{read}",
            "Reads that recent appends in memory answered", state -> state.reads().tail()),
        counter("nereus_cache_hits", "nereus.cache.hits", "{slice}", "Slices of the journal that the cache had",
            state -> state.reads().hits()),
        counter("nereus_cache_joined", "nereus.cache.joined", "{slice}",
            "Slices that another reader, or reading ahead, had asked for already", state -> state.reads().joined()),
        counter("nereus_cache_ahead_bytes", "nereus.cache.ahead", "By", "Bytes read ahead",
            state -> state.reads().ahead()),
        counter("nereus_cache_ahead_wasted_bytes", "nereus.cache.ahead_wasted", "By",
            "Of those, bytes that went before anybody wanted them", state -> state.reads().aheadWasted()),
        gauge("nereus_cache_ahead_held_bytes", "nereus.cache.ahead_held", "By", "Bytes read ahead and not wanted yet",
            state -> state.reads().aheadHeld()),
        counter("nereus_reads_device", "nereus.reads.device", "{read}", "Reads of the journal's files",
            state -> state.reads().device()),
        counter("nereus_reads_bytes", "nereus.reads.size", "By", "Bytes of entries in those reads",
            state -> state.reads().bytes()),
        gauge("nereus_reads_waiting", "nereus.reads.waiting", "{read}", "Reads that wait for their turn",
            state -> state.reads().waiting()),
        gauge("nereus_streams_open", "nereus.streams.open", "{stream}", "Streams that are open", EngineState::streams),
        gauge("nereus_results_waiting", "nereus.results.waiting", "{result}",
            "Results that the broker has not fetched yet", EngineState::results));

    private EngineFigures() {
    }

    private static Figure gauge(String page, String telemetry, String unit, String help,
                                ToDoubleFunction<EngineState> value) {
        return new Figure(page, telemetry, unit, Kind.GAUGE, help, value);
    }

    private static Figure counter(String page, String telemetry, String unit, String help,
                                  ToDoubleFunction<EngineState> value) {
        return new Figure(page, telemetry, unit, Kind.COUNTER, help, value);
    }
}
