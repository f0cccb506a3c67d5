package io.nereus.pulsar.compat;

/** Makes values of the compaction service's {@code MessagePosition}, which exists from Pulsar 4.2 on. */
public final class MessagePositions {
    private static final String NAME = "org.apache.pulsar.compaction.TopicCompactionService$MessagePosition";

    private MessagePositions() {
    }

    /**
     * Returns the position that means "there is no message".
     *
     * @throws UnsupportedOperationException on a Pulsar without that class, which never asks for it
     */
    public static Object earliest() {
        try {
            return Class.forName(NAME).getField("EARLIEST").get(null);
        } catch (ReflectiveOperationException e) {
            throw new UnsupportedOperationException("this Pulsar has no " + NAME, e);
        }
    }
}
