package io.nereus.tests.history;

/** Which message it is, wherever it is stored and however often: its producer's name and sequence id. */
record MessageKey(String producer, long sequence) {

    @Override
    public String toString() {
        return producer + "#" + sequence;
    }
}
