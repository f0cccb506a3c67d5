package io.nereus.tests.e2e;

import static org.awaitility.Awaitility.await;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.testng.SkipException;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/** A data directory on a small file system of its own that fills up and is freed again. Needs the right to mount. */
public class FullDiskTest {

    private static final int DISK_MIB = 200;
    private static final int MESSAGE_BYTES = 1024 * 1024;

    private Path disk;
    private TestBroker broker;

    @BeforeClass
    public void mountSmallDisk() throws Exception {
        Path place = Files.createTempDirectory("nereus-disk-");
        if (run("mount", "-t", "tmpfs", "-o", "size=" + DISK_MIB + "m", "tmpfs", place.toString()) != 0) {
            Files.delete(place);
            throw new SkipException("this user may not mount a file system");
        }
        disk = place;
        broker = TestBroker.prepare();
    }

    @AfterClass(alwaysRun = true)
    public void unmount() throws Exception {
        try {
            if (broker != null) {
                broker.close();
            }
        } finally {
            if (disk != null) {
                assertEquals(run("umount", disk.toString()), 0, "umount " + disk);
                Files.delete(disk);
            }
        }
    }

    @Test
    public void fullDiskRefusesMessagesByNameWhileTheRestGoesOnAndRecoversWhenFreed() throws Exception {
        broker.process().start(Map.of("nereusDataDirectory", disk.resolve("nereus").toString(), "nereusJournalSegmentMB", "16"));
        String small = Topics.name("small");
        String large = Topics.name("large");
        long log = broker.process().logSize();
        try (Consumer<String> consumer = Topics.consumer(broker.client(), small, "s").subscribe()) {
            Topics.send(broker.client(), small, "m", 10);
            List<Message<String>> received = Topics.receive(consumer, 10);
            int stored = fill(large);
            assertTrue(stored > 10, "only " + stored + " messages fitted");
            Evidence.assertLine(broker.process().logSince(log), disk.toString(), "bytes free", "is kept by", "free space");

            // what makes no need of space, or little, goes on
            consumer.acknowledge(received.get(4));
            assertEquals(Topics.readAll(broker.client(), small, MessageId.earliest), Topics.expected("m", 0, 10));
            assertEquals(broker.process().get("/metrics/").statusCode(), 200);

            // freed by what the message says
            broker.admin().topics().delete(large, true);
            await("a message fits again").atMost(Duration.ofSeconds(60)).ignoreExceptions().until(() -> fits(small));
        }
        broker.process().kill();
        broker.process().start(Map.of("nereusDataDirectory", disk.resolve("nereus").toString(), "nereusJournalSegmentMB", "16"));
        List<String> kept = Topics.readAll(broker.client(), small, MessageId.earliest);
        assertTrue(kept.containsAll(Topics.expected("m", 0, 10)), kept.toString());
    }

    /** Sends large messages until one is not stored within its time; returns how many were. */
    private int fill(String topic) throws PulsarClientException {
        int stored = 0;
        byte[] content = new byte[MESSAGE_BYTES];
        try (Producer<byte[]> producer = broker.client().newProducer().topic(topic).enableBatching(false)
                .sendTimeout(3, TimeUnit.SECONDS).create()) {
            for (; stored < DISK_MIB; stored++) {
                producer.send(content);
            }
        } catch (PulsarClientException full) {
            return stored;
        }
        throw new AssertionError(DISK_MIB + " MiB were stored on a disk of " + DISK_MIB + " MiB");
    }

    private boolean fits(String topic) throws PulsarClientException {
        try (Producer<byte[]> producer = broker.client().newProducer().topic(topic).enableBatching(false)
                .sendTimeout(2, TimeUnit.SECONDS).create()) {
            producer.send("after".getBytes(StandardCharsets.UTF_8));
            return true;
        }
    }

    private static int run(String... command) throws IOException, InterruptedException {
        return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor();
    }
}
