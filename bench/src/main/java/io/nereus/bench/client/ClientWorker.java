package io.nereus.bench.client;

import io.nereus.bench.Figures;
import io.nereus.bench.WorkerMain;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.PulsarClient;

/** The worker of the broker level: one process for both sides, so that neither has the warmer client. */
public final class ClientWorker implements WorkerMain.Duty {

    private static final String NAMESPACE = "persistent://public/default/";

    private ClientWorker() {
    }

    /** Commands: see {@link #run}. */
    public static void main(String[] args) {
        WorkerMain.serve(new ClientWorker());
    }

    /**
     * Each URL TOPIC ...: receipt and arrival PER-SECOND WARM SECONDS; full TOPICS OUTSTANDING WARM SECONDS; batched OUTSTANDING
     * WARM SECONDS; fill, fill-batched and read MESSAGES; create TOPICS; first.
     */
    @Override
    public Figures run(String[] words) throws Exception {
        String topic = NAMESPACE + words[2];
        if (words[0].equals("first")) {
            return ManyTopics.first(words[1], topic);
        }
        // A client for each command: nothing of it talks to a broker that is stopped until its turn comes.
        try (PulsarClient client = PulsarClient.builder().serviceUrl(words[1]).ioThreads(1).listenerThreads(1)
                .operationTimeout(60, TimeUnit.SECONDS).build()) {
            switch (words[0]) {
                case "receipt":
                    return new PacedLoad().run(client, topic, PacedLoad.Measured.RECEIPT, integer(words[3]), number(words[4]),
                        number(words[5]));
                case "arrival":
                    return new PacedLoad().run(client, topic, PacedLoad.Measured.ARRIVAL, integer(words[3]), number(words[4]),
                        number(words[5]));
                case "full":
                    return full(client, topics(topic, integer(words[3])), FullLoad.Batching.NONE, words, 4);
                case "batched":
                    return full(client, List.of(topic), FullLoad.Batching.BATCHES_OF_64_KIB, words, 3);
                case "fill":
                    return CatchUp.fill(client, topic, Long.parseLong(words[3]));
                case "fill-batched":
                    return ManyTopics.fill(client, topic, Long.parseLong(words[3]));
                case "read":
                    return CatchUp.read(client, topic, Long.parseLong(words[3]));
                case "create":
                    return ManyTopics.create(client, topic, integer(words[3]));
                default:
                    throw new IllegalArgumentException("unknown command " + words[0]);
            }
        }
    }

    private static Figures full(PulsarClient client, List<String> topics, FullLoad.Batching batching, String[] words, int from)
            throws Exception {
        try (FullLoad load = new FullLoad(client, topics, batching, integer(words[from]))) {
            return load.run(number(words[from + 1]), number(words[from + 2]));
        }
    }

    private static List<String> topics(String prefix, int count) {
        List<String> topics = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            topics.add(prefix + "-" + i);
        }
        return topics;
    }

    private static int integer(String word) {
        return Integer.parseInt(word);
    }

    private static double number(String word) {
        return Double.parseDouble(word);
    }

    @Override
    public void close() {
        // every command closes what it opened
    }
}
