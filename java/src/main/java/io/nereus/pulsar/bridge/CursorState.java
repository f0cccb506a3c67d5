package io.nereus.pulsar.bridge;

import java.util.List;
import java.util.Map;

/**
 * Durable state of one cursor, as recovered.
 *
 * @param name name of the cursor
 * @param markDeleteEnd every offset below it is acknowledged
 * @param positionProperties properties stored with the mark-delete position
 * @param cursorProperties properties of the cursor itself
 * @param pages pages at or above {@code markDeleteEnd} that hold at least one acknowledgement, ascending
 */
public record CursorState(String name, long markDeleteEnd, Map<String, Long> positionProperties,
                          Map<String, String> cursorProperties, List<AckPage> pages) {
}
