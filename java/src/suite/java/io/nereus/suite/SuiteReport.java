package io.nereus.suite;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * Joins what many runs recorded into {@code results.json}, a table per class, one per area, and the closing line of the suite.
 *
 * <p>Arguments: the JSON file to write, the list of classes with its areas, the list of exclusions or {@code -}, then the directory
 * of each run. Exit status 0 only if nothing failed and something passed.
 */
public final class SuiteReport {
    private static final String HEADER = "%-80s %-7s %6s %6s %7s %8s%n";

    private SuiteReport() {
    }

    /** Counts of one class or one area on one storage. */
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

        @Override
        public String toString() {
            return String.format("%6d %6d %7d %8.0f", passed, failed, skipped, seconds);
        }
    }

    public static void main(String[] args) throws IOException {
        Areas areas = Areas.read(Path.of(args[1]));
        Exclusions exclusions = args[2].equals("-") ? Exclusions.NONE : Exclusions.read(Path.of(args[2]));
        List<Run> runs = new ArrayList<>();
        for (int i = 3; i < args.length; i++) {
            runs.add(Run.read(Path.of(args[i])).excusing(exclusions));
        }
        Files.writeString(Path.of(args[0]), runs.stream().flatMap(run -> run.outcomes().stream().map(run::toJson))
            .map(line -> "  " + line).collect(Collectors.joining(",\n", "[\n", "\n]\n")));
        System.exit(print(runs, areas, System.out) ? 0 : 1);
    }

    /** Whether something passed and nothing failed. */
    static boolean print(List<Run> runs, Areas areas, PrintStream out) {
        List<Outcome> outcomes = runs.stream().flatMap(run -> run.outcomes().stream()).toList();
        Map<String, Row> perClass = new TreeMap<>();
        Map<String, Row> perArea = new LinkedHashMap<>();
        Row total = new Row();
        for (String area : areas.names()) {
            List.of("nereus", "stock").forEach(storage -> perArea.put(line(area, storage), new Row()));
        }
        for (Outcome outcome : outcomes) {
            perClass.computeIfAbsent(line(outcome.testClass(), outcome.storage()), key -> new Row()).add(outcome);
            perArea.get(line(areas.of(outcome.testClass()), outcome.storage())).add(outcome);
            total.add(outcome);
        }
        perArea.values().removeIf(row -> row.passed + row.failed + row.skipped == 0);
        out.printf(HEADER, "class", "storage", "passed", "failed", "skipped", "seconds");
        perClass.forEach((name, row) -> out.println(name + row));
        out.println();
        out.printf(HEADER, "area", "storage", "passed", "failed", "skipped", "seconds");
        perArea.forEach((name, row) -> out.println(name + row));
        out.println();
        if (runs.stream().anyMatch(run -> run.number() > 1)) {
            printRepetitions(outcomes, out);
        }
        outcomes.stream().filter(outcome -> !outcome.result().equals("passed")).forEach(outcome ->
            out.printf("%s %s %s#%s: %s%n", outcome.result(), outcome.storage(), outcome.testClass(), outcome.method(),
                outcome.message()));
        runs.stream().filter(run -> !run.jar().isEmpty()).collect(Collectors.groupingBy(
            run -> run.jar() + " at " + run.commit(), TreeMap::new, Collectors.counting()))
            .forEach((jar, count) -> out.printf("%d of the runs are of jar %s%n", count, jar));
        out.printf("suite: %d passed, %d failed, %d skipped%n", total.passed, total.failed, total.skipped);
        return total.failed == 0 && total.passed > 0;
    }

    private static void printRepetitions(List<Outcome> outcomes, PrintStream out) {
        Map<String, Row> methods = new TreeMap<>();
        outcomes.forEach(outcome -> methods.computeIfAbsent(
            outcome.storage() + " " + outcome.testClass() + "#" + outcome.method(), key -> new Row()).add(outcome));
        methods.forEach((method, row) -> {
            if (row.failed > 0) {
                out.printf("passed %d of %d: %s%n", row.passed, row.passed + row.failed, method);
            }
        });
        out.printf("passed every time: %d methods%n%n", methods.values().stream().filter(row -> row.passed > 0 && row.failed == 0).count());
    }

    private static String line(String name, String storage) {
        return String.format("%-80s %-7s ", name, storage);
    }
}
