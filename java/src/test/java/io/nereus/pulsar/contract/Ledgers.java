package io.nereus.pulsar.contract;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.awaitility.Awaitility;

/** What contract tests do all the time. */
public final class Ledgers {

    /** Longest time that any single outcome may take. */
    public static final Duration PATIENCE = Duration.ofSeconds(30);

    private Ledgers() {
    }

    /** A body that may throw anything. */
    @FunctionalInterface
    public interface ThrowingRunnable {
        void run() throws Exception;
    }

    /** Appends {@code text}. */
    public static Position add(ManagedLedger ledger, String text) throws Exception {
        return ledger.addEntry(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Appends {@code count} entries e0, e1... and returns their positions. */
    public static List<Position> addMany(ManagedLedger ledger, int count) throws Exception {
        Position[] positions = new Position[count];
        for (int i = 0; i < count; i++) {
            positions[i] = add(ledger, "e" + i);
        }
        return List.of(positions);
    }

    /** The texts of {@code entries}, which are released. */
    public static List<String> texts(List<Entry> entries) {
        return entries.stream().map(Ledgers::text).toList();
    }

    /** The text of {@code entry}, which is released. */
    public static String text(Entry entry) {
        try {
            return new String(entry.getData(), StandardCharsets.UTF_8);
        } finally {
            entry.release();
        }
    }

    /** Waits until {@code condition} holds; {@code what} says what did not happen in time. */
    public static void await(String what, Callable<Boolean> condition) {
        Awaitility.await(what).atMost(PATIENCE).pollInSameThread().pollInterval(Duration.ofMillis(5)).until(condition);
    }

    /** The outcome of {@code future}; its failure is thrown as it is. */
    public static <T> T await(CompletableFuture<T> future) throws Exception {
        try {
            return future.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    /** The managed-ledger exception with which {@code body} fails, also if a future wraps it. */
    public static ManagedLedgerException failure(ThrowingRunnable body) {
        Throwable thrown = null;
        try {
            body.run();
        } catch (Exception e) {
            thrown = e;
            while ((thrown instanceof ExecutionException || thrown instanceof CompletionException)
                    && thrown.getCause() != null) {
                thrown = thrown.getCause();
            }
        }
        assertThat(thrown).as("the failure of the call").isInstanceOf(ManagedLedgerException.class);
        return (ManagedLedgerException) thrown;
    }
}
