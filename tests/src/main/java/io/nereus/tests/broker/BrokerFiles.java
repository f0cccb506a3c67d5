package io.nereus.tests.broker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The directory an operator runs one broker in: {@code conf/broker.conf}, {@code conf/log4j2.xml}, {@code logs/broker.log}
 * and, because the broker's working directory is here, Nereus's own default {@code data/nereus}. Exactly one line of
 * broker.conf is about Nereus, unless a test adds {@code nereus*} settings.
 *
 * @param home        the directory, absolute
 * @param cluster     the cluster's name
 * @param metadata    directory of the cluster's metadata store (RocksDB), absolute
 * @param ports       where the broker listens
 */
public record BrokerFiles(Path home, String cluster, Path metadata, Ports ports) {

    /** The one key about Nereus. */
    static final String STORAGE_KEY = "managedLedgerStorageClassName";
    static final String STORAGE_CLASS = "io.nereus.pulsar.NereusManagedLedgerStorage";

    private static final String LOG4J2 = """
            <?xml version="1.0" encoding="UTF-8"?>
            <Configuration status="WARN" shutdownHook="disable">
              <Appenders>
                <Console name="Console">
                  <PatternLayout pattern="%d{ISO8601_OFFSET_DATE_TIME_HHMM} [%t] %-5level %logger{36} - %msg %X%n%throwable"/>
                </Console>
              </Appenders>
              <Loggers>
                <Root level="info"><AppenderRef ref="Console"/></Root>
              </Loggers>
            </Configuration>
            """;

    public Path configuration() {
        return home.resolve("conf/broker.conf");
    }

    public Path log() {
        return home.resolve("logs/broker.log");
    }

    /** Where Nereus keeps its data when it is not told otherwise. */
    public Path data() {
        return home.resolve("data/nereus");
    }

    String metadataUrl() {
        return "rocksdb://" + metadata;
    }

    Path loggingConfiguration() {
        return home.resolve("conf/log4j2.xml");
    }

    /**
     * Writes both configuration files, replacing earlier ones.
     *
     * @param extra lines to add or to replace, by key
     */
    void write(Map<String, String> extra) throws IOException {
        Map<String, String> lines = new LinkedHashMap<>();
        lines.put("clusterName", cluster);
        lines.put("metadataStoreUrl", metadataUrl());
        lines.put("bindAddress", "127.0.0.1");
        lines.put("advertisedAddress", "127.0.0.1");
        lines.put("brokerServicePort", Integer.toString(ports.binary()));
        lines.put("webServicePort", Integer.toString(ports.web()));
        lines.put("acknowledgmentAtBatchIndexLevelEnabled", "true");
        lines.put("brokerShutdownTimeoutMs", "8000");     // a stop waits a quarter of it, twice, for late requests
        lines.put(STORAGE_KEY, STORAGE_CLASS);
        lines.putAll(extra);
        List<String> text = new ArrayList<>();
        lines.forEach((key, value) -> text.add(key + "=" + value));
        for (String directory : List.of("conf", "logs")) {
            Files.createDirectories(home.resolve(directory));
        }
        Files.write(configuration(), text);
        Files.writeString(loggingConfiguration(), LOG4J2);
    }
}
