package io.nereus.bench;

import java.io.IOException;
import java.util.stream.Stream;

/** Reads Prometheus' text format. */
final class Metrics {

    private Metrics() {
    }

    /**
     * Sum over the lines of one metric, whatever their labels.
     *
     * @throws IOException if there is none: a figure that is missing is not a zero
     */
    static long sum(Stream<String> page, String name) throws IOException {
        double sum = 0;
        boolean found = false;
        for (String line : (Iterable<String>) page::iterator) {
            if (line.startsWith(name) && (line.charAt(name.length()) == '{' || line.charAt(name.length()) == ' ')) {
                // behind the labels; a time stamp may follow the value
                sum += Double.parseDouble(line.substring(Math.max(line.indexOf('}'), name.length()) + 1).strip().split(" ")[0]);
                found = true;
            }
        }
        if (!found) {
            throw new IOException("no metric " + name + " on the page");
        }
        return (long) sum;
    }
}
