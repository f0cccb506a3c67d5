package io.nereus.suite;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;

/**
 * One JVM that ran one class: what it ran, and what came of it.
 *
 * @param pulsar   Pulsar's release
 * @param number   1, or the number of the repetition
 * @param jar      first digits of the SHA-256 of the jar of Nereus; empty on stock
 * @param commit   commit of the repository that ran it
 * @param started  time of the start, ISO 8601, UTC
 * @param outcomes in the order in which they were recorded
 */
record Run(String pulsar, int number, String jar, String commit, String started, List<Outcome> outcomes) {

    /** Reads the directory of a run: {@code about} (key=value lines) and {@code results.tsv}. */
    static Run read(Path directory) throws IOException {
        Properties about = new Properties();
        try (Reader reader = Files.newBufferedReader(directory.resolve("about"))) {
            about.load(reader);
        }
        List<Outcome> outcomes;
        try (var lines = Files.lines(directory.resolve("results.tsv"))) {
            outcomes = lines.filter(line -> !line.isBlank()).map(Outcome::parse).toList();
        }
        return new Run(about.getProperty("pulsar"), Integer.parseInt(about.getProperty("run")), about.getProperty("jar"),
            about.getProperty("commit"), about.getProperty("started"), outcomes);
    }

    /**
     * The same run as today's list of exclusions sees it: a failure that the list excuses is a skip that names the reason, and a
     * method that was left out because an earlier list excused it, and is excused no longer, is a failure: nobody has run it.
     */
    Run excusing(Exclusions exclusions) {
        return new Run(pulsar, number, jar, commit, started, outcomes.stream().map(outcome -> {
            boolean leftOut = outcome.result().equals("skipped") && outcome.message().startsWith(Outcome.EXCLUDED);
            if (!leftOut && !outcome.result().equals("failed")) {
                return outcome;
            }
            return exclusions.reason(outcome.testClass(), outcome.method()).map(outcome::skippedBecause)
                .orElse(leftOut ? outcome.failedBecause("no longer excluded, and not run since") : outcome);
        }).toList());
    }

    String toJson(Outcome outcome) {
        return "{" + outcome.toJsonFields() + ", \"pulsar\": " + Outcome.quote(pulsar) + ", \"run\": " + number + ", \"jar\": "
            + Outcome.quote(jar) + ", \"commit\": " + Outcome.quote(commit) + ", \"started\": " + Outcome.quote(started) + "}";
    }
}
