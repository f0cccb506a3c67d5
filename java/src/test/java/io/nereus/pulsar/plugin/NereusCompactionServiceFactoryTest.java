package io.nereus.pulsar.plugin;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.mockito.Mockito.RETURNS_DEEP_STUBS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import io.nereus.pulsar.compat.MessagePositions;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.compaction.TopicCompactionService;
import org.testng.annotations.Test;

/** The empty compacted view: readers see the plain topic, nobody is told that a compaction happened. */
public class NereusCompactionServiceFactoryTest {
    private static final String USER_TOPIC = "persistent://tenant/ns/topic";
    private static final String SYSTEM_TOPIC = "persistent://tenant/ns/__change_events";

    @Test
    public void l14_compactionOfAUserTopicIsRefusedByName() throws Exception {
        Throwable refusal = catchThrowable(() -> service(USER_TOPIC).compact().join());
        assertThat(refusal).isInstanceOf(CompactionRefusedException.class).hasMessageContaining(USER_TOPIC)
            .hasMessageContaining("not supported");
    }

    @Test
    public void theRefusalReachesCompactionStatusUnwrappedAndWithoutAStackTrace() throws Exception {
        CompletableFuture<Long> asTheBrokerKeepsIt = service(USER_TOPIC).compact().thenApply(ignored -> null);
        Throwable refusal = catchThrowable(asTheBrokerKeepsIt::join);
        assertThat(refusal).isInstanceOf(CompactionRefusedException.class);
        assertThat(refusal.getMessage()).startsWith("compaction of " + USER_TOPIC);
        assertThat(refusal.getStackTrace()).isEmpty();
    }

    @Test
    public void compactionOfASystemTopicDoesNothing() throws Exception {
        TopicCompactionService service = service(SYSTEM_TOPIC);
        assertThat(service.compact().get(10, TimeUnit.SECONDS)).isNull();
        assertThat(service.getLastCompactedPosition().get(10, TimeUnit.SECONDS)).isNull();
    }

    @Test
    public void everySkipOfASystemTopicIsReported() {
        List<String> skipped = new ArrayList<>();
        EmptyCompactedView view = new EmptyCompactedView(SYSTEM_TOPIC, topic -> true, skipped::add);
        view.compact().join();
        view.compact().join();
        assertThat(skipped).containsExactly(SYSTEM_TOPIC, SYSTEM_TOPIC);
    }

    @Test
    public void nothingIsCompacted() throws Exception {
        EmptyCompactedView service = (EmptyCompactedView) service(USER_TOPIC);     // the interface differs between releases
        assertThat(service.getLastCompactedPosition().get(10, TimeUnit.SECONDS)).isNull();
        assertThat(service.readCompactedEntries(PositionFactory.EARLIEST, 10).get(10, TimeUnit.SECONDS)).isEmpty();
        assertThat(service.readLastCompactedEntry().get(10, TimeUnit.SECONDS)).isNull();
        assertThat(service.findEntryByPublishTime(0).get(10, TimeUnit.SECONDS)).isNull();
        assertThat(service.findEntryByEntryIndex(0).get(10, TimeUnit.SECONDS)).isNull();
        service.close();
    }

    /** Pulsar 4.2 links this method by name and erased type; on 4.0 the class of its answer does not exist. */
    @Test
    public void theMethodOfLaterReleasesAnswersThereAndFailsLoudlyBefore() throws Exception {
        Method method = EmptyCompactedView.class.getMethod("getLastMessagePosition");
        assertThat(method.getReturnType()).isEqualTo(CompletableFuture.class);
        EmptyCompactedView view = new EmptyCompactedView(USER_TOPIC, topic -> false, topic -> { });
        boolean later = Arrays.stream(TopicCompactionService.class.getMethods()).anyMatch(each -> each.getName().equals(method.getName()));
        if (later) {
            assertThat(view.getLastMessagePosition().get(10, TimeUnit.SECONDS)).hasToString(MessagePositions.earliest().toString());
        } else {
            assertThatThrownBy(view::getLastMessagePosition).isInstanceOf(UnsupportedOperationException.class);
        }
    }

    private static TopicCompactionService service(String topic) throws Exception {
        PulsarService pulsar = mock(PulsarService.class, RETURNS_DEEP_STUBS);
        when(pulsar.getBrokerService().isSystemTopic(SYSTEM_TOPIC)).thenReturn(true);
        NereusCompactionServiceFactory factory = new NereusCompactionServiceFactory();
        factory.initialize(pulsar).get(10, TimeUnit.SECONDS);
        return factory.newTopicCompactionService(topic).get(10, TimeUnit.SECONDS);
    }
}
