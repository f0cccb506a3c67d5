package io.nereus.pulsar;

import io.nereus.pulsar.bridge.EngineState;
import io.nereus.pulsar.bridge.NativeEngine;
import io.prometheus.client.Collector;
import io.prometheus.client.CollectorRegistry;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.common.naming.TopicName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the engine says about itself, on the broker's page {@code /metrics}.
 *
 * <p>The page prints every collector of the simple client's default registry, with the cluster as a label. That is the
 * only way in for a storage: the broker's list of raw providers hangs on an object that a storage never sees. Promises:
 * asked on the thread of a scrape and only then; a scrape waits for the engine at most {@value #WAIT_SECONDS} seconds,
 * and goes without these lines then. Several engines in one JVM, as tests have them, are told apart by a label.
 */
final class EngineMetrics extends Collector implements Collector.Describable {

    private static final Logger log = LoggerFactory.getLogger(EngineMetrics.class);

    private static final long WAIT_SECONDS = 2;

    /** The one collector; its lock guards {@link #sources}. */
    private static final EngineMetrics SHARED = new EngineMetrics();

    /** An engine with the directory that names it. */
    private record Source(NativeEngine engine, String directory) {
    }

    private final List<Source> sources = new ArrayList<>();

    private EngineMetrics() {
    }

    /** Shows an engine until it is {@linkplain #hide(NativeEngine) hidden}. */
    static void show(NativeEngine engine, String directory) {
        synchronized (SHARED) {
            if (SHARED.sources.isEmpty()) {
                CollectorRegistry.defaultRegistry.register(SHARED);
            }
            SHARED.sources.add(new Source(engine, directory));
        }
    }

    /** Shows an engine no more; one that is not shown is ignored. */
    static void hide(NativeEngine engine) {
        synchronized (SHARED) {
            if (SHARED.sources.removeIf(source -> source.engine() == engine) && SHARED.sources.isEmpty()) {
                CollectorRegistry.defaultRegistry.unregister(SHARED);
            }
        }
    }

    /** Nothing is announced beforehand: the registry would ask the engine for it. */
    @Override
    public List<MetricFamilySamples> describe() {
        return List.of();
    }

    @Override
    public List<MetricFamilySamples> collect() {
        List<Source> now;
        synchronized (this) {
            now = List.copyOf(sources);
        }
        Page page = new Page();
        for (Source source : now) {
            EngineState state = state(source.engine(), source.directory());
            if (state != null) {
                page.add(state, now.size() > 1 ? source.directory() : null);
            }
        }
        return page.families();
    }

    /** How the engine is; null, with a line in the log, if it does not say so in time. */
    static EngineState state(NativeEngine engine, String directory) {
        try {
            return engine.state(ForkJoinPool.commonPool()).get(WAIT_SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            log.warn("The engine of {} does not say how it is: {}", directory, e.toString());
        }
        return null;
    }

    /** Pulsar's name of a topic, or the ledger's own where it is no topic's. */
    static String topic(String ledger) {
        try {
            return TopicName.get(TopicName.fromPersistenceNamingEncoding(ledger)).toString();
        } catch (RuntimeException e) {
            return ledger;
        }
    }

    /** Families in the making, each with the samples of all engines. */
    private static final class Page {

        private final List<MetricFamilySamples> families = new ArrayList<>();
        private String directory;

        void add(EngineState state, String directory) {
            this.directory = directory;
            for (EngineFigures.Figure figure : EngineFigures.ALL) {
                put(figure, figure.value().applyAsDouble(state));
            }
            // "ledger" is not a label: operators think in topics.
            boolean topic = state.oldest().holder() == EngineState.Holder.LEDGER;
            gauge("nereus_journal_oldest_segment_pinned", "1 with what keeps the oldest segment", 1,
                "by", state.oldest().holder().name().toLowerCase(Locale.ROOT),
                "topic", topic ? topic(state.oldest().ledger()) : "");
            for (EngineState.Account account : state.memory()) {
                gauge("nereus_memory_bytes", "Native memory in use", account.used(), "account", account.name());
                gauge("nereus_memory_limit_bytes", "Native memory allowed", account.limit(), "account", account.name());
            }
        }

        List<MetricFamilySamples> families() {
            return families;
        }

        private void gauge(String name, String help, double value, String... labels) {
            put(name, Type.GAUGE, name, help, value, labels);
        }

        private void put(EngineFigures.Figure figure, double value) {
            switch (figure.kind()) {
                case GAUGE -> gauge(figure.page(), figure.help(), value);
                case COUNTER ->
                    put(figure.page(), Type.COUNTER, figure.page() + "_total", figure.help(), value);
            }
        }

        private void put(String name, Type type, String sample, String help, double value, String... labels) {
            List<String> names = new ArrayList<>();
            List<String> values = new ArrayList<>();
            for (int i = 0; i < labels.length; i += 2) {
                names.add(labels[i]);
                values.add(labels[i + 1]);
            }
            if (directory != null) {
                names.add("directory");
                values.add(directory);
            }
            MetricFamilySamples.Sample one = new MetricFamilySamples.Sample(sample, names, values, value);
            for (MetricFamilySamples family : families) {
                if (family.name.equals(name)) {
                    family.samples.add(one);
                    return;
                }
            }
            families.add(new MetricFamilySamples(name, type, help, new ArrayList<>(List.of(one))));
        }
    }
}
