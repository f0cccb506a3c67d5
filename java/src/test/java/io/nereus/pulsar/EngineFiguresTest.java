package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;

import io.nereus.pulsar.bridge.EngineState;
import java.util.List;
import org.testng.annotations.Test;

public class EngineFiguresTest {

    /** A state of which every number is another one, from {@code base} on. */
    private static EngineState state(long base, String poison) {
        return new EngineState(poison, base + 1, base + 2, base + 3, base + 4,
            new EngineState.Oldest(base + 5, EngineState.Holder.CHECKPOINT, ""),
            new EngineState.Checkpoints(base + 6, base + 7, base + 8, base + 9),
            new EngineState.Work(base + 10, base + 11, base + 12, base + 13, base + 14, base + 15, base + 16, base + 17),
            List.of(),
            new EngineState.Reads(base + 18, base + 19, base + 20, base + 21, base + 22, base + 23, base + 24, base + 25,
                base + 26),
            base + 27, base + 28);
    }

    @Test
    public void everyNumberOfTheStateIsOneFigure() {
        EngineState one = state(1_000, "");
        EngineState two = state(2_000, "disk");
        assertThat(EngineFigures.ALL).allSatisfy(figure ->
            assertThat(figure.value().applyAsDouble(two)).as(figure.page())
                .isGreaterThan(figure.value().applyAsDouble(one)));
        assertThat(EngineFigures.ALL.stream().map(figure -> figure.value().applyAsDouble(one)).distinct())
            .hasSize(EngineFigures.ALL.size());
        assertThat(EngineFigures.ALL).as("28 numbers, and whether there is a poison").hasSize(29);
    }

    @Test
    public void namesAreUniqueAndSayTheirUnit() {
        assertThat(EngineFigures.ALL).extracting(EngineFigures.Figure::page).doesNotHaveDuplicates();
        assertThat(EngineFigures.ALL).extracting(EngineFigures.Figure::telemetry).doesNotHaveDuplicates();
        assertThat(EngineFigures.ALL).allSatisfy(figure -> {
            assertThat(figure.page()).matches("nereus_[a-z_]+");
            assertThat(figure.telemetry()).matches("nereus(\\.[a-z_]+)+");
            assertThat(figure.page().endsWith("_bytes")).as(figure.page()).isEqualTo(figure.unit().equals("By"));
            assertThat(figure.page().endsWith("_seconds")).as(figure.page()).isEqualTo(figure.unit().equals("s"));
        });
    }
}
