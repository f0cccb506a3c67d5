package io.nereus.pulsar.bridge;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.function.Supplier;
import org.apache.pulsar.metadata.api.MetadataStore;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers what the native side asks of the broker's metadata store.
 *
 * <p>Promises: a request is submitted on its own executor and answered once, when the store answers; nothing waits. A
 * store that is closed, throws or fails answers {@link #FAILED}: the native side then treats a write as one whose
 * outcome is not known (L6). Does not: retry, and time out (the native side does).
 */
final class MetadataRequests {

    static final int DONE = 0;
    static final int NOT_FOUND = 1;
    static final int BAD_VERSION = 2;
    static final int FAILED = 3;
    static final int REFUSED = 4;

    private static final Logger log = LoggerFactory.getLogger(MetadataRequests.class);

    private static final int OP_GET = 1;
    private static final int OP_PUT = 2;
    private static final int OP_DELETE = 3;
    private static final int OP_CHILDREN = 4;
    private static final long ANY_VERSION = -2;
    private static final byte[] NOTHING = new byte[0];

    /** Takes an answer to the native side. */
    interface Answers {
        /** As {@link NativeCalls#answer} without the engine. */
        void answer(long requestId, int status, long version, byte[] value);
    }

    private final Supplier<MetadataStore> store;
    private final Answers answers;
    private final Executor executor;

    /**
     * Makes an answering machine.
     *
     * @param store the store to ask; null when no broker is left that has one
     * @param executor runs the submissions, never on the reactor's thread
     */
    MetadataRequests(Supplier<MetadataStore> store, Answers answers, Executor executor) {
        this.store = store;
        this.answers = answers;
        this.executor = executor;
    }

    /** Takes a request over; the answer comes later. Does not block. */
    void submit(long requestId, byte[] request) {
        try {
            executor.execute(() -> handle(requestId, request));
        } catch (RuntimeException e) {
            answers.answer(requestId, REFUSED, 0, Messages.text("the bridge is shutting down: " + e.getMessage()));
        }
    }

    private void handle(long requestId, byte[] request) {
        boolean asked = false;
        try {
            WireReader in = new WireReader("metadata request", request);
            int op = in.u8();
            String path = in.string();
            long version = in.i64();
            byte[] value = in.bytes();
            in.finish();
            MetadataStore target = store.get();
            if (target == null) {
                answers.answer(requestId, REFUSED, 0, Messages.text("no broker with a metadata store is left"));
                return;
            }
            asked = true;
            switch (op) {
                case OP_GET -> target.get(path).whenComplete((found, e) -> settle(requestId, path, e, () -> {
                    if (found.isPresent()) {
                        answers.answer(requestId, DONE, found.get().getStat().getVersion(), found.get().getValue());
                    } else {
                        answers.answer(requestId, NOT_FOUND, 0, NOTHING);
                    }
                }));
                case OP_PUT -> target.put(path, value, expected(version)).whenComplete((stat, e) ->
                        settle(requestId, path, e, () -> answers.answer(requestId, DONE, stat.getVersion(), NOTHING)));
                case OP_DELETE -> target.delete(path, expected(version)).whenComplete((done, e) ->
                        settle(requestId, path, e, () -> answers.answer(requestId, DONE, 0, NOTHING)));
                // The store's own answer, not its cache: an old listing would hide what was just written.
                case OP_CHILDREN -> target.getChildrenFromStore(path).whenComplete((names, e) ->
                        settle(requestId, path, e, () -> answers.answer(requestId, DONE, 0, list(names))));
                default -> answers.answer(requestId, REFUSED, 0, Messages.text("unknown metadata operation " + op));
            }
        } catch (Throwable e) {
            log.warn("A metadata request could not be submitted", e);
            answers.answer(requestId, asked ? FAILED : REFUSED, 0,
                    Messages.text("the request could not be submitted: " + e));
        }
    }

    private void settle(long requestId, String path, Throwable failure, Runnable success) {
        Throwable cause = NativeErrors.unwrap(failure);
        if (cause == null) {
            try {
                success.run();
            } catch (RuntimeException e) {
                answers.answer(requestId, FAILED, 0, Messages.text("the answer for " + path + " cannot be used: " + e));
            }
        } else if (cause instanceof MetadataStoreException.BadVersionException) {
            answers.answer(requestId, BAD_VERSION, 0, NOTHING);
        } else if (cause instanceof MetadataStoreException.NotFoundException) {
            answers.answer(requestId, NOT_FOUND, 0, NOTHING);
        } else {
            answers.answer(requestId, FAILED, 0, Messages.text("metadata store, path " + path + ": " + cause));
        }
    }

    private static Optional<Long> expected(long version) {
        return version == ANY_VERSION ? Optional.empty() : Optional.of(version);
    }

    private static byte[] list(List<String> names) {
        WireWriter out = new WireWriter().i32(names.size());
        names.forEach(out::string);
        return out.finish();
    }
}
