package io.nereus.pulsar.bridge;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Writes log events of the native side to slf4j, under the name of the native module. */
final class NativeLog {

    private NativeLog() {
    }

    /**
     * Writes one event.
     *
     * @param level 1 error, 2 warn, 3 info, 4 debug, 5 trace
     * @param dropped events that were lost before this one because nobody fetched them in time
     * @param event string target, string text
     */
    static void write(int level, long dropped, byte[] event) throws NativeException {
        WireReader in = new WireReader("log event", event);
        String target = in.string();
        String text = in.string();
        in.finish();
        Logger logger = LoggerFactory.getLogger(loggerName(target));
        if (dropped > 0) {
            logger.warn("{} log events of the native side were dropped before the next one", dropped);
        }
        switch (level) {
            case 1 -> logger.error("{}", text);
            case 2 -> logger.warn("{}", text);
            case 3 -> logger.info("{}", text);
            case 4 -> logger.debug("{}", text);
            default -> logger.trace("{}", text);
        }
    }

    /** {@code nereus_core::journal} becomes {@code io.nereus.core.journal}. */
    static String loggerName(String target) {
        return "io." + target.replaceFirst("^nereus_", "nereus.").replace("::", ".");
    }
}
