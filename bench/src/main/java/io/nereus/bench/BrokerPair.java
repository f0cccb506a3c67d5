package io.nereus.bench;

import io.nereus.tests.broker.BrokerProcess;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;

/** How both brokers are started: the same JVM, the same configuration, another storage class. */
final class BrokerPair {

    private static final String[] JVM = {"-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=1g", "-XX:TieredStopAtLevel=4",
        "-Djute.maxbuffer=10485760"};

    private BrokerPair() {
    }

    /** Gives the broker its JVM; once for each. */
    static BrokerProcess equip(BrokerProcess broker) {
        return broker.withJvmArguments(JVM);
    }

    /** Lines of broker.conf beyond those of every broker of this repository's tests. */
    static Map<String, String> lines(Cluster cluster, Side side, int sessionMillis) {
        Map<String, String> lines = new HashMap<>();
        lines.put("metadataStoreUrl", cluster.metadataUrl(side));
        lines.put("configurationMetadataStoreUrl", cluster.metadataUrl(side));
        lines.put("metadataStoreSessionTimeoutMillis", Integer.toString(sessionMillis));
        lines.put("managedLedgerStorageClassName", side.storageClass());
        lines.put("managedLedgerDefaultEnsembleSize", "1");
        lines.put("managedLedgerDefaultWriteQuorum", "1");
        lines.put("managedLedgerDefaultAckQuorum", "1");
        lines.put("loadBalancerEnabled", "false");                 // one broker each: nothing to move
        lines.put("brokerDeleteInactiveTopicsEnabled", "false");   // idle topics are what is measured
        return lines;
    }

    /** Starts a broker and waits until it is healthy. */
    static void start(Cluster cluster, Side side, int sessionMillis) throws IOException, InterruptedException {
        launch(cluster, side, sessionMillis);
        cluster.broker(side).awaitHealthy();
    }

    /** Starts a broker and does not wait. */
    static void launch(Cluster cluster, Side side, int sessionMillis) throws IOException {
        cluster.broker(side).launch(lines(cluster, side, sessionMillis));
        ProcessHandle.of(cluster.broker(side).pid()).ifPresent(Children::add);
    }

    /** Syncs of a side's journal since its process started, by its own metrics page. */
    static long syncs(Cluster cluster, Side side) throws IOException, InterruptedException {
        if (side == Side.STOCK) {
            return cluster.bookie().syncs();
        }
        try (Stream<String> page = cluster.broker(side).lines("/metrics/")) {
            return Metrics.sum(page, "nereus_journal_syncs_total");
        }
    }
}
