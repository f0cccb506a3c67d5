package io.nereus.pulsar.bridge;

/**
 * A failure reported by the native side, or by the bridge on its behalf. Futures of this package fail with it;
 * {@link NativeErrors#toManagedLedgerException(Throwable)} turns it into what the broker expects.
 */
public final class NativeException extends Exception {

    private static final long serialVersionUID = 1L;

    private final int code;

    /**
     * Makes a failure.
     *
     * @param code one of the codes of {@link NativeErrors}, not {@link NativeErrors#OK}
     * @param message what failed, where, and what to do
     */
    public NativeException(int code, String message) {
        super(message);
        this.code = code;
    }

    /**
     * Makes a failure that keeps what led to it.
     *
     * @param code one of the codes of {@link NativeErrors}, not {@link NativeErrors#OK}
     * @param message what failed, where, and what to do
     * @param cause the failure behind it
     */
    public NativeException(int code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    /** Returns the code, one of {@link NativeErrors}. */
    public int code() {
        return code;
    }

    @Override
    public String toString() {
        return "NativeException[" + NativeErrors.name(code) + "]: " + getMessage();
    }
}
