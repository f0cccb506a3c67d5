package io.nereus.suite;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * Joins the recorded lines of many runs into {@code results.json}, a table and the closing line of the suite.
 *
 * <p>Arguments: the JSON file to write, then the recorded files. Exit status 0 only if nothing failed and something passed.
 */
public final class SuiteReport {
    private SuiteReport() {
    }

    /** Counts of one class on one storage. */
    private static final class Row {
        private int passed;
        private int failed;
        private int skipped;
        private double seconds;

        private void add(Outcome outcome) {
            seconds += outcome.seconds();
            switch (outcome.result()) {
                case "passed" -> passed++;
                case "failed" -> failed++;
                case "skipped" -> skipped++;
                default -> throw new IllegalArgumentException("unknown outcome " + outcome.result());
            }
        }
    }

    public static void main(String[] args) throws IOException {
        List<Outcome> outcomes = new ArrayList<>();
        for (int i = 1; i < args.length; i++) {
            Files.readAllLines(Path.of(args[i])).stream().filter(line -> !line.isBlank()).map(Outcome::parse)
                .forEach(outcomes::add);
        }
        Files.writeString(Path.of(args[0]), outcomes.stream().map(outcome -> "  " + outcome.toJson())
            .collect(Collectors.joining(",\n", "[\n", "\n]\n")));
        System.exit(print(outcomes, System.out) ? 0 : 1);
    }

    private static boolean print(List<Outcome> outcomes, PrintStream out) {
        Map<String, Row> rows = new TreeMap<>();
        Row total = new Row();
        for (Outcome outcome : outcomes) {
            rows.computeIfAbsent(String.format("%-80s %-7s", outcome.testClass(), outcome.storage()), key -> new Row())
                .add(outcome);
            total.add(outcome);
        }
        out.printf("%-80s %-7s %6s %6s %7s %8s%n", "class", "storage", "passed", "failed", "skipped", "seconds");
        rows.forEach((name, row) ->
            out.printf("%s %6d %6d %7d %8.0f%n", name, row.passed, row.failed, row.skipped, row.seconds));
        for (Outcome outcome : outcomes) {
            if (!outcome.result().equals("passed")) {
                out.printf("%s %s %s#%s: %s%n", outcome.result(), outcome.storage(), outcome.testClass(), outcome.method(),
                    outcome.message());
            }
        }
        out.printf("suite: %d passed, %d failed, %d skipped%n", total.passed, total.failed, total.skipped);
        return total.failed == 0 && total.passed > 0;
    }
}
