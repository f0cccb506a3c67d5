package io.nereus.bench;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** Named numbers, as a line {@code name=value name=value}. Made by a worker, read by the process that leads. */
public final class Figures {

    private final Map<String, Double> values = new LinkedHashMap<>();

    /** Adds one. */
    public Figures with(String name, double value) {
        values.put(name, value);
        return this;
    }

    static Figures of(String line) {
        Figures figures = new Figures();
        for (String part : line.strip().split(" +")) {
            int equals = part.indexOf('=');
            if (equals > 0) {
                figures.with(part.substring(0, equals), Double.parseDouble(part.substring(equals + 1)));
            }
        }
        return figures;
    }

    /** The number of that name. */
    public double get(String name) {
        Double value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("no figure " + name + " in " + this);
        }
        return value;
    }

    @Override
    public String toString() {
        StringBuilder line = new StringBuilder();
        values.forEach((name, value) -> line.append(line.isEmpty() ? "" : " ")
            .append(name).append('=').append(String.format(Locale.ROOT, "%.3f", value)));
        return line.toString();
    }
}
