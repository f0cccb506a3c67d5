package io.nereus.pulsar;

import io.netty.buffer.ByteBuf;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerException;

/**
 * The appends of one ledger between the caller and their completion. Every one ends exactly once, in call order, on the
 * ledger's executor; its buffer is retained once and released once. Any thread.
 */
interface Adds {

    /**
     * Appends one entry.
     *
     * @param buffer   readable bytes are the entry; retained here, left untouched otherwise
     * @param messages messages in the entry
     */
    void add(ByteBuf buffer, int messages, AddEntryCallback callback, Object ctx);

    /** Appends whose callback has not run yet. */
    int size();

    /** Lets appends go on after a failed one, once everything before it was called back. */
    void resume();

    /** Lets appends go on after a payload processor failed. */
    void forgetPayloadProcessorFailure();

    /** Fails, on the ledger's executor, what nobody will answer any more. */
    void failAll(ManagedLedgerException reason);
}
