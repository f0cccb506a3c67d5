package io.nereus.tests.broker;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * What an operator has installed: a Java, a stock broker's class path and the Nereus jar in its {@code lib/}.
 *
 * @param java            the java command that runs the broker
 * @param brokerClassPath the stock broker's jars, joined with {@code :}
 * @param jar             the Nereus jar
 */
public record Installation(Path java, String brokerClassPath, Path jar) {

    /**
     * The installation that the build made: system properties {@code nereus.brokerClasspath} (a file that holds the
     * class path) and {@code nereus.jar}, or else their places below the working directory; {@code nereus.brokerJava},
     * or else the Java of this process.
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
        String java = System.getProperty("nereus.brokerJava");
        return new Installation(java != null ? Path.of(java) : Path.of(System.getProperty("java.home"), "bin", "java"),
                Files.readString(classPathFile).strip(), jar.toAbsolutePath());
    }

    /** The same broker with another Nereus jar. */
    public Installation withJar(Path other) {
        return new Installation(java, brokerClassPath, other.toAbsolutePath());
    }

    /** The class path of a broker, the Nereus jar in front. */
    public String classPath() {
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
