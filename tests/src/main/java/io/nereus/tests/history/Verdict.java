package io.nereus.tests.history;

import java.util.List;

/**
 * The checker's counts over one history.
 *
 * @param acknowledged messages for which a producer got a receipt
 * @param read         those of them that every full scan showed, whole and at their place
 * @param lost         acknowledged messages that some scan, some remembered id or some subscription failed to give back
 * @param duplicated   places taken twice, sequence ids stored twice on a deduplicated topic, messages nobody sent
 * @param reordered    steps against the order of the topic or of one producer
 * @param ackedAgain   messages delivered again although their acknowledgement was persisted
 * @param evidence     one line for each finding, up to a bound for each count
 */
public record Verdict(long acknowledged, long read, long lost, long duplicated, long reordered, long ackedAgain,
                      List<String> evidence) {

    /** True if something was acknowledged, all of it was read, and nothing else was found. */
    public boolean isClean() {
        return acknowledged > 0 && read == acknowledged && lost == 0 && duplicated == 0 && reordered == 0
                && ackedAgain == 0;
    }

    /** {@code acknowledged=N read=N lost=N duplicated=N reordered=N acked-again=N}. */
    @Override
    public String toString() {
        return "acknowledged=" + acknowledged + " read=" + read + " lost=" + lost + " duplicated=" + duplicated
                + " reordered=" + reordered + " acked-again=" + ackedAgain;
    }
}
