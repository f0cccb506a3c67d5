package io.nereus.pulsar;

import io.nereus.pulsar.bridge.CursorState;
import io.nereus.pulsar.bridge.CursorUpdate;
import io.nereus.pulsar.bridge.LedgerDescription;
import io.nereus.pulsar.bridge.NativeEngine;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.NativeStream;
import io.nereus.pulsar.bridge.OpenedLedger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerNotFoundException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Opens a shadow topic: its source for reading, then a stream of its own that keeps cursors and properties.
 *
 * <p>Promises: without a source nothing is created; the cursors mean offsets of the source as it is now: those of an
 * earlier life of the source begin again at its first entry, durably, before anybody sees them. A failure leaves no
 * handle open.
 */
final class ShadowOpening {

    private static final Logger log = LoggerFactory.getLogger(ShadowOpening.class);

    /** Property that says which life of the source the stored cursors mean; Pulsar does not see it. */
    private static final String LIFE = LedgerProperties.HIDDEN_PREFIX + "shadow-source";

    private final NativeEngine engine;
    private final String name;
    private final Executor thread;

    ShadowOpening(NativeEngine engine, String name, Executor thread) {
        this.engine = engine;
        this.name = name;
        this.thread = thread;
    }

    /**
     * A shadow ready to be wrapped.
     *
     * @param ledger its own stream, described as Pulsar sees the shadow
     */
    record Opened(OpenedLedger ledger, ShadowSource source) {
    }

    /** Opens; completes on the thread given. {@code properties} are those of a new shadow. */
    CompletableFuture<Opened> open(String sourceName, boolean createIfMissing, Map<String, String> properties) {
        return openSource(sourceName).handle((found, failure) -> failure == null
            ? CompletableFuture.completedFuture(new ShadowSource(sourceName, found.stream(), found.description()))
            : CompletableFuture.<ShadowSource>failedFuture(sourceFailure(sourceName, failure)))
            .thenCompose(found -> found)
            .thenCompose(source -> openOwn(source, createIfMissing, properties).handle((opened, failure) -> {
                if (failure == null) {
                    return CompletableFuture.completedFuture(opened);
                }
                source.close();
                return CompletableFuture.<Opened>failedFuture(failure);
            }).thenCompose(outcome -> outcome));
    }

    /** A source that an admin has created and no broker has opened yet, as a new partition, exists: it is made now. */
    private CompletableFuture<OpenedLedger> openSource(String sourceName) {
        return engine.openReadOnly(sourceName, thread).exceptionallyCompose(failure ->
            NativeErrors.codeOf(failure) != NativeErrors.NOT_FOUND ? CompletableFuture.failedFuture(failure)
                : engine.openLedger(sourceName, false, Map.of(), thread)
                    .thenCompose(made -> made.stream().close())
                    .thenCompose(ignored -> engine.openReadOnly(sourceName, thread)));
    }

    private ManagedLedgerException sourceFailure(String sourceName, Throwable failure) {
        return NativeErrors.codeOf(failure) == NativeErrors.NOT_FOUND
            ? new ManagedLedgerNotFoundException("ledger " + sourceName + ", the source of the shadow " + name
                + ", does not exist")
            : NativeErrors.toManagedLedgerException(failure);
    }

    private CompletableFuture<Opened> openOwn(ShadowSource source, boolean createIfMissing,
                                              Map<String, String> properties) {
        String third = ShadowSource.nameIn(source.opened().properties());
        if (third != null) {
            return CompletableFuture.failedFuture(Unsupported.feature("a shadow (" + name + ") of a shadow ("
                + source.name() + ")", "make it a shadow of " + third));
        }
        return engine.openLedger(name, createIfMissing, properties, thread).thenCompose(own ->
            bind(own, source).handle((opened, failure) -> {
                if (failure == null) {
                    return CompletableFuture.completedFuture(opened);
                }
                return own.stream().close().handle((done, closeFailure) -> failure)
                    .thenCompose(CompletableFuture::<Opened>failedFuture);
            }).thenCompose(outcome -> outcome));
    }

    private CompletableFuture<Opened> bind(OpenedLedger own, ShadowSource source) {
        LedgerDescription found = own.description();
        if (found.state().end() > 0) {
            return CompletableFuture.failedFuture(new ManagedLedgerException("ledger " + name + " has "
                + found.state().end() + " entries of its own and cannot become a shadow of " + source.name()));
        }
        int code = own.stream().follow(source.stream());
        if (code != NativeErrors.OK) {
            return CompletableFuture.failedFuture(
                NativeErrors.toException(code, "making " + name + " a shadow of " + source.name()));
        }
        LedgerDescription seen = ShadowSource.seenThrough(found, source.opened());
        if (source.life().equals(found.properties().get(LIFE))) {
            return CompletableFuture.completedFuture(new Opened(new OpenedLedger(own.stream(), seen), source));
        }
        return meetNewSource(own.stream(), seen, source)
            .thenApply(renewed -> new Opened(new OpenedLedger(own.stream(), renewed), source));
    }

    /** Cursors first: who stops in between finds the old life recorded and begins again. */
    private CompletableFuture<LedgerDescription> meetNewSource(NativeStream own, LedgerDescription seen,
                                                               ShadowSource source) {
        long first = seen.state().trim();
        List<CursorState> cursors = new ArrayList<>();
        List<CompletableFuture<Void>> resets = new ArrayList<>();
        for (CursorState old : seen.cursors()) {
            log.warn("[{}] cursor {} begins again at the first entry of {}, which was created anew", name, old.name(),
                source.name());
            cursors.add(new CursorState(old.name(), first, old.positionProperties(), old.cursorProperties(),
                List.of()));
            resets.add(own.persistCursor(new CursorUpdate(old.name(), false, true, first, null, null, List.of())));
        }
        Map<String, String> properties = new HashMap<>(seen.properties());
        properties.put(LIFE, source.life());
        return CompletableFuture.allOf(resets.toArray(CompletableFuture[]::new))
            .thenCompose(ignored -> own.setProperties(properties))
            .thenApply(ignored -> new LedgerDescription(seen.firstLedgerId(), seen.spanBits(), seen.incarnation(),
                seen.ownerEpoch(), seen.creationMillis(), seen.state(), properties, seen.spans(), cursors));
    }
}
