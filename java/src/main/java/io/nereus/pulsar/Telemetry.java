package io.nereus.pulsar;

import io.nereus.pulsar.bridge.EngineState;
import io.nereus.pulsar.bridge.NativeEngine;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.BatchCallback;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.metrics.ObservableDoubleMeasurement;
import io.opentelemetry.api.metrics.ObservableMeasurement;
import java.util.ArrayList;
import java.util.List;

/**
 * The instruments {@code nereus.*} of one broker: how long its appends and reads took, and the figures of its engine.
 *
 * <p>Promises: the engine is asked when a reader collects and only then, once for all instruments; a collection goes
 * without its figures if it does not answer in time. Brokers that share an engine in one JVM each report it.
 */
final class Telemetry implements Durations, AutoCloseable {

    private static final String SCOPE = "io.nereus";
    private static final AttributeKey<String> ACCOUNT = AttributeKey.stringKey("nereus.memory.account");
    private static final double NANOS = 1e9;
    /** Upper bounds in seconds: a local append takes milliseconds, one behind a stalled disk seconds. */
    private static final List<Double> BOUNDS =
        List.of(0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0);

    private final DoubleHistogram appends;
    private final DoubleHistogram reads;
    private final List<ObservableDoubleMeasurement> figures = new ArrayList<>();
    private final ObservableDoubleMeasurement memoryUsed;
    private final ObservableDoubleMeasurement memoryLimit;
    private final BatchCallback callback;

    /**
     * @param directory names the engine in the log
     */
    Telemetry(OpenTelemetry openTelemetry, NativeEngine engine, String directory) {
        Meter meter = openTelemetry.getMeter(SCOPE);
        appends = seconds(meter, "nereus.append.duration", "From the broker's call until an entry is durable");
        reads = seconds(meter, "nereus.read.duration", "From a read's call of the engine until its answer");
        for (EngineFigures.Figure figure : EngineFigures.ALL) {
            figures.add(observer(meter, figure));
        }
        memoryUsed = gauge(meter, "nereus.memory.used", "By", "Native memory in use");
        memoryLimit = gauge(meter, "nereus.memory.limit", "By", "Native memory allowed");
        List<ObservableMeasurement> all = new ArrayList<>(figures);
        all.add(memoryLimit);
        callback = meter.batchCallback(() -> observe(EngineMetrics.state(engine, directory)), memoryUsed,
            all.toArray(ObservableMeasurement[]::new));
    }

    private static DoubleHistogram seconds(Meter meter, String name, String help) {
        return meter.histogramBuilder(name).setUnit("s").setDescription(help)
            .setExplicitBucketBoundariesAdvice(BOUNDS).build();
    }

    private static ObservableDoubleMeasurement observer(Meter meter, EngineFigures.Figure figure) {
        return switch (figure.kind()) {
            case GAUGE -> gauge(meter, figure.telemetry(), figure.unit(), figure.help());
            case COUNTER -> meter.counterBuilder(figure.telemetry()).ofDoubles().setUnit(figure.unit())
                .setDescription(figure.help()).buildObserver();
        };
    }

    private static ObservableDoubleMeasurement gauge(Meter meter, String name, String unit, String help) {
        return meter.gaugeBuilder(name).setUnit(unit).setDescription(help).buildObserver();
    }

    private void observe(EngineState state) {
        if (state == null) {
            return;
        }
        for (int i = 0; i < figures.size(); i++) {
            figures.get(i).record(EngineFigures.ALL.get(i).value().applyAsDouble(state));
        }
        for (EngineState.Account account : state.memory()) {
            Attributes name = Attributes.of(ACCOUNT, account.name());
            memoryUsed.record(account.used(), name);
            memoryLimit.record(account.limit(), name);
        }
    }

    @Override
    public void appended(long nanos) {
        appends.record(nanos / NANOS);
    }

    @Override
    public void read(long nanos) {
        reads.record(nanos / NANOS);
    }

    /** The engine is not asked any more. */
    @Override
    public void close() {
        callback.close();
    }
}
