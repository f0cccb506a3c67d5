package io.nereus.bench;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** All figures of a run; of several rounds the median of each side counts. Says every figure as it comes. */
final class Scoreboard {

    /** One line of the result; {@code met} means nothing where the metric has no target. */
    record Result(Metric metric, double nereus, double stock) {
        double ratio() {
            return nereus / stock;
        }

        boolean met() {
            return metric.hasTarget() && metric.isMet(ratio());
        }
    }

    private final Map<Metric, Map<Side, List<Double>>> samples = new LinkedHashMap<>();
    private final List<String> lines = new ArrayList<>();
    private final long started = System.nanoTime();

    void put(Metric metric, Side side, double value) {
        samples.computeIfAbsent(metric, none -> new EnumMap<>(Side.class))
            .computeIfAbsent(side, none -> new ArrayList<>()).add(value);
        lines.add(metric.name() + '\t' + side.id() + '\t' + value);
    }

    /** A remark for people, with the minutes and seconds of the run: printed at once, and kept with the samples. */
    void say(String format, Object... values) {
        long seconds = (System.nanoTime() - started) / 1_000_000_000L;
        String text = String.format(Locale.ROOT, "%2d:%02d  ", seconds / 60, seconds % 60) + String.format(Locale.ROOT, format, values);
        System.err.println(text);
        lines.add("# " + text);
    }

    /** Every sample and remark in the order they came. */
    List<String> lines() {
        return lines;
    }

    /** What both sides have figures of. */
    List<Result> results() {
        List<Result> results = new ArrayList<>();
        samples.forEach((metric, sides) -> {
            if (sides.size() == Side.values().length) {
                results.add(new Result(metric, median(sides.get(Side.NEREUS)), median(sides.get(Side.STOCK))));
            }
        });
        return results;
    }

    private static double median(List<Double> values) {
        List<Double> sorted = values.stream().sorted().toList();
        int middle = sorted.size() / 2;
        return sorted.size() % 2 == 1 ? sorted.get(middle) : (sorted.get(middle - 1) + sorted.get(middle)) / 2;
    }
}
