package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;

import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.data.HistogramPointData;
import io.opentelemetry.sdk.metrics.data.MetricData;
import io.opentelemetry.sdk.metrics.data.PointData;
import io.opentelemetry.sdk.testing.exporter.InMemoryMetricReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.storage.ManagedLedgerStorage;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** What a broker reports to OpenTelemetry through the handle that its storage was given. */
public class TelemetryTest {

    private static final int ENTRIES = 10;
    private static final int ENTRY_BYTES = 100;

    private Path directory;
    private MetadataStoreExtended store;
    private InMemoryMetricReader reader;
    private ManagedLedgerStorage storage;

    @BeforeMethod
    public void open() throws Exception {
        directory = Files.createTempDirectory("nereus-telemetry-test");
        store = MetadataStoreExtended.create("memory:" + UUID.randomUUID(), MetadataStoreConfig.builder().build());
        reader = InMemoryMetricReader.create();
        storage = open(OpenTelemetrySdk.builder()
            .setMeterProvider(SdkMeterProvider.builder().registerMetricReader(reader).build()).build());
    }

    private ManagedLedgerStorage open(OpenTelemetry openTelemetry) throws Exception {
        Properties properties = new Properties();
        properties.setProperty(NereusConfiguration.DATA_DIRECTORY, directory.toString());
        properties.setProperty(NereusConfiguration.SEGMENT, "16");
        ServiceConfiguration broker = new ServiceConfiguration();
        broker.setProperties(properties);
        broker.setClusterName("test");
        broker.setMaxMessagePublishBufferSizeInMB(64);
        broker.setManagedLedgerStorageClassName(NereusManagedLedgerStorage.class.getName());
        return ManagedLedgerStorage.create(broker, store, null, null, openTelemetry);
    }

    @AfterMethod(alwaysRun = true)
    public void close() throws Exception {
        storage.close();
        store.close();
    }

    private Map<String, MetricData> collect() {
        Map<String, MetricData> byName = new HashMap<>();
        for (MetricData metric : reader.collectAllMetrics()) {
            assertThat(byName.put(metric.getName(), metric)).as(metric.getName()).isNull();
        }
        return byName;
    }

    /** The one value of a metric, or that of the point whose attributes contain {@code attribute}. */
    private static double value(Map<String, MetricData> metrics, String name, String attribute) {
        MetricData metric = metrics.get(name);
        assertThat(metric).as(name).isNotNull();
        List<? extends PointData> points = metric.getData().getPoints().stream()
            .filter(point -> point.getAttributes().toString().contains(attribute)).toList();
        assertThat(points).as(name + " of " + attribute).hasSize(1);
        return switch (metric.getType()) {
            case LONG_SUM -> metric.getLongSumData().getPoints().stream().filter(points::contains).findAny()
                .orElseThrow().getValue();
            case DOUBLE_SUM -> metric.getDoubleSumData().getPoints().stream().filter(points::contains).findAny()
                .orElseThrow().getValue();
            case DOUBLE_GAUGE -> metric.getDoubleGaugeData().getPoints().stream().filter(points::contains).findAny()
                .orElseThrow().getValue();
            default -> throw new AssertionError(name + " is a " + metric.getType());
        };
    }

    private static HistogramPointData histogram(Map<String, MetricData> metrics, String name) {
        return metrics.get(name).getHistogramData().getPoints().iterator().next();
    }

    private ManagedLedgerFactory factory() {
        return storage.getDefaultStorageClass().getManagedLedgerFactory();
    }

    @Test
    public void figuresOfTheEngineMoveWithWhatItDoes() throws Exception {
        Map<String, MetricData> before = collect();
        assertThat(before).doesNotContainKey("nereus.append.duration");
        for (EngineFigures.Figure figure : EngineFigures.ALL) {
            assertThat(before).containsKey(figure.telemetry());
            assertThat(before.get(figure.telemetry()).getUnit()).isEqualTo(figure.unit());
            assertThat(before.get(figure.telemetry()).getDescription()).isEqualTo(figure.help());
        }
        ManagedLedger ledger = factory().open(LedgerFixture.freshName());
        for (int i = 0; i < ENTRIES; i++) {
            ledger.addEntry(new byte[ENTRY_BYTES]);
        }
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        cursor.readEntries(ENTRIES).forEach(Entry::release);
        ReadOnlyCursor cold =
            factory().openReadOnlyCursor(ledger.getName(), PositionFactory.EARLIEST, ledger.getConfig());
        cold.readEntries(ENTRIES).forEach(Entry::release);

        Map<String, MetricData> after = collect();
        assertThat(histogram(after, "nereus.append.duration").getCount()).isEqualTo(ENTRIES);
        assertThat(histogram(after, "nereus.append.duration").getSum()).isPositive();
        assertThat(after.get("nereus.append.duration").getUnit()).isEqualTo("s");
        assertThat(histogram(after, "nereus.read.duration").getCount()).isEqualTo(2);
        for (String moved : List.of("nereus.journal.frames", "nereus.journal.syncs", "nereus.journal.sync.duration",
                "nereus.journal.written", "nereus.journal.replay.size", "nereus.cache.tail_reads",
                "nereus.reads.device", "nereus.reads.size", "nereus.streams.open")) {
            assertThat(value(after, moved, "")).as(moved).isGreaterThan(value(before, moved, ""));
        }
        assertThat(value(after, "nereus.streams.open", "")).isEqualTo(2);
        assertThat(value(after, "nereus.cache.tail_reads", "")).isEqualTo(1);
        assertThat(value(after, "nereus.reads.device", "")).isEqualTo(1);
        assertThat(value(after, "nereus.reads.size", "")).isEqualTo(ENTRIES * ENTRY_BYTES);
        assertThat(value(after, "nereus.journal.poisoned", "")).isZero();
        assertThat(value(after, "nereus.memory.used", "tail cache")).isPositive();
        assertThat(value(after, "nereus.memory.limit", "tail cache"))
            .isEqualTo(value(before, "nereus.memory.limit", "tail cache")).isPositive();
        cold.close();
    }

    @Test
    public void pulsarsInstrumentsOfLedgersAndCursorsAreThereAndTrue() throws Exception {
        ManagedLedger ledger = factory().open(LedgerFixture.freshName());
        ManagedCursor cursor = ledger.openCursor("c", InitialPosition.Earliest);
        Position[] positions = new Position[ENTRIES];
        for (int i = 0; i < ENTRIES; i++) {
            positions[i] = ledger.addEntry(new byte[ENTRY_BYTES]);
        }
        cursor.readEntries(4).forEach(Entry::release);
        cursor.markDelete(positions[1]);
        cursor.delete(positions[3]);
        Map<String, MetricData> metrics = collect();
        String prefix = "pulsar.broker.managed_ledger.";
        String topic = ledger.getName();
        assertThat(value(metrics, prefix + "count", "")).isEqualTo(1);
        assertThat(value(metrics, prefix + "message.outgoing.count", "success")).isEqualTo(ENTRIES);
        assertThat(value(metrics, prefix + "message.outgoing.count", "failure")).isZero();
        assertThat(value(metrics, prefix + "message.outgoing.logical.size", topic)).isEqualTo(ENTRIES * ENTRY_BYTES);
        assertThat(value(metrics, prefix + "message.incoming.count", "success")).isEqualTo(4);
        assertThat(value(metrics, prefix + "message.incoming.size", topic)).isEqualTo(4 * ENTRY_BYTES);
        assertThat(value(metrics, prefix + "backlog.count", topic)).isEqualTo(ENTRIES - 3);
        assertThat(value(metrics, prefix + "mark_delete.count", topic)).isPositive();
        assertThat(value(metrics, prefix + "persist.operation.count", "success")).isPositive();
        assertThat(value(metrics, prefix + "message_range.count", topic)).isEqualTo(1);
        assertThat(value(metrics, prefix + "cursor.outgoing.size", topic)).isPositive();
    }

    @Test
    public void aClosedStorageReportsNothingMore() throws Exception {
        factory().open(LedgerFixture.freshName()).addEntry(new byte[1]);
        assertThat(collect()).containsKeys("nereus.streams.open", "pulsar.broker.managed_ledger.count");
        storage.close();
        assertThat(collect().keySet()).isSubsetOf("nereus.append.duration", "nereus.read.duration");
        storage = open(OpenTelemetry.noop());
    }
}
