package io.nereus.tests.broker;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * One broker of an operator: the same files and ports over any number of starts, deaths and restarts, each start a JVM
 * of its own that runs Pulsar's own starter.
 *
 * <p>Promises: {@link #start} returns once the broker's health check (which produces and consumes a message) answered;
 * whatever goes wrong is told with the end of the broker's log. Ends only the process it started. Not thread-safe.
 */
public final class BrokerProcess implements AutoCloseable {

    /** Packages that Pulsar's own start script opens; it also enables native access. */
    public static final List<String> OPENS = List.of("java.base/jdk.internal.loader", "java.base/java.lang",
            "java.base/java.io", "java.base/java.util", "java.base/java.util.zip", "java.base/sun.net",
            "java.base/jdk.internal.platform", "java.base/java.nio", "java.base/jdk.internal.misc",
            "java.management/sun.management", "jdk.management/com.sun.management.internal");

    private static final int LOG_LINES_SHOWN = 40;

    private final Installation installation;
    private final BrokerFiles files;
    private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(2))
            .followRedirects(HttpClient.Redirect.NORMAL).build();
    private final List<String> jvmArguments = new ArrayList<>();
    private final List<String> wrapper = new ArrayList<>();
    private Process process;

    public BrokerProcess(Installation installation, BrokerFiles files) {
        this.installation = installation;
        this.files = files;
    }

    /** Adds arguments of the JVM for the starts that follow. */
    public BrokerProcess withJvmArguments(String... arguments) {
        jvmArguments.addAll(List.of(arguments));
        return this;
    }

    /** Starts the JVM through another command (for example one that changes user or limits). */
    public BrokerProcess withWrapper(String... command) {
        wrapper.addAll(List.of(command));
        return this;
    }

    public BrokerFiles files() {
        return files;
    }

    public String serviceUrl() {
        return "pulsar://127.0.0.1:" + files.ports().binary();
    }

    public String adminUrl() {
        return "http://127.0.0.1:" + files.ports().web();
    }

    /**
     * Writes the cluster's first metadata, as an operator does once before the first broker.
     *
     * @throws IOException if the set-up fails, with its output
     */
    public void setUpCluster() throws IOException, InterruptedException {
        Files.createDirectories(files.metadata());
        setUpCluster(files.metadataUrl());
    }

    /** The same in another metadata store than the RocksDB one of {@link BrokerFiles}. */
    public void setUpCluster(String metadataUrl) throws IOException, InterruptedException {
        files.write(Map.of());
        List<String> command = java("-Xmx256m");
        command.addAll(List.of("org.apache.pulsar.PulsarClusterMetadataSetup", "--cluster", files.cluster(),
                "--metadata-store", metadataUrl, "--configuration-metadata-store", metadataUrl,
                "--web-service-url", adminUrl(), "--broker-service-url", serviceUrl()));
        Path output = files.home().resolve("logs/cluster-setup.log");
        Process setup = new ProcessBuilder(command).directory(files.home().toFile()).redirectErrorStream(true)
                .redirectOutput(output.toFile()).start();
        if (!setup.waitFor(60, TimeUnit.SECONDS)) {
            setup.destroyForcibly().waitFor();
            throw new IOException("the cluster's set-up did not end within 60 s:\n" + tail(output));
        }
        if (setup.exitValue() != 0) {
            throw new IOException("the cluster's set-up ended with " + setup.exitValue() + ":\n" + tail(output));
        }
    }

    /** Starts the broker with broker.conf as it is by default and waits until it is healthy. */
    public void start() throws IOException, InterruptedException {
        start(Map.of());
    }

    /**
     * Starts the broker and waits until it is healthy.
     *
     * @param extra lines of broker.conf beside or instead of the default ones
     * @throws IOException if it ends or is not healthy within 90 s, with the end of its log
     */
    public void start(Map<String, String> extra) throws IOException, InterruptedException {
        launch(extra);
        awaitHealthy();
    }

    /**
     * Waits until the broker that was launched is healthy.
     *
     * @throws IOException if it ends or is not healthy within 90 s, with the end of its log
     */
    public void awaitHealthy() throws IOException, InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(90);
        String last = "not asked yet";
        while (System.nanoTime() < deadline) {
            if (process.waitFor(200, TimeUnit.MILLISECONDS)) {
                throw new IOException("the broker ended with " + process.exitValue() + " instead of starting:\n" + tail(files.log()));
            }
            last = health();
            if (last.equals("ok")) {
                return;
            }
        }
        kill();
        throw new IOException("the broker was not healthy within 90 s (last answer: " + last + "):\n" + tail(files.log()));
    }

    /**
     * Starts the broker where it must refuse to start, and waits for its end.
     *
     * @return what it logged in this attempt
     * @throws IOException if it started or still runs after 60 s
     */
    public String startRefused(Map<String, String> extra) throws IOException, InterruptedException {
        long before = Files.exists(files.log()) ? Files.size(files.log()) : 0;
        launch(extra);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!process.waitFor(200, TimeUnit.MILLISECONDS)) {
            String health = health();
            if (health.equals("ok") || System.nanoTime() > deadline) {
                kill();
                throw new IOException("the broker had to refuse to start, but it runs (health: " + health + "):\n" + tail(files.log()));
            }
        }
        if (process.exitValue() == 0) {
            throw new IOException("the broker refused to start but ended with 0:\n" + tail(files.log()));
        }
        return logSince(before);
    }

    /** The broker's log from the given byte on. */
    public String logSince(long offset) throws IOException {
        byte[] all = Files.readAllBytes(files.log());
        int from = (int) Math.min(offset, all.length);
        return new String(all, from, all.length - from, StandardCharsets.UTF_8);
    }

    /** Length of the broker's log in bytes, for {@link #logSince}. */
    public long logSize() throws IOException {
        return Files.exists(files.log()) ? Files.size(files.log()) : 0;
    }

    public boolean isRunning() {
        return process != null && process.isAlive();
    }

    public long pid() {
        return process.pid();
    }

    /** {@code kill -9}; returns once the process is gone. */
    public void kill() {
        process.destroyForcibly().onExit().join();   // SIGKILL
    }

    /**
     * {@code kill}, as an operator stops a broker; returns once the process is gone.
     *
     * @throws IOException if it does not end within 60 s; it is killed then
     */
    public void stop() throws IOException, InterruptedException {
        process.destroy();   // SIGTERM
        if (!process.waitFor(60, TimeUnit.SECONDS)) {
            kill();
            throw new IOException("the broker did not stop within 60 s:\n" + tail(files.log()));
        }
    }

    /** Kills the broker if it still runs. */
    @Override
    public void close() {
        if (isRunning()) {
            kill();
        }
    }

    /** The answer of a GET on the broker's web port, whatever its status; redirects are followed. */
    public HttpResponse<String> get(String path) throws IOException, InterruptedException {
        return request("GET", path, Duration.ofSeconds(30), BodyHandlers.ofString());
    }

    /** The lines of a page on the broker's web port, as they come: with many topics it is longer than memory. To be closed. */
    public Stream<String> lines(String path) throws IOException, InterruptedException {
        HttpResponse<Stream<String>> answer = request("GET", path, Duration.ofMinutes(2), BodyHandlers.ofLines());
        if (answer.statusCode() != 200) {
            answer.body().close();
            throw new IOException("HTTP " + answer.statusCode() + " for " + path);
        }
        return answer.body();
    }

    /** The answer of a DELETE on the broker's web port, whatever its status; takes up to two minutes. */
    public HttpResponse<String> delete(String path) throws IOException, InterruptedException {
        return request("DELETE", path, Duration.ofMinutes(2), BodyHandlers.ofString());
    }

    private <T> HttpResponse<T> request(String method, String path, Duration timeout, BodyHandler<T> body)
            throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(adminUrl() + path)).timeout(timeout)
                .method(method, HttpRequest.BodyPublishers.noBody()).build();
        return http.send(request, body);
    }

    private String health() throws InterruptedException {
        try {
            HttpResponse<String> answer = request("GET", "/admin/v2/brokers/health", Duration.ofSeconds(20),
                    BodyHandlers.ofString());
            return answer.statusCode() == 200 ? answer.body().strip() : "HTTP " + answer.statusCode();
        } catch (IOException notYet) {
            return notYet.toString();
        }
    }

    /** Starts the broker and does not wait; {@link #awaitHealthy} does. Extra lines as for {@link #start(Map)}. */
    public void launch(Map<String, String> extra) throws IOException {
        if (isRunning()) {
            throw new IllegalStateException("this broker runs already, pid " + pid());
        }
        files.write(extra);
        List<String> command = new ArrayList<>(wrapper);
        command.addAll(java("-Xms256m", "-Xmx1g", "-XX:MaxDirectMemorySize=1g"));
        command.addAll(List.of("org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", files.configuration().toString()));
        Files.writeString(files.log(), "---- start\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        process = new ProcessBuilder(command).directory(files.home().toFile()).redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(files.log().toFile())).start();
    }

    private List<String> java(String... memory) {
        List<String> command = new ArrayList<>();
        command.add(installation.java().toString());
        command.addAll(List.of(memory));
        command.addAll(List.of("-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData"));
        command.add("--enable-native-access=ALL-UNNAMED");
        OPENS.forEach(name -> command.addAll(List.of("--add-opens", name + "=ALL-UNNAMED")));
        command.addAll(List.of("-Dio.netty.tryReflectionSetAccessible=true", "-Dpulsar.allocator.pooled=true",
                "-Dlog4j.configurationFile=" + files.loggingConfiguration()));
        command.addAll(jvmArguments);
        command.addAll(List.of("-cp", installation.classPath()));
        return command;
    }

    private static String tail(Path file) throws IOException {
        if (!Files.exists(file)) {
            return "(no " + file + ")";
        }
        List<String> lines = Files.readAllLines(file);
        return file + ":\n" + String.join("\n", lines.subList(Math.max(0, lines.size() - LOG_LINES_SHOWN), lines.size()));
    }
}
