package io.nereus.pulsar.bridge;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executor;
import java.util.function.LongToIntFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One daemon thread that drains the records of one engine and hands each to its owner's executor.
 *
 * <p>Owns: operation ids and the table of pending operations. Promises: each registered operation is completed exactly
 * once, because taking it out of the table is the right to complete it; after {@link #stop()} none is left. Keeps: L6
 * (a pending append is swept as {@code UNKNOWN}). Does not: run anybody's callback on its own thread.
 */
final class CompletionReactor {

    /** What {@link #register} answers when the reactor is closed and the operation was not taken over. */
    static final long REFUSED = 0;
    /** What {@link #register} answers when the sweep has taken the operation over: its outcome is on the way. */
    static final long SWEPT = -1;

    private static final Logger log = LoggerFactory.getLogger(CompletionReactor.class);

    private static final int RECORD_BYTES = 6 * Long.BYTES;
    private static final int BATCH = 256;
    private static final int KIND_COMPLETION = 0;
    private static final int KIND_METADATA = 1;
    private static final int KIND_LOG = 2;
    /** A lost wake-up costs at most this; there is none that we know of. */
    private static final long PARK_NANOS = 1_000_000_000L;

    /** What the reactor needs of the native side; one implementation outside tests. */
    interface Source {
        /** Fills {@code records} as {@link NativeCalls#poll} does. */
        int poll(NativeMemory.Fixed records, int capacityRecords, long parkNanos);
    }

    /** Takes what is not a completion. Called on the reactor's thread: must only hand over. */
    interface Listener {
        void metadataRequest(long requestId, byte[] request);

        void logEvent(int level, long dropped, byte[] event);
    }

    private final Source source;
    private final Listener listener;
    private final Executor fallback;
    private final OperationTable pending = new OperationTable();
    private final NativeMemory.Fixed records = new NativeMemory.Fixed(BATCH * RECORD_BYTES);
    private final HandOver handOver;
    private final Thread thread;
    private volatile boolean closed;

    /**
     * Makes a reactor; {@link #start()} starts its thread.
     *
     * @param fallback runs outcomes that the executor of an operation refuses; must not refuse
     */
    CompletionReactor(String name, Source source, Listener listener, Executor fallback) {
        this.source = source;
        this.listener = listener;
        this.fallback = fallback;
        this.handOver = new HandOver(fallback);
        this.thread = new Thread(this::run, name);
        this.thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /**
     * Takes an operation over, before the native call can possibly complete it.
     *
     * @return its id, or {@link #REFUSED}, or {@link #SWEPT}
     */
    long register(PendingOperation operation) {
        if (closed) {
            return REFUSED;
        }
        long id = pending.put(operation);
        // The sweep may have passed between the check and the insertion: whoever takes the operation owns it.
        if (closed) {
            return pending.take(id) != null ? REFUSED : SWEPT;
        }
        return id;
    }

    /** Takes an operation back whose native call was refused; false if its outcome is already on the way. */
    boolean withdraw(long id) {
        return pending.take(id) != null;
    }

    /**
     * Registers an operation and starts it; a refusal of any kind becomes its failure, on its executor.
     *
     * @param call the native call, given the id; returns a code
     */
    void submit(PendingOperation operation, LongToIntFunction call) {
        long id = register(operation);
        if (id == SWEPT) {
            return;
        }
        if (id == REFUSED) {
            operation.fail(NativeErrors.toException(NativeErrors.CLOSED, operation.what()), fallback);
            return;
        }
        NativeException refusal;
        try {
            int code = call.applyAsInt(id);
            if (code == NativeErrors.OK) {
                return;
            }
            refusal = NativeErrors.toException(code, operation.what());
        } catch (RuntimeException | Error e) {
            refusal = new NativeException(NativeErrors.INTERNAL, operation.what() + ": " + e, e);
        }
        if (withdraw(id)) {
            operation.fail(refusal, fallback);
        }
    }

    /** Number of operations that wait for their outcome. */
    int pending() {
        return pending.size();
    }

    /** Fails what is pending and every later registration. The thread ends once the native side is destroyed. */
    void stop() {
        closed = true;
        pending.takeAll(this::lose);
    }

    private void lose(PendingOperation operation) {
        int code = operation.lostCode();
        operation.fail(new NativeException(code, operation.what() + ": the engine was shut down before it answered"
                + (code == NativeErrors.UNKNOWN ? "; whether it took effect is not known" : "")), fallback);
    }

    /** Waits until the thread has ended. */
    boolean join(long millis) throws InterruptedException {
        thread.join(millis);
        return !thread.isAlive();
    }

    private void run() {
        try {
            while (true) {
                int count = source.poll(records, BATCH, PARK_NANOS);
                if (count < 0) {
                    return;
                }
                for (int i = 0; i < count; i++) {
                    dispatch(i * RECORD_BYTES);
                }
                handOver.flush();
            }
        } catch (Throwable e) {
            log.error("The thread that delivers native completions died; every pending operation fails", e);
        } finally {
            handOver.flush();
            stop();
        }
    }

    private void dispatch(int at) {
        int kind = (int) records.buffer.getLong(at);
        long id = records.buffer.getLong(at + Long.BYTES);
        int code = (int) records.buffer.getLong(at + 2 * Long.BYTES);
        long a = records.buffer.getLong(at + 3 * Long.BYTES);
        long b = records.buffer.getLong(at + 4 * Long.BYTES);
        long c = records.buffer.getLong(at + 5 * Long.BYTES);
        try {
            switch (kind) {
                case KIND_COMPLETION -> complete(id, code, a, b, c);
                case KIND_METADATA -> listener.metadataRequest(id, NativeMemory.copyMessage(a, b));
                case KIND_LOG -> listener.logEvent(code, id, NativeMemory.copyMessage(a, b));
                default -> log.error("Unknown record kind {} from the native side", kind);
            }
        } catch (Throwable e) {
            // One record that cannot be delivered must not take the others with it.
            log.error("A record of kind {} with id {} could not be delivered", kind, id, e);
        }
    }

    private void complete(long id, int code, long a, long b, long c) {
        PendingOperation operation = pending.take(id);
        if (operation == null) {
            // Swept before; what the result holds is freed together with its engine.
            return;
        }
        if (code == NativeErrors.OK) {
            operation.succeed(a, b, c);
        } else {
            operation.fail(new NativeException(code, message(operation, code, a, b)));
        }
        handOver.add(operation);
    }

    private static String message(PendingOperation operation, int code, long blob, long length) {
        try {
            String text = new String(NativeMemory.copyMessage(blob, length), StandardCharsets.UTF_8);
            return text.isEmpty() ? operation.what() + ": " + NativeErrors.name(code) : text;
        } catch (NativeException e) {
            return operation.what() + ": " + NativeErrors.name(code) + " (its message is lost: " + e.getMessage()
                    + ")";
        }
    }
}
