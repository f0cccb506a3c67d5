package io.nereus.bench;

/**
 * What is compared, and how much better Nereus is to be.
 *
 * @param name   in results.json
 * @param label  in the plot
 * @param target ratio nereus : stock to reach; NaN where there is no target
 */
record Metric(String name, String label, String unit, Better better, double target) {

    /** Which direction is good. */
    enum Better { HIGHER, LOWER }

    private static final String CURVE = "ledger_append_topics_";

    static final Metric APPEND_64 = higher("ledger_append_64", "Managed ledger: append, 64 outstanding", "entries/s", 3);
    static final Metric APPEND_512 = higher("ledger_append_512", "Managed ledger: append, 512 outstanding", "entries/s", 3);
    static final Metric APPEND_MANY = higher("ledger_append_1000_ledgers", "Managed ledger: append, 1,000 ledgers × 1",
        "entries/s", 3);
    static final Metric APPEND_LATENCY = lower("ledger_append_1_p50", "Managed ledger: latency, 1 outstanding (p50)", "us",
        1.0 / 3);
    /** The "stock" of this one is the bare log. */
    static final Metric BARE = higher("ledger_append_64_beside_bare_log", "… 64 outstanding, beside a bare group-commit log",
        "entries/s", 0.6);
    static final Metric ACK_BYTES = lower("ledger_random_acks_bytes", "100,000 random ack holes: bytes written", "bytes", 0.2);
    static final Metric ACK_RELOAD = lower("ledger_random_acks_reload", "100,000 random ack holes: reload", "ms", 0.2);
    static final Metric OPEN = lower("ledger_open_topics", "Opening many topics", "s", 0.5);
    static final Metric IDLE_MEMORY = lower("ledger_idle_topic_memory", "Memory of an idle topic, heap and native", "bytes", 0.5);
    static final Metric PUBLISH_P50 = lower("broker_publish_p50", "Broker: publish at 2,000 msg/s (p50)", "us", 1.0 / 3);
    static final Metric PUBLISH_P99 = lower("broker_publish_p99", "Broker: publish at 2,000 msg/s (p99)", "us", 0.5);
    static final Metric TAIL_P50 = lower("broker_tail_p50", "Broker: tailing consumer, end to end (p50)", "us", 0.5);
    static final Metric RATE_1 = higher("broker_rate_1_topic", "Broker: highest rate, 1 topic", "msg/s", 1.5);
    static final Metric RATE_50 = higher("broker_rate_50_topics", "Broker: highest rate, 50 topics", "msg/s", 1.5);
    static final Metric CPU_1 = lower("broker_cpu_1_topic", "Broker: CPU, 1 topic", "s/10^6 msg", 0.5);
    static final Metric CPU_50 = lower("broker_cpu_50_topics", "Broker: CPU, 50 topics", "s/10^6 msg", 0.5);
    static final Metric BATCHED = higher("broker_batched_64k", "Broker: 64 KiB batches", "MB/s", 1);
    static final Metric CATCH_UP_COLD = higher("broker_catch_up_cold", "Broker: catch-up read, cold", "MB/s", 2);
    static final Metric CATCH_UP_WARM = higher("broker_catch_up_warm", "Broker: catch-up read, warm", "MB/s", 2);
    static final Metric RESTART = lower("broker_restart_after_kill", "Restart after kill -9, to the first publish", "s", 0.5);

    private static Metric higher(String name, String label, String unit, double target) {
        return new Metric(name, label, unit, Better.HIGHER, target);
    }

    private static Metric lower(String name, String label, String unit, double target) {
        return new Metric(name, label, unit, Better.LOWER, target);
    }

    /** A point of the curve; it has no target of its own. */
    static Metric curve(int topics) {
        return higher(CURVE + topics, "append over " + topics + " topics", "entries/s", Double.NaN);
    }

    /** Topics of a point of the curve, 0 for every other metric. */
    int curveTopics() {
        return name.startsWith(CURVE) ? Integer.parseInt(name.substring(CURVE.length())) : 0;
    }

    boolean hasTarget() {
        return !Double.isNaN(target);
    }

    boolean isMet(double ratio) {
        return better == Better.HIGHER ? ratio >= target : ratio <= target;
    }
}
