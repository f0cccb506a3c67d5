package io.nereus.bench;

/**
 * How much is measured.
 *
 * @param rounds          turns of both sides
 * @param warmSeconds     load before a measurement counts
 * @param seconds         length of one measurement
 * @param holes           ack holes of the random acks
 * @param ackSeconds      over which they are acknowledged
 * @param topics          topics that are opened, and of the restart
 * @param curve           topic counts of the curve, ascending
 * @param backlogBytes    what the catch-up reads
 * @param restartBytes    what lies on the disk at the restart, beside the topics
 * @param restarts        times that a broker is killed
 * @param diskBytes       free space without which a run does not begin
 */
record Scale(int rounds, double warmSeconds, double seconds, int holes, double ackSeconds, int topics, int[] curve,
             long backlogBytes, long restartBytes, int restarts, long diskBytes) {

    private static final long GIB = 1L << 30;

    static Scale quick() {
        return new Scale(2, 1, 2, 100_000, 5, 1_000, new int[] {1, 10, 100, 1_000}, GIB / 4, GIB / 4, 1, 8 * GIB);
    }

    /** To see that everything runs; its figures mean nothing. */
    static Scale smoke() {
        return new Scale(1, 0.5, 1, 2_000, 1, 50, new int[] {1, 10}, GIB / 64, GIB / 64, 1, 4 * GIB);
    }

    static Scale full() {
        return new Scale(3, 3, 10, 100_000, 10, 10_000, new int[] {1, 10, 100, 1_000, 10_000}, 2 * GIB, 5 * GIB, 3,
            40 * GIB);
    }

    /** A short backlog fits into the caches that a warm read leaves behind: the second read of it would not be cold. */
    int readRounds() {
        return backlogBytes >= 2 * GIB ? rounds : 1;
    }

    /** Idle memory differs from process to process, by what allocators keep; few topics are opened once, for the time that it takes. */
    int openRounds() {
        return topics >= 10_000 ? rounds : 1;
    }

    /** One round of measurements that are long enough for a profile. */
    Scale forProfile() {
        return new Scale(1, warmSeconds, Math.max(seconds, 8), holes, ackSeconds, topics, curve, backlogBytes, restartBytes, 1,
            diskBytes);
    }

    Scale withRounds(int other) {
        return new Scale(other, warmSeconds, seconds, holes, ackSeconds, topics, curve, backlogBytes, restartBytes,
            restarts, diskBytes);
    }
}
