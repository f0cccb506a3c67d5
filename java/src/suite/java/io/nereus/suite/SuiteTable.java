package io.nereus.suite;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Writes the tables of {@code docs/pulsar-suite.md} out of {@code results.json}: per area what ran, what passed on which storage
 * and what is excluded for which reason; then every failure, and the classes that have no results.
 *
 * <p>Arguments: the document, in which everything between the two marks is replaced, the list of classes with its areas, and the
 * JSON file. Counted are methods, not their invocations: a method passes if every invocation of it passes.
 */
public final class SuiteTable {
    static final String BEGIN = "<!-- written by scripts/pulsar-suite --table -->";
    static final String END = "<!-- end of what is written by scripts/pulsar-suite --table -->";
    private static final String STOCK = "stock";
    private static final String NEREUS = "nereus";

    /** What became of all invocations of one method together: the last of these that any of them met. */
    private enum Verdict { PASSED, SKIPPED, EXCLUDED, FAILED }

    private final Areas areas;
    /** Per storage, {@code CLASS#method} and what became of it. */
    private final Map<String, Map<String, Verdict>> verdicts = Map.of(STOCK, new TreeMap<>(), NEREUS, new TreeMap<>());
    private final Map<String, String> excludedWhy = new TreeMap<>();
    private final Map<String, String> failures = new TreeMap<>();
    private final Map<String, Set<String>> sources = new TreeMap<>();

    private SuiteTable(Areas areas) {
        this.areas = areas;
    }

    public static void main(String[] args) throws IOException {
        Path document = Path.of(args[0]);
        String text = Files.readString(document);
        int begin = text.indexOf(BEGIN);
        int end = text.indexOf(END);
        if (begin < 0 || end < begin) {
            throw new IllegalArgumentException(document + " lacks the marks between which the tables go");
        }
        String tables = render(Areas.read(Path.of(args[1])), new ObjectMapper().readTree(Path.of(args[2]).toFile()));
        Files.writeString(document, text.substring(0, begin) + BEGIN + "\n\n" + tables + "\n" + text.substring(end));
    }

    /** The tables as Markdown. */
    static String render(Areas areas, JsonNode results) {
        SuiteTable table = new SuiteTable(areas);
        results.forEach(table::add);
        return table.render();
    }

    private void add(JsonNode result) {
        String storage = result.get("storage").asText();
        String method = result.get("class").asText() + "#" + Outcome.plainName(result.get("method").asText());
        String message = result.get("message").asText();
        Verdict verdict = switch (result.get("outcome").asText()) {
            case "passed" -> Verdict.PASSED;
            case "failed" -> Verdict.FAILED;
            default -> message.startsWith(Outcome.EXCLUDED) ? Verdict.EXCLUDED : Verdict.SKIPPED;
        };
        verdicts.get(storage).merge(method, verdict, (a, b) -> a.compareTo(b) < 0 ? b : a);
        if (verdict == Verdict.FAILED) {
            failures.putIfAbsent(method + " on " + storage, message);
        } else if (verdict == Verdict.EXCLUDED) {
            excludedWhy.put(method, Exclusions.kind(message.substring(Outcome.EXCLUDED.length())));
        }
        String jar = result.get("jar").asText();
        String source = "Pulsar " + result.get("pulsar").asText() + ", " + storage
            + (jar.isEmpty() ? "" : ", commit " + result.get("commit").asText() + " (jar " + jar + ")");
        sources.computeIfAbsent(source, key -> new TreeSet<>()).add(result.get("started").asText().substring(0, 10));
    }

    private String render() {
        StringBuilder out = new StringBuilder();
        List<String> kinds = Exclusions.REASONS.stream().filter(excludedWhy::containsValue).toList();
        out.append("| area | methods | passed on stock | passed on Nereus | failed on Nereus | ")
            .append(kinds.stream().map(kind -> "excluded: " + kind + " | ").collect(Collectors.joining()))
            .append("skipped by the test | classes run on stock | classes run on Nereus |\n|---|");
        out.append("---|".repeat(kinds.size() + 7)).append('\n');
        for (String area : areas.names()) {
            appendRow(out, area, method -> areas.of(classOf(method)).equals(area), areas.classes(area), kinds);
        }
        appendRow(out, "**all**", method -> true, areas.names().stream().flatMap(area -> areas.classes(area).stream()).toList(), kinds);
        out.append("\nOf these runs:\n\n");
        sources.forEach((source, dates) -> out.append("- ").append(source).append(", ").append(String.join(", ", dates)).append('\n'));
        if (!failures.isEmpty()) {
            out.append("\nFailed:\n\n");
            failures.forEach((method, message) ->
                out.append("- ").append(simpleName(method)).append(": ").append(shortened(message)).append('\n'));
        }
        for (String storage : List.of(NEREUS, STOCK)) {
            Set<String> run = classesRun(storage);
            String missing = areas.names().stream().flatMap(area -> areas.classes(area).stream())
                .filter(testClass -> !run.contains(testClass)).map(SuiteTable::simpleName).collect(Collectors.joining(", "));
            if (run.isEmpty()) {
                missing = "any class";
            }
            if (!missing.isEmpty()) {
                out.append("\nNot run on ").append(storage).append(": ").append(missing).append(".\n");
            }
        }
        return out.toString();
    }

    private void appendRow(StringBuilder out, String area, Predicate<String> belongs, List<String> classes,
            List<String> kinds) {
        Set<String> methods = verdicts.values().stream().flatMap(map -> map.keySet().stream()).filter(belongs)
            .filter(method -> !method.endsWith("#(class)")).collect(Collectors.toCollection(TreeSet::new));
        if (methods.isEmpty() && classes.isEmpty()) {
            return;
        }
        List<Long> counts = Stream.of(
            Stream.of((long) methods.size(), count(methods, STOCK, Verdict.PASSED), count(methods, NEREUS, Verdict.PASSED),
                count(methods, NEREUS, Verdict.FAILED)),
            kinds.stream().map(kind -> methods.stream().filter(method -> kind.equals(excludedWhy.get(method))
                && verdicts.get(NEREUS).getOrDefault(method, Verdict.EXCLUDED) == Verdict.EXCLUDED).count()),
            Stream.of(count(methods, NEREUS, Verdict.SKIPPED))).flatMap(counted -> counted).toList();
        out.append("| ").append(area).append(" | ");
        counts.forEach(count -> out.append(count).append(" | "));
        for (String storage : List.of(STOCK, NEREUS)) {
            Set<String> run = classesRun(storage);
            out.append(classes.stream().filter(run::contains).count()).append(" of ").append(classes.size()).append(" | ");
        }
        out.setLength(out.length() - 1);
        out.append('\n');
    }

    private long count(Set<String> methods, String storage, Verdict verdict) {
        return methods.stream().filter(method -> verdicts.get(storage).get(method) == verdict).count();
    }

    private Set<String> classesRun(String storage) {
        return verdicts.get(storage).keySet().stream().map(SuiteTable::classOf).collect(Collectors.toSet());
    }

    private static String classOf(String method) {
        return method.substring(0, method.indexOf('#'));
    }

    /** A class or {@code CLASS#method} without the package. */
    private static String simpleName(String name) {
        return name.replaceFirst("^([a-z0-9]+\\.)+", "");
    }

    private static String shortened(String message) {
        int limit = 200;
        return message.length() <= limit ? message : message.substring(0, limit) + "...";
    }
}
