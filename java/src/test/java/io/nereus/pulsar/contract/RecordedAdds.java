package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;

/** Hears how appends end, in the order in which they end. Thread-safe. */
final class RecordedAdds implements AddEntryCallback {

    /**
     * How one append ended.
     *
     * @param ctx      what the caller handed over
     * @param position of the entry; null if it failed
     * @param text     the bytes handed to the callback; null if it failed
     * @param failure  null if it was stored
     * @param thread   on which the callback ran
     */
    record Outcome(Object ctx, Position position, String text, ManagedLedgerException failure, Thread thread) {

        boolean stored() {
            return failure == null;
        }
    }

    private final List<Outcome> outcomes = new ArrayList<>();
    private final Semaphore ended = new Semaphore(0);

    @Override
    public void addComplete(Position position, ByteBuf data, Object ctx) {
        record(new Outcome(ctx, position, data == null ? "no bytes" : data.toString(StandardCharsets.UTF_8), null,
            Thread.currentThread()));
    }

    @Override
    public void addFailed(ManagedLedgerException exception, Object ctx) {
        record(new Outcome(ctx, null, null, exception, Thread.currentThread()));
    }

    private void record(Outcome outcome) {
        synchronized (outcomes) {
            outcomes.add(outcome);
        }
        ended.release();
    }

    /** What ended so far. */
    List<Outcome> soFar() {
        synchronized (outcomes) {
            return List.copyOf(outcomes);
        }
    }

    /** Waits until {@code count} appends have ended; more than that is an error too. */
    List<Outcome> await(int count) throws InterruptedException {
        boolean all = ended.tryAcquire(count, Ledgers.PATIENCE.toSeconds(), TimeUnit.SECONDS);
        List<Outcome> heard = soFar();
        assertThat(all).as("%d appends to end, these have: %s", count, heard).isTrue();
        ended.release(count);
        assertThat(heard).as("each append ends once").hasSize(count);
        return heard;
    }
}
