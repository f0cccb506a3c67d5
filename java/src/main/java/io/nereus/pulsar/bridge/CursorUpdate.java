package io.nereus.pulsar.bridge;

import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * One change of a cursor's durable state. Updates of one cursor take effect in call order.
 *
 * @param name name of the cursor
 * @param create the cursor must not exist yet; without it the cursor must exist
 * @param full pages that are not listed are dropped
 * @param markDeleteEnd new mark-delete end; pages wholly below it are dropped by the native side
 * @param positionProperties new properties of the position, or null to leave them unchanged
 * @param cursorProperties new properties of the cursor, or null to leave them unchanged
 * @param pages changed pages; one without acknowledgements removes the page
 */
public record CursorUpdate(String name, boolean create, boolean full, long markDeleteEnd,
                           Map<String, Long> positionProperties, Map<String, String> cursorProperties,
                           List<AckPage> pages) {

    /** Checks that name and pages are given. */
    public CursorUpdate {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(pages, "pages");
    }
}
