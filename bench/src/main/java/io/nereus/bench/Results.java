package io.nereus.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** Writes results.json, whose format is fixed so that figures can be compared over time, and the table for people. */
final class Results {

    private Results() {
    }

    /** An array with one object for each result; ratio is nereus : stock, no target is null. */
    static void writeJson(Path file, List<Scoreboard.Result> results) throws IOException {
        List<String> objects = new ArrayList<>();
        for (Scoreboard.Result result : results) {
            Metric metric = result.metric();
            objects.add(String.format(Locale.ROOT, "  {\"name\": \"%s\", \"unit\": \"%s\", \"higher_is_better\": %b, \"nereus\": %s, "
                + "\"stock\": %s, \"ratio\": %s, \"target_ratio\": %s, \"met\": %s}", metric.name(), metric.unit(),
                metric.better() == Metric.Better.HIGHER, number(result.nereus()), number(result.stock()), number(result.ratio()),
                metric.hasTarget() ? number(metric.target()) : "null", metric.hasTarget() ? result.met() : "null"));
        }
        Files.writeString(file, "[\n" + String.join(",\n", objects) + "\n]\n");
    }

    /** Not every double is a number in JSON. */
    private static String number(double value) {
        return Double.isFinite(value) ? String.format(Locale.ROOT, "%.4f", value) : "null";
    }

    static void print(List<Scoreboard.Result> results) {
        System.out.printf("%n%-36s %14s %14s  %-12s %8s %8s%n", "", "nereus", "stock", "unit", "ratio", "target");
        for (Scoreboard.Result result : results) {
            Metric metric = result.metric();
            System.out.printf(Locale.ROOT, "%-36s %,14.1f %,14.1f  %-12s %8.3f %8s  %s%n", metric.name(), result.nereus(),
                result.stock(), metric.unit(), result.ratio(), metric.hasTarget() ? String.format(Locale.ROOT, "%s%.2f",
                    metric.better() == Metric.Better.HIGHER ? ">=" : "<=", metric.target()) : "",
                !metric.hasTarget() ? "" : result.met() ? "met" : "MISSED");
        }
        System.out.println();
    }

    static String summary(List<Scoreboard.Result> results) {
        long wanted = results.stream().filter(result -> result.metric().hasTarget()).count();
        return "bench: " + results.stream().filter(Scoreboard.Result::met).count() + " of " + wanted + " targets met";
    }
}
