package io.nereus.suite;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.testng.IConfigurationListener;
import org.testng.IMethodInstance;
import org.testng.IMethodInterceptor;
import org.testng.ITestContext;
import org.testng.ITestListener;
import org.testng.ITestResult;
import org.testng.SkipException;

/**
 * Records every test method as it ends, one line each, so that a run that is cut off keeps what it had; leaves out excluded
 * methods and records them as skipped with their reason.
 *
 * <p>A test that never ran because its set-up failed counts as failed, not as skipped, and a failing set-up or clean-up method
 * is a failure of its own: neither may look like success.
 *
 * <p>System properties: {@code nereus.suite.results} the file to append to, {@code nereus.suite.storage} the storage's name,
 * {@code nereus.suite.methods} optionally the only methods to run, joined with commas, and
 * {@code nereus.suite.excluded} optionally the list of excluded methods ({@code CLASS#method reason} a line).
 */
public final class ResultRecorder implements ITestListener, IConfigurationListener, IMethodInterceptor {
    private final Path results = Path.of(System.getProperty("nereus.suite.results"));
    private final String storage = System.getProperty("nereus.suite.storage");
    private final Set<String> wanted = Arrays.stream(System.getProperty("nereus.suite.methods", "").split(","))
        .filter(name -> !name.isEmpty()).collect(Collectors.toUnmodifiableSet());
    private final Exclusions exclusions = exclusions(System.getProperty("nereus.suite.excluded"));
    private final Map<String, Integer> invocations = new HashMap<>();

    @Override
    public List<IMethodInstance> intercept(List<IMethodInstance> methods, ITestContext context) {
        List<IMethodInstance> kept = new ArrayList<>();
        for (IMethodInstance method : methods) {
            String testClass = method.getMethod().getRealClass().getName();
            String name = method.getMethod().getMethodName();
            if (!wanted.isEmpty() && !wanted.contains(name)) {
                continue;
            }
            exclusions.beforehand(testClass, name).ifPresentOrElse(
                reason -> write(new Outcome(testClass, name, storage, "skipped", 0, Outcome.EXCLUDED + reason)),
                () -> kept.add(method));
        }
        return kept;
    }

    @Override
    public void onTestSuccess(ITestResult result) {
        record(result, "passed", "");
    }

    @Override
    public void onTestFailure(ITestResult result) {
        record(result, "failed", describe(result.getThrowable()));
    }

    @Override
    public void onTestFailedWithTimeout(ITestResult result) {
        onTestFailure(result);
    }

    @Override
    public void onTestFailedButWithinSuccessPercentage(ITestResult result) {
        onTestFailure(result);
    }

    @Override
    public void onTestSkipped(ITestResult result) {
        Throwable cause = result.getThrowable();
        if (cause instanceof SkipException) {
            record(result, "skipped", describe(cause));
        } else {
            record(result, "failed", "did not run, its set-up failed: " + describe(cause));
        }
    }

    @Override
    public void onConfigurationFailure(ITestResult result) {
        record(result, "failed", "in set-up or clean-up: " + describe(result.getThrowable()));
    }

    private void record(ITestResult result, String outcome, String message) {
        String testClass = result.getMethod().getRealClass().getName();
        String name = result.getMethod().getMethodName();
        write(new Outcome(testClass, numbered(testClass, name, result.getParameters().length > 0), storage, outcome,
            (result.getEndMillis() - result.getStartMillis()) / 1000.0, message));
    }

    private synchronized String numbered(String testClass, String name, boolean hasParameters) {
        int invocation = invocations.merge(testClass + "#" + name, 1, Integer::sum) - 1;
        return hasParameters || invocation > 0 ? name + "[" + invocation + "]" : name;
    }

    private synchronized void write(Outcome outcome) {
        try {
            Files.writeString(results, outcome.toLine() + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String describe(Throwable cause) {
        return cause == null ? "no cause given" : cause.toString();
    }

    private static Exclusions exclusions(String file) {
        try {
            return file == null ? Exclusions.NONE : Exclusions.read(Path.of(file));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
