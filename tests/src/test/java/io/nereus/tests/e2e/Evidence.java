package io.nereus.tests.e2e;

import static org.testng.Assert.fail;

import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/** Looks for an operator's evidence in a broker's log: one line that says what, where and what to do (L17). */
final class Evidence {

    private static final int LINES_SHOWN = 60;

    private Evidence() { }

    /** Fails unless one line of the log contains all the given texts, whatever their case. */
    static void assertLine(String log, String... texts) {
        List<String> lines = log.lines().toList();
        boolean found = lines.stream().map(line -> line.toLowerCase(Locale.ROOT))
                .anyMatch(line -> Stream.of(texts).allMatch(text -> line.contains(text.toLowerCase(Locale.ROOT))));
        if (!found) {
            fail("no line of the broker's log contains all of " + List.of(texts) + "; its end is:\n"
                    + String.join("\n", lines.subList(Math.max(0, lines.size() - LINES_SHOWN), lines.size())));
        }
    }
}
