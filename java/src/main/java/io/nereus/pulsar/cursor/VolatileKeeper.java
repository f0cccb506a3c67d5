package io.nereus.pulsar.cursor;

import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.bookkeeper.mledger.ManagedLedgerException;

/**
 * Keeps a cursor in memory only: a change is kept as soon as it is made, and nothing survives the cursor.
 */
public final class VolatileKeeper implements CursorKeeper {

    private final CursorLedger ledger;
    private final CursorProgress progress;
    private final CursorProperties properties;
    private final Moved moved;
    private ManagedLedgerException stopped;
    /** Touched on the ledger's executor only. */
    private long toldEnd;

    /**
     * @param moved told that the mark-delete end has moved
     */
    public VolatileKeeper(CursorLedger ledger, CursorProgress progress, Map<String, String> cursorProperties,
                          Moved moved) {
        this.ledger = ledger;
        this.progress = progress;
        this.properties = new CursorProperties(Map.of(), cursorProperties);
        this.moved = moved;
        this.toldEnd = progress.markDeleteEnd();
    }

    @Override
    public synchronized CursorProgress.MarkDelete markDelete(long end, long[] unacked,
                                                             Map<String, Long> newProperties) {
        CursorProgress.MarkDelete result = progress.markDelete(end, unacked);
        if (result == CursorProgress.MarkDelete.DONE && newProperties != null) {
            properties.setPosition(newProperties);
            properties.kept(properties.take());
        }
        return result;
    }

    @Override
    public void whenKept(Completion completion) {
        end(completion);
    }

    @Override
    public void flush(Completion completion) {
        end(completion);
    }

    @Override
    public synchronized void editPositionProperties(UnaryOperator<Map<String, Long>> edit) {
        properties.editPosition(edit);
    }

    @Override
    public void editCursorProperties(UnaryOperator<Map<String, String>> edit, Completion completion) {
        synchronized (this) {
            properties.editCursor(edit);
            properties.kept(properties.take());
        }
        end(completion);
    }

    @Override
    public void replace(AckState fresh, long readOffset, Map<String, Long> newProperties, Completion completion) {
        synchronized (this) {
            progress.resetDone(fresh, readOffset);
            properties.resetKept(properties.takeForReset(newProperties));
        }
        end(completion);
    }

    @Override
    public long keptMarkDeleteEnd() {
        return -1;
    }

    @Override
    public synchronized Map<String, Long> positionProperties() {
        return properties.shownPosition();
    }

    @Override
    public synchronized Map<String, String> cursorProperties() {
        return properties.shownCursor();
    }

    @Override
    public synchronized void stop(ManagedLedgerException reason) {
        stopped = reason;
    }

    @Override
    public synchronized void resume() {
        stopped = null;
    }

    private void end(Completion completion) {
        ManagedLedgerException refused;
        synchronized (this) {
            refused = stopped;
        }
        ledger.executor().execute(() -> {
            if (refused != null) {
                completion.failed(refused);
                return;
            }
            long end = progress.markDeleteEnd();
            if (end != toldEnd) {
                long before = toldEnd;
                toldEnd = end;
                moved.moved(before, end);
            }
            completion.done();
        });
    }
}
