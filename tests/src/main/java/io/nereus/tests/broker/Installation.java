package io.nereus.tests.broker;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * What an operator has installed: a stock broker's class path and the Nereus jar in its {@code lib/}.
 *
 * @param brokerClassPath the stock broker's jars, joined with {@code :}
 * @param jar             the Nereus jar
 */
public record Installation(String brokerClassPath, Path jar) {

    /**
     * The installation that the build made: system properties {@code nereus.brokerClasspath} (a file that holds the
     * class path) and {@code nereus.jar}, or else their places below the working directory.
     *
     * @throws IOException if either is missing, saying how to build it
     */
    public static Installation built() throws IOException {
        Path classPathFile = Path.of(System.getProperty("nereus.brokerClasspath", "build/classpath/broker.txt"));
        if (!Files.isRegularFile(classPathFile)) {
            throw new IOException("no broker class path at " + classPathFile.toAbsolutePath() + "; run: gradle classpaths");
        }
        String named = System.getProperty("nereus.jar");
        Path jar = named != null ? Path.of(named) : onlyJarIn(Path.of("build/libs"));
        if (!Files.isRegularFile(jar)) {
            throw new IOException("no Nereus jar at " + jar.toAbsolutePath() + "; run: gradle jar");
        }
        return new Installation(Files.readString(classPathFile).strip(), jar.toAbsolutePath());
    }

    /** The same broker with another Nereus jar. */
    public Installation withJar(Path other) {
        return new Installation(brokerClassPath, other.toAbsolutePath());
    }

    String classPath() {
        return jar + ":" + brokerClassPath;
    }

    private static Path onlyJarIn(Path directory) throws IOException {
        List<Path> jars = new ArrayList<>();
        if (Files.isDirectory(directory)) {
            try (DirectoryStream<Path> found = Files.newDirectoryStream(directory, "nereus-pulsar-*.jar")) {
                found.forEach(jars::add);
            }
        }
        if (jars.size() != 1) {
            throw new IOException("expected one Nereus jar in " + directory.toAbsolutePath() + ", found " + jars
                    + "; run: gradle jar");
        }
        return jars.get(0);
    }
}
