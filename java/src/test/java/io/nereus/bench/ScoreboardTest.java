package io.nereus.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.testng.annotations.Test;

/** From samples to results.json. */
public class ScoreboardTest {

    private static void put(Scoreboard board, Metric metric, double[] nereus, double[] stock) {
        for (double value : nereus) {
            board.put(metric, Side.NEREUS, value);
        }
        for (double value : stock) {
            board.put(metric, Side.STOCK, value);
        }
    }

    @Test
    public void theMedianOfEachSideCounts() {
        Scoreboard board = new Scoreboard();
        put(board, Metric.APPEND_64, new double[] {900, 300, 310}, new double[] {100, 1, 110});
        Scoreboard.Result result = board.results().get(0);
        assertThat(result.nereus()).isEqualTo(310);
        assertThat(result.stock()).isEqualTo(100);
        assertThat(result.met()).isTrue();
    }

    @Test
    public void aLatencyIsMetFromBelowAndARateFromAbove() {
        Scoreboard board = new Scoreboard();
        put(board, Metric.PUBLISH_P99, new double[] {51}, new double[] {100});
        put(board, Metric.RATE_1, new double[] {149}, new double[] {100});
        put(board, Metric.TAIL_P50, new double[] {50}, new double[] {100});
        put(board, Metric.CATCH_UP_COLD, new double[] {200}, new double[] {100});
        assertThat(board.results()).extracting(Scoreboard.Result::met).containsExactly(false, false, true, true);
        assertThat(Results.summary(board.results())).isEqualTo("bench: 2 of 4 targets met");
    }

    @Test
    public void aFigureOfOneSideOnlyIsNoResult() {
        Scoreboard board = new Scoreboard();
        board.put(Metric.OPEN, Side.NEREUS, 1);
        assertThat(board.results()).isEmpty();
    }

    @Test
    public void resultsAreWrittenInTheFixedFormat() throws IOException {
        Scoreboard board = new Scoreboard();
        put(board, Metric.OPEN, new double[] {1}, new double[] {4});
        put(board, Metric.curve(100), new double[] {3000}, new double[] {1000});
        Path file = Files.createTempFile("results", ".json");
        Results.writeJson(file, board.results());
        JsonNode json = new ObjectMapper().readTree(file.toFile());
        Files.delete(file);
        assertThat(json.size()).isEqualTo(2);
        assertThat(json.get(0).properties()).extracting(Map.Entry::getKey).containsExactly("name", "unit", "higher_is_better",
            "nereus", "stock", "ratio", "target_ratio", "met");
        assertThat(json.get(0).get("ratio").asDouble()).isEqualTo(0.25);
        assertThat(json.get(0).get("met").asBoolean()).isTrue();
        assertThat(json.get(1).get("met").isNull()).as("a point of the curve has no target").isTrue();
        assertThat(Results.summary(board.results())).isEqualTo("bench: 1 of 1 targets met");
    }

    @Test
    public void aMetricIsSummedOverItsLabelsAndNotOverItsNamesakes() throws IOException {
        String page = """
            # TYPE a_count counter
            a_count{success="true"} 5.0 1700000000
            a_count{success="false"} 2
            a_count_more{success="true"} 100
            a_count 1.0
            """;
        assertThat(Metrics.sum(page.lines(), "a_count")).isEqualTo(8);
        assertThatThrownBy(() -> Metrics.sum(page.lines(), "b_count")).isInstanceOf(IOException.class).hasMessageContaining("b_count");
    }
}
