package io.nereus.pulsar.cursor;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;

/**
 * The two maps stored with a cursor: the properties of its mark-delete position and those of the cursor itself.
 *
 * <p>Promises: what a reader sees is what is kept, except that edits of position properties show at once; a change of
 * cursor properties that could not be kept is undone, later ones stand. Does not: lock; its keeper does.
 */
final class CursorProperties {

    private Map<String, Long> position;
    private Map<String, Long> shownPosition;
    private boolean positionDirty;
    private final List<UnaryOperator<Map<String, Long>>> positionEditsSinceTaken = new ArrayList<>();

    private Map<String, String> cursor;
    private List<UnaryOperator<Map<String, String>>> queuedEdits = new ArrayList<>();

    CursorProperties(Map<String, Long> position, Map<String, String> cursor) {
        this.position = Map.copyOf(position);
        this.shownPosition = this.position;
        this.cursor = Map.copyOf(cursor);
    }

    Map<String, Long> shownPosition() {
        return shownPosition;
    }

    Map<String, String> shownCursor() {
        return cursor;
    }

    void setPosition(Map<String, Long> properties) {
        if (!properties.equals(position)) {
            position = Map.copyOf(properties);
            positionDirty = true;
        }
    }

    void editPosition(UnaryOperator<Map<String, Long>> edit) {
        position = apply(edit, position);
        shownPosition = apply(edit, shownPosition);
        positionEditsSinceTaken.add(edit);
        positionDirty = true;
    }

    void editCursor(UnaryOperator<Map<String, String>> edit) {
        queuedEdits.add(edit);
    }

    boolean isDirty() {
        return positionDirty || !queuedEdits.isEmpty();
    }

    /** Takes what has to be written. */
    Taken take() {
        return taken(positionDirty ? position : null);
    }

    /** Takes what has to be written when a reset brings its own position properties, or null to leave them. */
    Taken takeForReset(Map<String, Long> properties) {
        return taken(properties == null ? position : Map.copyOf(properties));
    }

    private Taken taken(Map<String, Long> positionToWrite) {
        Map<String, String> edited = null;
        if (!queuedEdits.isEmpty()) {
            edited = cursor;
            for (UnaryOperator<Map<String, String>> edit : queuedEdits) {
                edited = apply(edit, edited);
            }
            queuedEdits = new ArrayList<>();
        }
        positionDirty = false;
        positionEditsSinceTaken.clear();
        return new Taken(positionToWrite, edited);
    }

    void kept(Taken taken) {
        if (taken.position() != null) {
            Map<String, Long> now = taken.position();
            for (UnaryOperator<Map<String, Long>> edit : positionEditsSinceTaken) {
                now = apply(edit, now);
            }
            shownPosition = now;
        }
        if (taken.cursor() != null) {
            cursor = taken.cursor();
        }
    }

    /** Position properties stay to be written; edits of cursor properties are forgotten, their callers are told. */
    void notKept(Taken taken) {
        positionDirty |= taken.position() != null;
    }

    /** The engine will never take what was written: position properties go back to those that are kept. */
    void refused(Taken taken) {
        if (taken.position() != null) {
            position = shownPosition;
            positionDirty = !positionEditsSinceTaken.isEmpty();
        }
    }

    /** After a reset was kept: its position properties are the latest, but for edits made meanwhile. */
    void resetKept(Taken taken) {
        kept(taken);
        position = shownPosition;
    }

    private static <V> Map<String, V> apply(UnaryOperator<Map<String, V>> edit, Map<String, V> map) {
        return Map.copyOf(edit.apply(new HashMap<>(map)));
    }

    /**
     * What a write carries.
     *
     * @param position position properties, or null if they are unchanged
     * @param cursor   cursor properties, or null if they are unchanged
     */
    record Taken(Map<String, Long> position, Map<String, String> cursor) {
    }
}
