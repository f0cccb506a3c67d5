package io.nereus.tests.demo;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A running {@link DemoClient}, seen from the process that leads it. Ends only the process it started. */
final class ClientProcess implements AutoCloseable {

    private static final String LOG4J2 = """
            <?xml version="1.0" encoding="UTF-8"?>
            <Configuration status="WARN">
              <Appenders>
                <Console name="Console" target="SYSTEM_ERR">
                  <PatternLayout pattern="%d{ISO8601} [%t] %-5level %logger{36} - %msg%n%throwable"/>
                </Console>
              </Appenders>
              <Loggers>
                <Root level="info"><AppenderRef ref="Console"/></Root>
              </Loggers>
            </Configuration>
            """;

    private final Process process;
    private final PrintStream commands;
    private final Path log;
    private final BlockingQueue<String> answers = new LinkedBlockingQueue<>();
    /** What the client's JVM said beside the answers, for example why it ended itself. */
    private final List<String> remarks = new CopyOnWriteArrayList<>();

    /** Starts the client with this process's class path; its log and its history go to files in the directory. */
    ClientProcess(String serviceUrl, String adminUrl, long seed, Path directory) throws IOException {
        log = directory.resolve("client.log");
        Path logging = Files.writeString(directory.resolve("client-log4j2.xml"), LOG4J2);
        process = new ProcessBuilder(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData",
                "-XX:TieredStopAtLevel=1", "--add-opens", "java.base/java.nio=ALL-UNNAMED", "--add-opens",
                "java.base/jdk.internal.misc=ALL-UNNAMED", "-Dio.netty.tryReflectionSetAccessible=true",
                "-Dlog4j.configurationFile=" + logging, "-cp", System.getProperty("java.class.path"),
                DemoClient.class.getName(), serviceUrl, adminUrl, history(directory).toString(), Long.toString(seed)))
                .redirectError(log.toFile()).start();
        commands = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
        Thread reader = new Thread(this::collectAnswers, "client-answers");
        reader.setDaemon(true);
        reader.start();
    }

    static Path history(Path directory) {
        return directory.resolve("client-history.log");
    }

    void tell(String command) {
        commands.println(command);
    }

    /**
     * Waits for the answer that begins with {@code wanted}.
     *
     * @throws IOException if the client ends or says something else or nothing in time, with the end of its log
     */
    String await(String wanted, int seconds) throws IOException, InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (true) {
            String answer = answers.poll(100, TimeUnit.MILLISECONDS);
            if (answer != null) {
                if (answer.startsWith(wanted)) {
                    return answer;
                }
                throw failed("the client said '" + answer + "' instead of '" + wanted + "'");
            }
            if (!process.isAlive() && answers.isEmpty()) {
                throw failed("the client ended with " + process.exitValue() + " before it said '" + wanted + "'");
            }
            if (System.nanoTime() > deadline) {
                throw failed("the client did not say '" + wanted + "' within " + seconds + " s");
            }
        }
    }

    /** What the client said on its standard output beside its answers. */
    List<String> remarks() {
        return remarks;
    }

    /** Waits for the client's own end. */
    void awaitEnd(int seconds) throws IOException, InterruptedException {
        if (!process.waitFor(seconds, TimeUnit.SECONDS) || process.exitValue() != 0) {
            throw failed(process.isAlive() ? "the client did not end" : "the client ended with " + process.exitValue());
        }
    }

    @Override
    public void close() {
        if (process.isAlive()) {
            process.destroyForcibly().onExit().join();
        }
    }

    private IOException failed(String what) throws IOException {
        List<String> lines = Files.readAllLines(log);
        remarks.forEach(remark -> lines.add("on its standard output: " + remark));
        return new IOException(what + ":\n" + String.join("\n", lines.subList(Math.max(0, lines.size() - 60), lines.size())));
    }

    private void collectAnswers() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line; (line = lines.readLine()) != null; ) {
                if (line.startsWith(DemoClient.ANSWER)) {
                    answers.add(line.substring(DemoClient.ANSWER.length()));
                } else {
                    remarks.add(line);
                }
            }
        } catch (IOException streamOfDeadProcess) {
            remarks.add("it broke off: " + streamOfDeadProcess.getMessage());
        }
    }
}
