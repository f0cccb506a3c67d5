package io.nereus.suite;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** What scripts/pulsar-suite makes of the lines that its runs record. */
public class SuiteReportTest {
    private static final String READS = "org.example.ReadTest";
    private static final String WRITES = "org.example.WriteTest";

    private Path scratch;
    private Areas areas;

    @BeforeMethod
    public void scratch() throws IOException {
        scratch = Files.createTempDirectory("suite-report");
        areas = Areas.read(Files.writeString(scratch.resolve("core.txt"),
            "# about\n\n# area: reading\n" + READS + "\n# area: writing\n" + WRITES + "\norg.example.NeverRunTest\n"));
    }

    @AfterMethod(alwaysRun = true)
    public void clean() throws IOException {
        try (var files = Files.walk(scratch)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    @Test
    public void aFailureMakesTheRunFail() throws IOException {
        assertFalse(SuiteReport.print(List.of(run(1, READS, "a passed", "b failed")), areas, sink()));
        assertTrue(SuiteReport.print(List.of(run(1, READS, "a passed", "b skipped")), areas, sink()));
    }

    @Test
    public void aRunInWhichNothingPassedFails() throws IOException {
        assertFalse(SuiteReport.print(List.of(run(1, READS, "a skipped")), areas, sink()));
    }

    @Test
    public void everyInvocationOfAnExcludedMethodIsSkippedAndSaysWhy() throws IOException {
        Run seen = run(1, READS, "a[0] failed", "a[1] failed", "b passed")
            .excusing(exclusions(READS + "#a casts to stock's classes: to ManagedLedgerImpl"));
        assertEquals(seen.outcomes().stream().map(Outcome::result).toList(), List.of("skipped", "skipped", "passed"));
        assertEquals(seen.outcomes().get(0).message(), "excluded: casts to stock's classes: to ManagedLedgerImpl");
    }

    @Test
    public void oneInvocationIsExcludedByItsNumber() throws IOException {
        Run seen = run(1, READS, "a[0] failed", "a[1] failed", "a[11] failed")
            .excusing(exclusions(READS + "#a[1] casts to stock's classes"));
        assertEquals(seen.outcomes().stream().map(Outcome::result).toList(), List.of("failed", "skipped", "failed"));
    }

    /** It runs, because others come out differently without it. */
    @Test
    public void theOnlyInvocationOfAMethodIsExcludedAsTheFirst() throws IOException {
        Exclusions only = exclusions(READS + "#a[0] fails on stock");
        Run seen = run(1, READS, "a failed", "a[1] failed", "b failed").excusing(only);
        assertEquals(seen.outcomes().stream().map(Outcome::result).toList(), List.of("skipped", "failed", "failed"));
        assertTrue(only.beforehand(READS, "a").isEmpty());
        assertEquals(exclusions(READS + "#a fails on stock").beforehand(READS, "a").orElseThrow(), "fails on stock");
    }

    @Test
    public void aMethodThatIsNoLongerExcludedCountsAsFailedUntilItRuns() throws IOException {
        Run left = new Run("4.0.7", 1, "", "abc", "2026-01-02T03:04:05Z",
            List.of(new Outcome(READS, "a", "stock", "skipped", 0, "excluded: fails on stock")));
        assertEquals(left.excusing(exclusions(READS + "#b fails on stock")).outcomes().get(0).result(), "failed");
        assertEquals(left.excusing(exclusions(READS + "#a flaky on stock (2 of 5)")).outcomes().get(0).message(),
            "excluded: flaky on stock (2 of 5)");
    }

    @Test
    public void onlyLegalReasonsExclude() throws IOException {
        for (String line : List.of(READS + "#a not implemented", READS + " casts to stock's classes", READS + "#a",
                READS + "#a fails on stock\n" + READS + "#a fails on stock")) {
            expectThrows(IllegalArgumentException.class, () -> exclusions(line));
        }
    }

    @Test
    public void tableSumsClassesAreasAndRepetitions() throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        SuiteReport.print(List.of(run(1, READS, "a passed"), run(2, READS, "a failed"), run(1, WRITES, "c passed", "d passed")), areas,
            new PrintStream(out, true, StandardCharsets.UTF_8));
        String text = out.toString(StandardCharsets.UTF_8).replaceAll(" +", " ");
        assertTrue(text.contains("\n" + WRITES + " nereus 2 0 0 2\n"), text);
        assertTrue(text.contains("\nreading nereus 1 1 0 2\n"), text);
        assertTrue(text.contains("\npassed 1 of 2: nereus " + READS + "#a\n"), text);
        assertTrue(text.endsWith("3 of the runs are of jar 0123456789ab at abc\nsuite: 3 passed, 1 failed, 0 skipped\n"), text);
    }

    @Test
    public void aResultSaysOfWhichJarItIs() throws IOException {
        Run run = run(1, READS, "a passed");
        JsonNode json = new ObjectMapper().readTree(run.toJson(run.outcomes().get(0)));
        assertEquals(json.get("class").asText(), READS);
        assertEquals(json.get("outcome").asText(), "passed");
        assertEquals(json.get("jar").asText(), "0123456789ab");
        assertEquals(json.get("commit").asText(), "abc");
        assertEquals(json.get("pulsar").asText(), "4.0.7");
    }

    @Test
    public void documentCountsMethodsAndNamesWhatWasNotRun() throws IOException {
        List<Run> runs = List.of(run(1, READS, "a[0] passed", "a[1] failed", "b passed", "c failed")
            .excusing(exclusions(READS + "#c flaky on stock (3 of 5)")));
        String json = runs.stream().flatMap(run -> run.outcomes().stream().map(run::toJson)).collect(Collectors.joining(",", "[", "]"));
        String table = SuiteTable.render(areas, new ObjectMapper().readTree(json));
        assertTrue(table.contains("excluded: flaky on stock |"), table);
        assertTrue(table.contains("| reading | 3 | 0 | 1 | 1 | 1 | 0 | 0 of 1 | 1 of 1 |\n"), table);
        assertTrue(table.contains("- ReadTest#a on nereus: why\n"), table);
        assertTrue(table.contains("Not run on nereus: WriteTest, NeverRunTest.\n"), table);
        assertTrue(table.contains("Not run on stock: any class.\n"), table);
    }

    private Exclusions exclusions(String lines) throws IOException {
        return Exclusions.read(Files.writeString(scratch.resolve("excluded.txt"), "# why\n" + lines + "\n"));
    }

    /** A run read back from files as scripts/pulsar-suite leaves them; outcomes are {@code METHOD RESULT}. */
    private Run run(int number, String testClass, String... outcomes) throws IOException {
        Path directory = Files.createTempDirectory(scratch, "run");
        Files.writeString(directory.resolve("about"), "pulsar=4.0.7\nstorage=nereus\nrun=" + number
            + "\njar=0123456789ab\ncommit=abc\nstarted=2026-01-02T03:04:05Z\n");
        Files.writeString(directory.resolve("results.tsv"), Arrays.stream(outcomes).map(outcome -> outcome.split(" "))
            .map(part -> new Outcome(testClass, part[0], "nereus", part[1], 1, part[1].equals("passed") ? "" : "why").toLine() + "\n")
            .collect(Collectors.joining()));
        return Run.read(directory);
    }

    private static PrintStream sink() {
        return new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8);
    }
}
