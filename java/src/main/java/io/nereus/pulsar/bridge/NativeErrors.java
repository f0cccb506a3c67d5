package io.nereus.pulsar.bridge;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.pulsar.metadata.api.MetadataStoreException;

/**
 * The error codes of the native side and what they mean to the broker. The same table exists in the native library; it
 * is compared when the library is loaded and by a test.
 *
 * <p>Never mapped to {@code NonRecoverableLedgerException} or {@code LedgerNotExistException}: with automatic skipping
 * of non-recoverable data the broker would expire the whole backlog because of them.
 */
public final class NativeErrors {

    /** Success. */
    public static final int OK = 0;
    /** Another owner has taken the stream; the broker closes the topic. */
    public static final int FENCED = 1;
    /** The stream is terminated. */
    public static final int TERMINATED = 2;
    /** The named thing does not exist. */
    public static final int NOT_FOUND = 3;
    /** The named thing exists already. */
    public static final int ALREADY_EXISTS = 4;
    /** The offset lies below the trim offset. */
    public static final int OFFSET_TRIMMED = 5;
    /** Stored bytes failed their check. */
    public static final int CORRUPT = 6;
    /** A feature that is not built. */
    public static final int UNSUPPORTED = 7;
    /** Not possible now; a later attempt may succeed. */
    public static final int UNAVAILABLE = 8;
    /** The handle, stream or engine is closed. */
    public static final int CLOSED = 9;
    /** The request or the configuration is wrong. */
    public static final int INVALID = 10;
    /** The operating system refused. */
    public static final int IO = 11;
    /** A defect of Nereus. */
    public static final int INTERNAL = 12;
    /** It is not known whether the append or commit took effect. */
    public static final int UNKNOWN = 13;
    /** The stream refuses appends until it is resumed. */
    public static final int SUSPENDED = 14;
    /** A conditional update lost against another one. */
    public static final int CONFLICT = 15;

    private static final String[] NAMES = {"OK", "FENCED", "TERMINATED", "NOT_FOUND", "ALREADY_EXISTS",
        "OFFSET_TRIMMED", "CORRUPT", "UNSUPPORTED", "UNAVAILABLE", "CLOSED", "INVALID", "IO", "INTERNAL", "UNKNOWN",
        "SUSPENDED", "CONFLICT"};

    private NativeErrors() {
    }

    /** Returns the name of a code, or {@code CODE_n} for one that is not in the table. */
    public static String name(int code) {
        return code >= 0 && code < NAMES.length ? NAMES[code] : "CODE_" + code;
    }

    /** Returns the whole table, code to name, ascending. */
    public static Map<Integer, String> table() {
        Map<Integer, String> table = new LinkedHashMap<>();
        for (int code = 0; code < NAMES.length; code++) {
            table.put(code, NAMES[code]);
        }
        return table;
    }

    /**
     * Returns the failure for a code that a call returned. Asked on the thread that made the call, right after it, the
     * message is the native one.
     *
     * @param operation what was called, for the message
     */
    public static NativeException toException(int code, String operation) {
        String reason = NativeLibrary.isLoaded() ? NativeCalls.refusal(code) : null;
        return new NativeException(code, operation + ": " + (reason != null ? reason : describe(code)));
    }

    /**
     * Returns the code of a failure, looking through the wrappers that futures put around it.
     *
     * @return the code, or {@link #INTERNAL} if it does not come from the native side
     */
    public static int codeOf(Throwable failure) {
        return unwrap(failure) instanceof NativeException e ? e.code() : INTERNAL;
    }

    /**
     * Turns any failure of the bridge into the exception type on which the broker decides. The native message is always
     * inside, and the native failure is reachable as the cause or a suppressed exception.
     */
    public static ManagedLedgerException toManagedLedgerException(Throwable failure) {
        Throwable cause = unwrap(failure);
        if (cause instanceof ManagedLedgerException already) {
            return already;
        }
        if (!(cause instanceof NativeException e)) {
            return new ManagedLedgerException(String.valueOf(cause), cause);
        }
        String text = name(e.code()) + ": " + e.getMessage();
        return switch (e.code()) {
            case FENCED -> withNative(new ManagedLedgerException.ManagedLedgerFencedException(text), e);
            case TERMINATED -> withNative(new ManagedLedgerException.ManagedLedgerTerminatedException(text), e);
            // Topic deletion treats a missing ledger as deleted only when it finds this cause.
            case NOT_FOUND -> withNative(new ManagedLedgerException.MetadataNotFoundException(
                    new MetadataStoreException.NotFoundException(text)), e);
            // SUSPENDED: the type after which the broker calls readyToCreateNewLedger and goes on.
            case CLOSED, SUSPENDED ->
                    withNative(new ManagedLedgerException.ManagedLedgerAlreadyClosedException(text), e);
            default -> new ManagedLedgerException(text, e);
        };
    }

    /** Removes the wrappers that futures put around a failure. */
    static Throwable unwrap(Throwable failure) {
        Throwable cause = failure;
        while ((cause instanceof CompletionException || cause instanceof ExecutionException)
                && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause;
    }

    private static <T extends ManagedLedgerException> T withNative(T mapped, NativeException e) {
        mapped.addSuppressed(e);
        return mapped;
    }

    private static String describe(int code) {
        return switch (code) {
            case CLOSED -> "the stream or engine is closed";
            case SUSPENDED -> "the stream refuses appends until the failed ones before are settled and it is resumed";
            case TERMINATED -> "the stream is terminated";
            case FENCED -> "another broker owns the stream";
            case INVALID -> "the native side refused the arguments; its log says why";
            case UNAVAILABLE -> "not possible now, try again";
            default -> "the native side answered " + name(code) + "; its log says why";
        };
    }
}
