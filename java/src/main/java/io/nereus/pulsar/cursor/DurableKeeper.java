package io.nereus.pulsar.cursor;

import io.nereus.pulsar.bridge.AckPage;
import io.nereus.pulsar.bridge.CursorUpdate;
import io.nereus.pulsar.bridge.NativeErrors;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.DoubleSupplier;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a cursor in the engine.
 *
 * <p>Promises: a completion means that the change survives a crash (L15). At most one write of a cursor is under way;
 * whatever arrives meanwhile goes out together with the next, so the cost follows what changed and not how often it was
 * asked for. A caller alone may be one that waits for each answer: its change is written at once, and so are a reset, an
 * edit of cursor properties and a flush. Where the last write served several callers, or several wait now, they do not
 * wait for each other's answers and waiting makes one write of many: then the {@link FlushPasses} decide when. A write that fails leaves what it carried to be written again, by the
 * next change or by itself after a pause, so that nothing stays behind when changes stop arriving. Only the pages that
 * changed are written.
 *
 * <p>Does not: drop or shorten anything for its size. After a failure that no retry can cure (fenced, closed, deleted)
 * it does not try again by itself.
 */
public final class DurableKeeper implements CursorKeeper, FlushPasses.Dirty {

    private static final Logger log = LoggerFactory.getLogger(DurableKeeper.class);
    private static final long FIRST_RETRY_MILLIS = 100;
    private static final long LAST_RETRY_MILLIS = 30_000;

    private final String name;
    private final CursorLedger ledger;
    private final CursorProgress progress;
    private final CursorProperties properties;
    private final Function<CursorUpdate, CompletableFuture<Void>> store;
    private final CursorStats stats;
    private final Moved moved;
    private final FlushPasses passes;
    private final DoubleSupplier permittedRate;

    private Write underWay;
    private Replacement replacement;
    private List<Completion> waiting = new ArrayList<>();
    private ManagedLedgerException stopped;
    private long keptEnd;
    private int failures;
    /** Callers that the last write answered. */
    private int lastCallers;
    private boolean retryDue;
    /** What waits does not wait for a pass. */
    private boolean urgent;
    /** The passes know of the changes; they ask for them by {@link #flush(Runnable)}. */
    private boolean announced;

    /**
     * @param name          name of the cursor in the engine
     * @param store         writes one update; its future completes after durability
     * @param moved         told after durability
     * @param passes        decides when changes are written
     * @param permittedRate persists per second that Pulsar permits, 0 for any number
     */
    public DurableKeeper(String name, CursorLedger ledger, CursorProgress progress,
                         Map<String, Long> positionProperties, Map<String, String> cursorProperties,
                         Function<CursorUpdate, CompletableFuture<Void>> store, CursorStats stats, Moved moved,
                         FlushPasses passes, DoubleSupplier permittedRate) {
        this.name = name;
        this.ledger = ledger;
        this.progress = progress;
        this.properties = new CursorProperties(positionProperties, cursorProperties);
        this.store = store;
        this.stats = stats;
        this.moved = moved;
        this.passes = passes;
        this.permittedRate = permittedRate;
        this.keptEnd = progress.markDeleteEnd();
    }

    @Override
    public synchronized CursorProgress.MarkDelete markDelete(long end, long[] unacked,
                                                             Map<String, Long> newProperties) {
        CursorProgress.MarkDelete result = progress.markDelete(end, unacked);
        if (result == CursorProgress.MarkDelete.DONE && newProperties != null) {
            properties.setPosition(newProperties);
        }
        return result;
    }

    @Override
    public void whenKept(Completion completion) {
        synchronized (this) {
            enqueueLocked(completion);
        }
        goOn();
    }

    @Override
    public void flush(Completion completion) {
        synchronized (this) {
            urgent = true;
            enqueueLocked(completion);
        }
        goOn();
    }

    @Override
    public void editPositionProperties(UnaryOperator<Map<String, Long>> edit) {
        synchronized (this) {
            properties.editPosition(edit);
            retryDue = true; // written although nobody waits for it
        }
        goOn();
    }

    @Override
    public void editCursorProperties(UnaryOperator<Map<String, String>> edit, Completion completion) {
        synchronized (this) {
            if (stopped == null) {
                properties.editCursor(edit);
            }
            urgent = true;
            // In the same step as the edit, so that both travel with the same write.
            enqueueLocked(completion);
        }
        goOn();
    }

    @Override
    public void replace(AckState fresh, long readOffset, Map<String, Long> newProperties, Completion completion) {
        ManagedLedgerException refused;
        synchronized (this) {
            refused = stopped;
            if (refused == null) {
                replacement = new Replacement(fresh, readOffset, newProperties, completion);
            }
        }
        if (refused != null) {
            progress.resetFailed();
            ledger.executor().execute(() -> completion.failed(refused));
        } else {
            goOn();
        }
    }

    @Override
    public synchronized long keptMarkDeleteEnd() {
        return keptEnd;
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
    public void stop(ManagedLedgerException reason) {
        List<Completion> refused;
        synchronized (this) {
            stopped = reason;
            refused = waiting;
            waiting = new ArrayList<>();
            if (replacement != null) {
                refused.add(replacement.completion());
                replacement = null;
                progress.resetFailed();
            }
        }
        if (!refused.isEmpty()) {
            ledger.executor().execute(() -> refused.forEach(c -> fail(c, reason)));
        }
    }

    @Override
    public void resume() {
        synchronized (this) {
            stopped = null;
            retryDue = true;
        }
        goOn();
    }

    private void enqueueLocked(Completion completion) {
        ManagedLedgerException refused = stopped;
        if (refused == null) {
            waiting.add(completion);
        } else {
            ledger.executor().execute(() -> fail(completion, refused));
        }
    }

    /** Sees to what there is to do: what is urgent now, changes with the next pass. */
    private void goOn() {
        boolean withPass;
        synchronized (this) {
            if (underWay != null || stopped != null) {
                return; // the end of the write comes here again, and so does a resumption
            }
            withPass = replacement == null && !urgent && hasChanges() && (!waiting.isEmpty() || retryDue) && !isAlone();
            if (withPass && announced) {
                return;
            }
            announced |= withPass;
        }
        if (withPass) {
            passes.dirty(this);
        } else {
            write(null);
        }
    }

    /** One caller waits, and one came at a time before. */
    private boolean isAlone() {
        return waiting.size() == 1 && lastCallers <= 1;
    }

    @Override
    public long flush(Runnable ended) {
        synchronized (this) {
            announced = false; // a change from here on is announced for the next pass
        }
        return write(ended);
    }

    @Override
    public double permittedRate() {
        return permittedRate.getAsDouble();
    }

    private boolean hasChanges() {
        return progress.isDirty() || properties.isDirty();
    }

    /** Starts the next write if none is under way and there is something to write; answers its size or {@link #NOTHING}. */
    private long write(Runnable ended) {
        Write write = null;
        List<Completion> kept = List.of();
        synchronized (this) {
            if (underWay != null || stopped != null) {
                return NOTHING;
            }
            if (replacement != null) {
                write = Write.of(replacement, properties, ended);
                replacement = null;
            } else if (!waiting.isEmpty() || retryDue) {
                retryDue = false;
                urgent = false;
                if (hasChanges()) {
                    lastCallers = waiting.size();
                    write = new Write(progress.takeChanges(), properties.take(), null, waiting, ended);
                } else {
                    kept = waiting;
                }
                waiting = new ArrayList<>();
            }
            underWay = write;
        }
        if (!kept.isEmpty()) {
            List<Completion> done = kept;
            ledger.executor().execute(() -> done.forEach(DurableKeeper::succeed));
        }
        if (write == null) {
            return NOTHING;
        }
        CursorUpdate update = write.toUpdate(name);
        send(write, update);
        return bytes(update.pages());
    }

    private void send(Write write, CursorUpdate update) {
        CompletableFuture<Void> stored;
        try {
            stored = store.apply(update);
        } catch (RuntimeException e) {
            stored = CompletableFuture.failedFuture(e);
        }
        stored.whenCompleteAsync((ignored, failure) -> ended(write, update, failure), ledger.executor());
    }

    private void ended(Write write, CursorUpdate update, Throwable failure) {
        long before;
        synchronized (this) {
            underWay = null;
            before = keptEnd;
            if (failure == null) {
                keptEnd = update.markDeleteEnd();
                failures = 0;
                if (write.replacement() == null) {
                    properties.kept(write.properties());
                } else {
                    properties.resetKept(write.properties());
                    progress.resetDone(write.replacement().fresh(), write.replacement().readOffset());
                }
            } else {
                if (write.replacement() == null) {
                    progress.putBack(write.changes());
                    if (NativeErrors.codeOf(failure) == NativeErrors.INVALID) {
                        properties.refused(write.properties()); // properties too large must not hold up the acks
                    } else {
                        properties.notKept(write.properties());
                    }
                } else {
                    progress.resetFailed();
                }
                scheduleRetry(failure);
            }
        }
        stats.persistToLedger(failure == null);
        if (failure == null) {
            stats.addWriteCursorLedgerSize(bytes(update.pages()));
            if (before != update.markDeleteEnd()) {
                moved.moved(before, update.markDeleteEnd());
            }
        }
        goOn(); // first, so that the pass knows what is left over, and the engine has work while the callbacks run
        if (write.ended() != null) {
            write.ended().run();
        }
        ManagedLedgerException exception = failure == null ? null : NativeErrors.toManagedLedgerException(failure);
        for (Completion completion : write.completions()) {
            if (exception == null) {
                succeed(completion);
            } else {
                fail(completion, exception);
            }
        }
    }

    private void scheduleRetry(Throwable failure) {
        int code = NativeErrors.codeOf(failure);
        boolean curable = code != NativeErrors.FENCED && code != NativeErrors.CLOSED && code != NativeErrors.NOT_FOUND;
        failures++;
        log.warn("the state of cursor {} could not be written{}: {}", name,
                curable ? ", it will be tried again" : ", and never will be from here", failure.toString());
        if (curable && stopped == null) {
            long delay = Math.min(LAST_RETRY_MILLIS, FIRST_RETRY_MILLIS << Math.min(failures - 1, 10));
            try {
                ledger.scheduler().schedule(() -> ledger.executor().execute(this::retry), delay, TimeUnit.MILLISECONDS);
            } catch (RejectedExecutionException e) {
                log.warn("cursor {} is shut down before its state could be written again", name);
            }
        }
    }

    private void retry() {
        synchronized (this) {
            retryDue = true;
        }
        goOn();
    }

    private static void succeed(Completion completion) {
        try {
            completion.done();
        } catch (RuntimeException e) {
            log.error("a callback of a cursor failed", e);
        }
    }

    private static void fail(Completion completion, ManagedLedgerException exception) {
        try {
            completion.failed(exception);
        } catch (RuntimeException e) {
            log.error("a callback of a cursor failed", e);
        }
    }

    /** What a mark-delete end and these pages count for in the statistics of a cursor, in bytes. */
    public static long bytes(List<AckPage> pages) {
        long bytes = Long.BYTES;
        for (AckPage page : pages) {
            bytes += page.acked().length;
            for (long[] words : page.batches().values()) {
                bytes += Integer.BYTES + (long) words.length * Long.BYTES;
            }
        }
        return bytes;
    }

    private record Replacement(AckState fresh, long readOffset, Map<String, Long> properties, Completion completion) {
    }

    /** {@code ended} is told when the write has ended; null if no pass waits for it. */
    private record Write(AckState.Changes changes, CursorProperties.Taken properties, Replacement replacement,
                         List<Completion> completions, Runnable ended) {

        static Write of(Replacement replacement, CursorProperties properties, Runnable ended) {
            return new Write(replacement.fresh().takeChanges(), properties.takeForReset(replacement.properties()),
                    replacement, List.of(replacement.completion()), ended);
        }

        CursorUpdate toUpdate(String name) {
            return new CursorUpdate(name, false, replacement != null, changes.markDeleteEnd(), properties.position(),
                    properties.cursor(), changes.pages());
        }
    }
}
