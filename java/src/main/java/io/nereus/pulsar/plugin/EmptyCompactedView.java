package io.nereus.pulsar.plugin;

import io.nereus.pulsar.compat.MessagePositions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.compaction.TopicCompactionService;

/**
 * The compacted view of a topic of which nothing was ever compacted.
 *
 * <p>Promises: no compacted position, so readers with {@code readCompacted} read the plain topic. {@link #compact} does nothing
 * for the broker's own topics, which the broker tries every minute, and is refused for all others (L14).
 *
 * <p>Has the methods of the interface in Pulsar 4.0 and in 4.2 and later together; the return types differ there only in type
 * arguments, and none of the values here depends on them.
 */
final class EmptyCompactedView implements TopicCompactionService {
    private final String topic;
    private final Predicate<String> systemTopic;
    private final Consumer<String> skipped;

    /**
     * @param systemTopic tells whether a topic is the broker's own
     * @param skipped     told of each compaction of a system topic that was asked for and did nothing
     */
    EmptyCompactedView(String topic, Predicate<String> systemTopic, Consumer<String> skipped) {
        this.topic = topic;
        this.systemTopic = systemTopic;
        this.skipped = skipped;
    }

    @Override
    public CompletableFuture<Void> compact() {
        if (systemTopic.test(topic)) {
            skipped.accept(topic);
            return CompletableFuture.completedFuture(null);
        }
        return CompletableFuture.failedFuture(new CompactionRefusedException(topic));
    }

    @Override
    public CompletableFuture<List<Entry>> readCompactedEntries(Position startPosition, int numberOfEntriesToRead) {
        return CompletableFuture.completedFuture(new ArrayList<>()); // the broker may change lists of entries
    }

    @Override
    public CompletableFuture<Position> getLastCompactedPosition() {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<Entry> findEntryByPublishTime(long publishTime) {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<Entry> readLastCompactedEntry() {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<Entry> findEntryByEntryIndex(long entryIndex) {
        return CompletableFuture.completedFuture(null);
    }

    /** Called by Pulsar 4.2 and later only, which wants "none" as a value of a class that 4.0 does not have. */
    public CompletableFuture<Object> getLastMessagePosition() {
        return CompletableFuture.completedFuture(MessagePositions.earliest());
    }

    @Override
    public void close() {
        // Holds nothing.
    }
}
