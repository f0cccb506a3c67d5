package io.nereus.pulsar.plugin;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.compaction.CompactionServiceFactory;
import org.apache.pulsar.compaction.TopicCompactionService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Named by {@code compactionServiceFactoryClassName}: every topic has an empty compacted view, no bookies.
 *
 * <p>Owns: whether the operator was told that system topics are not compacted. Promises: a topic loads without waiting here.
 */
public final class NereusCompactionServiceFactory implements CompactionServiceFactory {
    private static final Logger LOG = LoggerFactory.getLogger(NereusCompactionServiceFactory.class);

    private final AtomicBoolean told = new AtomicBoolean();
    private volatile PulsarService pulsar;

    @Override
    public CompletableFuture<Void> initialize(PulsarService pulsarService) {
        pulsar = pulsarService;
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<TopicCompactionService> newTopicCompactionService(String topic) {
        return CompletableFuture.completedFuture(new EmptyCompactedView(topic, this::isSystemTopic, this::systemTopicSkipped));
    }

    @Override
    public void close() {
        // Holds nothing.
    }

    /** Asked at compaction, not at topic load: the broker service knows which topics are the broker's own. */
    private boolean isSystemTopic(String topic) {
        return pulsar.getBrokerService().isSystemTopic(topic);
    }

    /** The broker tries every system topic once a minute: say it once for all of them. */
    private void systemTopicSkipped(String topic) {
        if (told.compareAndSet(false, true)) {
            LOG.info("System topics are not compacted by this version of Nereus and keep all their entries; "
                + "first one skipped: {}", topic);
        }
    }
}
