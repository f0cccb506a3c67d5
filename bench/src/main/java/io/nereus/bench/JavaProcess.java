package io.nereus.bench;

import io.nereus.tests.broker.BrokerProcess;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A JVM of its own with a log file. Not for brokers: those are {@link BrokerProcess}. */
final class JavaProcess implements AutoCloseable {

    private static final String LOG4J2 = """
        <?xml version="1.0" encoding="UTF-8"?>
        <Configuration status="WARN">
          <Appenders>
            <Console name="Console" target="SYSTEM_ERR">
              <PatternLayout pattern="%d{ISO8601} [%t] %-5level %logger{36} - %msg%n%throwable"/>
            </Console>
          </Appenders>
          <Loggers><Root level="warn"><AppenderRef ref="Console"/></Root></Loggers>
        </Configuration>
        """;

    private final String name;
    private final Path log;
    private final Process process;

    private JavaProcess(String name, Path directory, String classPath, List<String> jvm, List<String> main,
                        ProcessBuilder.Redirect output) throws IOException {
        this.name = name;
        log = directory.resolve(name + ".log");
        Files.createDirectories(directory);
        Path logging = Files.writeString(directory.resolve(name + "-log4j2.xml"), LOG4J2);
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        BrokerProcess.OPENS.forEach(opened -> command.addAll(List.of("--add-opens", opened + "=ALL-UNNAMED")));
        command.addAll(List.of("--enable-native-access=ALL-UNNAMED", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData",
            "-Dio.netty.tryReflectionSetAccessible=true", "-Dpulsar.allocator.pooled=true",
            "-Dlog4j.configurationFile=" + logging, "-Djute.maxbuffer=10485760"));
        command.addAll(jvm);
        command.addAll(List.of("-cp", classPath));
        command.addAll(main);
        process = new ProcessBuilder(command).directory(directory.toFile())
            .redirectOutput(output)
            .redirectError(ProcessBuilder.Redirect.appendTo(log.toFile())).start();
        Children.add(process.toHandle());
    }

    /**
     * Starts a server.
     *
     * @param directory working directory; {@code <name>.log} in it takes all output
     * @param jvm       arguments of the JVM
     * @param main      main class and its arguments
     */
    static JavaProcess server(String name, Path directory, String classPath, List<String> jvm, List<String> main)
            throws IOException {
        Files.createDirectories(directory);
        return new JavaProcess(name, directory, classPath, jvm, main,
            ProcessBuilder.Redirect.appendTo(directory.resolve(name + ".log").toFile()));
    }

    /** The same with its standard output as a pipe that the caller reads. */
    static JavaProcess speaker(String name, Path directory, String classPath, List<String> jvm, List<String> main)
            throws IOException {
        return new JavaProcess(name, directory, classPath, jvm, main, ProcessBuilder.Redirect.PIPE);
    }

    Process process() {
        return process;
    }

    long pid() {
        return process.pid();
    }

    /** Waits until somebody answers on the port of the loopback address. */
    void awaitPort(int port, int seconds) throws IOException, InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (true) {
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress("127.0.0.1", port), 1000);
                return;
            } catch (IOException notYet) {
                if (!process.isAlive() || System.nanoTime() > deadline) {
                    throw failed("does not listen on port " + port + " within " + seconds + " s");
                }
            }
            process.waitFor(50, TimeUnit.MILLISECONDS);
        }
    }

    /** What went wrong, with the end of its log. */
    IOException failed(String what) throws IOException {
        List<String> lines = Files.exists(log) ? Files.readAllLines(log) : List.of();
        String state = process.isAlive() ? "" : " (it ended with " + process.exitValue() + ")";
        return new IOException(name + ": " + what + state + "; the end of " + log + ":\n"
            + String.join("\n", lines.subList(Math.max(0, lines.size() - 30), lines.size())));
    }

    /** SIGKILL; returns once it is gone. */
    void kill() {
        process.destroyForcibly().onExit().join();
    }

    /** SIGTERM, and SIGKILL when that does not end it within 30 s. */
    @Override
    public void close() {
        process.destroy();
        process.onExit().completeOnTimeout(null, 30, TimeUnit.SECONDS).join();
        if (process.isAlive()) {
            kill();
        }
    }
}
