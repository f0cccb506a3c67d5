package io.nereus.suite;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The methods that are not asked of Nereus, with the reason of each: lines {@code CLASS#method REASON[: detail]}, {@code #} for
 * comments. {@code CLASS#method[n]} is one invocation, numbered as in the results ({@code [0]} without parameters): it runs and does not count.
 * Only the reasons of {@link #REASONS} are accepted, so that nothing is excluded for convenience.
 */
final class Exclusions {
    /** What a reason may begin with. */
    static final List<String> REASONS = List.of("casts to stock's classes", "asserts BookKeeper ledgers", "needs a service",
        "fails on stock", "flaky on stock", "waits for transactions", "waits for compaction", "waits for buckets");
    static final Exclusions NONE = new Exclusions(Map.of());

    private final Map<String, String> reasons;

    private Exclusions(Map<String, String> reasons) {
        this.reasons = reasons;
    }

    /** Reads a list; a line of another form is an error, so that a slip of the pen cannot exclude a whole class. */
    static Exclusions read(Path file) throws IOException {
        Map<String, String> reasons = new LinkedHashMap<>();
        for (String line : Files.readAllLines(file)) {
            String text = line.strip();
            if (text.isEmpty() || text.startsWith("#")) {
                continue;
            }
            String[] parts = text.split("\\s+", 2);
            if (parts.length != 2 || !parts[0].contains("#")) {
                throw new IllegalArgumentException(file + ": expected 'CLASS#method reason', found: " + text);
            }
            kind(parts[1]);
            if (reasons.put(parts[0], parts[1]) != null) {
                throw new IllegalArgumentException(file + ": named twice: " + parts[0]);
            }
        }
        return new Exclusions(reasons);
    }

    /** Which of {@link #REASONS} a reason is. */
    static String kind(String reason) {
        return REASONS.stream().filter(reason::startsWith).findFirst()
            .orElseThrow(() -> new IllegalArgumentException("no legal reason to exclude a test: '" + reason + "'; those are " + REASONS));
    }

    /** Why a method is not to run at all. */
    Optional<String> beforehand(String testClass, String method) {
        return Optional.ofNullable(reasons.get(testClass + "#" + method));
    }

    /**
     * Why what became of a method does not count.
     *
     * @param method its name, with or without the {@code [n]} of an invocation; the only invocation of one without parameters is
     *               {@code [0]}
     */
    Optional<String> reason(String testClass, String method) {
        String plain = Outcome.plainName(method);
        String invocation = method.equals(plain) ? plain + "[0]" : method;
        return Optional.ofNullable(reasons.getOrDefault(testClass + "#" + invocation, reasons.get(testClass + "#" + plain)));
    }
}
