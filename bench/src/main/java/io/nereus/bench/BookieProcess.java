package io.nereus.bench;

import io.nereus.tests.broker.Ports;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * One BookKeeper bookie as Pulsar 4.0.7 ships its configuration: the journal is written, synced before an answer, and
 * grouped by the shipped settings. What differs from {@code conf/bookkeeper.conf} is said where it is set.
 */
final class BookieProcess {

    private static final List<String> MEMORY = List.of("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g");

    private final Site site;
    private final Path home;
    private final Ports ports;
    private final HttpClient http = HttpClient.newHttpClient();
    private JavaProcess process;

    /**
     * Starts it over an empty directory.
     *
     * @param sessionMillis how long its session with ZooKeeper outlives it; 10,000 is stock's
     */
    BookieProcess(Site site, String metadataUri, int sessionMillis) throws IOException, InterruptedException {
        this.site = site;
        ports = Ports.free();
        home = site.directory().resolve("bookie");
        Files.createDirectories(home);
        Map<String, String> lines = shipped();
        lines.put("bookiePort", Integer.toString(ports.binary()));
        lines.put("prometheusStatsHttpPort", Integer.toString(ports.web()));
        lines.put("prometheusStatsHttpAddress", "127.0.0.1");
        lines.put("metadataServiceUri", metadataUri);
        lines.put("zkTimeout", Integer.toString(sessionMillis));
        lines.put("advertisedAddress", "127.0.0.1");
        lines.put("allowLoopback", "true");
        lines.put("journalDirectories", home.resolve("journal").toString());
        lines.put("ledgerDirectories", home.resolve("ledgers").toString());
        lines.put("journalMaxBackups", "1");                 // shipped: 5, which would be 12 GB of old journals
        lines.put("autoRecoveryDaemonEnabled", "false");     // shipped: true; one bookie has nobody to recover from
        lines.put("diskUsageThreshold", "0.99");             // shipped: 0.95; a fuller disk must not make it read-only
        lines.put("diskUsageWarnThreshold", "0.98");
        lines.put("diskUsageLwmThreshold", "0.98");
        Files.write(home.resolve("bookkeeper.conf"),
            lines.entrySet().stream().map(line -> line.getKey() + "=" + line.getValue()).toList());
        launch();
        awaitReady();
    }

    private static Map<String, String> shipped() {
        Map<String, String> lines = new LinkedHashMap<>();
        lines.put("journalWriteData", "true");
        lines.put("journalSyncData", "true");
        lines.put("journalAdaptiveGroupWrites", "true");
        lines.put("journalMaxGroupWaitMSec", "1");
        lines.put("journalBufferedWritesThreshold", "524288");
        lines.put("journalFlushWhenQueueEmpty", "false");
        lines.put("journalFormatVersionToWrite", "5");
        lines.put("journalAlignmentSize", "4096");
        lines.put("journalMaxSizeMB", "2048");
        lines.put("journalPreAllocSizeMB", "16");
        lines.put("journalWriteBufferSizeKB", "64");
        lines.put("journalRemoveFromPageCache", "true");
        lines.put("numJournalCallbackThreads", "8");
        lines.put("ledgerStorageClass", "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage");
        lines.put("flushInterval", "60000");
        lines.put("flushEntrylogBytes", "33554432");
        lines.put("fileInfoFormatVersionToWrite", "0");
        lines.put("logSizeLimit", "1073741824");
        lines.put("readBufferSizeBytes", "4096");
        lines.put("writeBufferSizeBytes", "65536");
        lines.put("numAddWorkerThreads", "0");
        lines.put("numReadWorkerThreads", "8");
        lines.put("numHighPriorityWorkerThreads", "8");
        lines.put("maxPendingReadRequestsPerThread", "2500");
        lines.put("readWorkerThreadsThrottlingEnabled", "true");
        lines.put("gcWaitTime", "900000");
        lines.put("minorCompactionInterval", "3600");
        lines.put("majorCompactionInterval", "86400");
        lines.put("openFileLimit", "0");
        lines.put("pageLimit", "0");
        lines.put("nettyMaxFrameSizeBytes", "5253120");
        lines.put("statsProviderClass", "org.apache.bookkeeper.stats.prometheus.PrometheusMetricsProvider");
        return lines;
    }

    /** Starts it, again too, and does not wait. */
    void launch() throws IOException {
        process = JavaProcess.server("bookie", home, site.installation().brokerClassPath(), MEMORY,
            List.of("org.apache.bookkeeper.server.Main", "--conf", home.resolve("bookkeeper.conf").toString()));
    }

    /** Waits until it takes requests. */
    void awaitReady() throws IOException, InterruptedException {
        process.awaitPort(ports.binary(), 90);
    }

    long pid() {
        return process.pid();
    }

    boolean isRunning() {
        return process.process().isAlive();
    }

    /** SIGKILL. */
    void kill() {
        process.kill();
    }

    /** Syncs of its journal since it started, by its own metrics page. */
    long syncs() throws IOException, InterruptedException {
        String page = http.send(HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + ports.web() + "/metrics"))
            .timeout(Duration.ofSeconds(20)).build(), HttpResponse.BodyHandlers.ofString()).body();
        return Metrics.sum(page.lines(), "bookie_journal_JOURNAL_SYNC_count");
    }
}
