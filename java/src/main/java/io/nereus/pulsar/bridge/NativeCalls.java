package io.nereus.pulsar.bridge;

import java.nio.ByteBuffer;

/**
 * Every native method of Nereus. {@link NativeLibrary#load} must have succeeded before the first call.
 *
 * <p>Handles are positive and never used twice; a stale one answers {@link NativeErrors#CLOSED}. Of calls that take an
 * operation id and return a code, {@link NativeErrors#OK} means that exactly one completion with this id will come,
 * any other code that none will. No call blocks, except {@link #poll} and {@link #destroyEngine}.
 */
final class NativeCalls {

    private NativeCalls() {
    }

    // ---- the library ------------------------------------------------------------------------------------------------

    /** Version of the border that the library speaks. */
    static native int abiVersion();

    /** Identity of the sources from which the library was built. */
    static native String buildId();

    /** The error table: a list of (i32 code, string name). */
    static native byte[] errorTable();

    /** Address of the first byte of a direct buffer, whatever its position; 0 if it is not direct. */
    static native long addressOf(ByteBuffer direct);

    /** Copies a whole blob to {@code address} and frees it; returns its length, or a negated error code. */
    static native int copyOut(long blob, long address, int capacity);

    /** Frees a blob; one that is gone is ignored. */
    static native void freeBlob(long blob);

    /** Blobs of the whole process that were neither copied nor freed. */
    static native long liveBlobs();

    /** The message of the last refusal on this thread, once, if it had this code; else null. */
    static native String refusal(int code);

    /** Kind 1 panics inside an entry point. {@code UNSUPPORTED} unless the environment has NEREUS_TEST_HOOKS=1. */
    static native int crashForTest(int kind);

    // ---- engines ----------------------------------------------------------------------------------------------------

    /** Makes threads and a queue from a map of settings; 0 if the threads cannot be started. */
    static native long createEngine(byte[] config);

    /** Opens the engine. */
    static native int openEngine(long engine, long op);

    /** Closes all streams and the engine; every operation pending before has ended when this one completes. */
    static native int closeEngine(long engine, long op);

    /** Ends threads and queue; waits for running native work a bounded time. Idempotent. */
    static native void destroyEngine(long engine);

    /** Fills records at {@code address}; returns their number, 0 after the time-out, -1 once destroyed. */
    static native int poll(long engine, long address, int capacityRecords, long parkNanos);

    /** Answers a metadata request; an answer nobody waits for is ignored. */
    static native void answer(long engine, long requestId, int status, long version, byte[] value);

    static native int openLedger(long engine, long op, byte[] request);

    static native int openReadOnly(long engine, long op, byte[] name);

    static native int describeLedger(long engine, long op, byte[] name);

    /** The state of an open engine, as {@link Messages#engineState} reads it. */
    static native int engineState(long engine, long op);

    static native int deleteLedger(long engine, long op, byte[] name);

    // ---- streams ----------------------------------------------------------------------------------------------------

    /** Appends one entry; its bytes are copied before the call returns. */
    static native int append(long stream, long op, long address, int length, int messages);

    /** Appends one entry that lies in several pieces: a table of (i64 address, i64 length) in native byte order. */
    static native int appendParts(long stream, long op, long tableAddress, int parts, int messages);

    /** Reads entries from exactly {@code start}; {@code upTo} is exclusive. */
    static native int read(long stream, long op, long start, int maxEntries, long maxBytes, long upTo);

    /** Writes {@link NativeMemory#STATE_WORDS} numbers in native byte order. */
    static native int state(long stream, long address);

    static native int terminate(long stream, long op);

    static native int trim(long stream, long op, long before);

    static native int truncate(long stream, long op);

    /** Closes what is due by {@code nowMillis}, then trims what retention lets go; a bound below 0 lets nothing go. */
    static native int retain(long stream, long op, long consumed, long maxAgeMillis, long maxBytes, long nowMillis);

    /** When a part is closed; a bound of 0 or less is none. Holds from the next commit or retention on. */
    static native int setRollover(long stream, long maxEntries, long maxBytes, long minMillis, long maxMillis,
            long idleMillis);

    static native int resume(long stream);

    /** From now on the cursors of {@code stream} mean offsets of {@code source}. */
    static native int follow(long stream, long source);

    static native int setProperties(long stream, long op, byte[] properties);

    static native int persistCursor(long stream, long op, byte[] update);

    static native int deleteCursor(long stream, long op, byte[] name);

    /** Ends the handle at once; completes when the stream is closed. */
    static native int closeStream(long stream, long op);
}
