package io.nereus.pulsar.plugin;

import java.util.concurrent.CompletionException;

/**
 * Compaction was asked for and is not supported.
 *
 * <p>A {@link CompletionException}, so that the broker's dependent futures pass it on as it is: {@code compaction-status} then
 * shows this message, and the warning that the broker logs every minute for a topic with a compaction threshold is one line,
 * because there is no stack trace.
 */
public final class CompactionRefusedException extends CompletionException {
    private static final long serialVersionUID = 1L;

    CompactionRefusedException(String topic) {
        super("compaction of " + topic + " is not supported by this version of Nereus: the topic is unchanged and readers with "
            + "readCompacted read all of it; remove its compaction threshold to silence this");
    }

    @Override
    public synchronized Throwable fillInStackTrace() {
        return this;
    }
}
