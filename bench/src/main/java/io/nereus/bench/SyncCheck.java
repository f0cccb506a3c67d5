package io.nereus.bench;

import java.io.IOException;

/** A side that answers before its data are on the disk is not compared with anything. */
final class SyncCheck {

    private SyncCheck() {
    }

    /**
     * Refuses a measurement without the syncs that its answers need: one sync can answer no more than what was under way.
     *
     * @param answered    appends answered
     * @param outstanding most appends that were under way at any time
     * @param syncs       syncs of the side's journal meanwhile, by its own count
     * @param flushes     flushes of the disk meanwhile, by the kernel's count
     */
    static void require(String what, Side side, double answered, int outstanding, long syncs, long flushes)
            throws IOException {
        if (syncs < answered / outstanding) {
            throw new IOException(("%s, %s: refused, because %.0f appends were answered after %d syncs, and at most %d were "
                + "under way: it does not sync what it answers").formatted(what, side.id(), answered, syncs, outstanding));
        }
        if (flushes == 0) {
            throw new IOException(what + ", " + side.id() + ": refused, because no disk of this machine flushed anything "
                + "meanwhile: the directory lies on a file system on which a sync means nothing");
        }
    }
}
