package io.nereus.pulsar;

/** Where a ledger stands. {@code stockName} is the word that Pulsar's tools know from stock's internal statistics. */
enum LedgerState {
    /** Appends and reads. */
    OPEN("LedgerOpened"),
    /** An append failed; appends are refused until the broker says that it has drained its pending writes. */
    WRITE_FAILED("WriteFailed"),
    /** Termination was asked for and is not durable yet; appends are refused. */
    TERMINATING("ClosingLedger"),
    /** No append will ever be accepted again; reads go on. */
    TERMINATED("Terminated"),
    /** Another owner has the stream; everything is refused for good. */
    FENCED("Fenced"),
    /** Being deleted, or deleted. */
    DELETING("FencedForDeletion"),
    /** Closed. */
    CLOSED("Closed");

    private final String stockName;

    LedgerState(String stockName) {
        this.stockName = stockName;
    }

    String stockName() {
        return stockName;
    }

    /** Whether this instance will never serve again: the factory replaces it at the next open. */
    boolean isUnusable() {
        return this == FENCED || this == DELETING || this == CLOSED;
    }
}
