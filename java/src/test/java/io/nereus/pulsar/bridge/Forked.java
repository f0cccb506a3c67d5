package io.nereus.pulsar.bridge;

import static org.testng.Assert.assertTrue;

import java.io.File;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** A JVM of its own that runs one scenario of {@link ForkedMain}, or another main class. */
public final class Forked {

    private static final long PATIENCE_SECONDS = 120;

    private final List<String> options = new ArrayList<>();
    private final Map<String, String> environment = new HashMap<>();
    private String classPath = System.getProperty("java.class.path");

    /** How it ended. Not a record: Gradle 4 cannot scan test classes that are. */
    public static final class Result {
        private final int exit;
        private final String output;

        Result(int exit, String output) {
            this.exit = exit;
            this.output = output;
        }

        /** Its exit status. */
        public int exit() {
            return exit;
        }

        /** What it wrote to both of its streams. */
        public String output() {
            return output;
        }

        void assertSays(String... texts) {
            for (String text : texts) {
                assertTrue(output.contains(text), "expected \"" + text + "\" in:\n" + output);
            }
        }

        void assertSilentAbout(String... texts) {
            for (String text : texts) {
                assertTrue(!output.contains(text), "did not expect \"" + text + "\" in:\n" + output);
            }
        }
    }

    /** Adds an option of the JVM. */
    public Forked option(String option) {
        options.add(option);
        return this;
    }

    Forked environment(String name, String value) {
        environment.put(name, value);
        return this;
    }

    /** Puts {@code directory} first on the class path and takes the native library of the build away from it. */
    Forked withResources(Path directory) throws Exception {
        Path library = resourceRoot("/native/linux-x86_64/libnereus_jni.so");
        Path build = resourceRoot("/nereus-build.properties");
        classPath = directory + File.pathSeparator + Arrays.stream(classPath.split(File.pathSeparator))
                .filter(entry -> !Path.of(entry).toAbsolutePath().equals(library))
                .filter(entry -> !Path.of(entry).toAbsolutePath().equals(build))
                .collect(Collectors.joining(File.pathSeparator));
        return this;
    }

    Result run(String scenario, String... arguments) throws Exception {
        List<String> all = new ArrayList<>(List.of(scenario));
        all.addAll(List.of(arguments));
        return runMain(ForkedMain.class, all.toArray(String[]::new));
    }

    /** Runs {@code main}; fails if the JVM does not end by itself. */
    public Result runMain(Class<?> main, String... arguments) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("-Xmx512m");
        Path scratch = Files.createTempDirectory("nereus-forked-");
        command.add("-Djava.io.tmpdir=" + scratch);
        command.add("-XX:ErrorFile=" + Path.of(System.getProperty("java.io.tmpdir"), "hs_err_%p.log"));
        command.add("-Dio.netty.tryReflectionSetAccessible=true");
        command.add("--add-opens=java.base/java.nio=ALL-UNNAMED");
        command.add("--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED");
        command.addAll(options);
        command.addAll(List.of("-cp", classPath, main.getName()));
        command.addAll(List.of(arguments));
        Path output = Files.createTempFile("nereus-forked-", ".txt");
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile());
        builder.environment().putAll(environment);
        Process process = builder.start();
        boolean ended = process.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS);
        if (!ended) {
            process.destroyForcibly().waitFor();
        }
        String text = Files.readString(output, StandardCharsets.UTF_8);
        Files.delete(output);
        Engines.delete(scratch);
        assertTrue(ended, "the JVM did not end by itself; " + String.join(" ", command) + ", output:\n" + text);
        return new Result(process.exitValue(), text);
    }

    /** The class path entry, always a directory in our builds, that holds a resource. */
    static Path resourceRoot(String resource) throws Exception {
        URL url = Forked.class.getResource(resource);
        assertTrue(url != null && url.getProtocol().equals("file"), resource + " must be a file on the class path, is "
                + url);
        Path root = Path.of(new URI(url.toString()));
        for (int up = resource.split("/").length - 1; up > 0; up--) {
            root = root.getParent();
        }
        return root;
    }
}
