package io.nereus.pulsar;

import io.nereus.pulsar.bridge.LedgerDescription;
import io.nereus.pulsar.bridge.NativeEngine;
import io.nereus.pulsar.bridge.NativeErrors;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Function;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerInfo;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.PersistentOfflineTopicStats;
import org.apache.pulsar.metadata.api.GetResult;

/**
 * What can be told of a ledger by its name, whether it is open or not.
 *
 * <p>Promises: looking changes nothing and takes nothing from an owner; a topic that the admin tools announced by an
 * empty registry node, and that nobody has opened yet, exists and is empty; a store that does not answer is a failure,
 * never an absence. Outcomes arrive on the thread of the name.
 */
final class LedgerCatalog {

    private static final String REGISTRY = "/managed-ledgers/";

    private final NativeEngine engine;
    private final Function<String, Executor> threadOf;

    LedgerCatalog(NativeEngine engine, Function<String, Executor> threadOf) {
        this.engine = engine;
        this.threadOf = threadOf;
    }

    /** Whether Pulsar would list the name, or it has data although its registry node was lost. */
    CompletableFuture<Boolean> exists(String name) {
        return registryNode(name).thenCompose(node -> node.isPresent() ? CompletableFuture.completedFuture(true)
            : find(name).thenApply(Optional::isPresent));
    }

    /** Empty for a topic that does not exist: the broker asks before it opens. The map may be changed. */
    CompletableFuture<Map<String, String>> properties(String name) {
        return find(name).thenApply(found ->
            found.map(description -> LedgerProperties.visible(description.properties()))
                .orElseGet(HashMap::new));
    }

    /** Fails with {@code MetadataNotFoundException} if there is no such topic. */
    CompletableFuture<ManagedLedgerInfo> info(String name) {
        return describeSeen(name).thenApply(found -> new StoredLedgerReport(found).managedLedgerInfo())
            .exceptionallyCompose(failure -> NativeErrors.codeOf(failure) != NativeErrors.NOT_FOUND
                ? CompletableFuture.failedFuture(failure)
                : registryNode(name).thenCompose(node -> announced(node) ? CompletableFuture.completedFuture(
                    StoredLedgerReport.announced(node.get().getStat())) : CompletableFuture.failedFuture(failure)));
    }

    /** Fills {@code stats}; they stay as they are for a topic that does not exist, as stock's do. Blocks. */
    void estimateBacklog(PersistentOfflineTopicStats stats, TopicName topic, boolean perLedger)
            throws InterruptedException, ManagedLedgerException {
        Waiting.forResult(orAbsent(describeSeen(topic.getPersistenceNamingEncoding())), "estimating the backlog of " + topic)
            .ifPresent(found -> new StoredLedgerReport(found).addTo(stats, perLedger));
        stats.statGeneratedAt.setTime(System.currentTimeMillis());
    }

    private static boolean announced(Optional<GetResult> node) {
        return node.isPresent() && node.get().getValue().length == 0;
    }

    /** The description, or empty if there is no such ledger. */
    private CompletableFuture<Optional<LedgerDescription>> find(String name) {
        return orAbsent(describe(name));
    }

    private static CompletableFuture<Optional<LedgerDescription>> orAbsent(CompletableFuture<LedgerDescription> found) {
        return found.thenApply(Optional::of)
            .exceptionallyCompose(failure -> NativeErrors.codeOf(failure) == NativeErrors.NOT_FOUND
                ? CompletableFuture.completedFuture(Optional.empty()) : CompletableFuture.failedFuture(failure));
    }

    /** As {@link #describe}; a shadow with the entries that it shows. */
    private CompletableFuture<LedgerDescription> describeSeen(String name) {
        return describe(name).thenCompose(own -> {
            String source = ShadowSource.nameIn(own.properties());
            return source == null ? CompletableFuture.completedFuture(own)
                : describe(source).thenApply(found -> ShadowSource.seenThrough(own, found));
        });
    }

    private CompletableFuture<LedgerDescription> describe(String name) {
        return engine.describeLedger(name, threadOf.apply(name));
    }

    private CompletableFuture<Optional<GetResult>> registryNode(String name) {
        return engine.metadataStore().get(REGISTRY + name).thenApplyAsync(Function.identity(), threadOf.apply(name));
    }
}
