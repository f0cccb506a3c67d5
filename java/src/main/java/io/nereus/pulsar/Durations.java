package io.nereus.pulsar;

/** Hears how long appends and reads took. Called on the ledgers' executors, once for each; must not block. */
interface Durations {

    /** Hears nothing. */
    Durations UNHEARD = new Durations() {
        @Override
        public void appended(long nanos) {
        }

        @Override
        public void read(long nanos) {
        }
    };

    /** An entry was committed; from the broker's call to the moment before its callback. */
    void appended(long nanos);

    /** A read brought entries, possibly none; from the call of the native side to its answer. */
    void read(long nanos);
}
