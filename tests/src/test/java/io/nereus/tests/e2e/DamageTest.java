package io.nereus.tests.e2e;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.bookkeeper.mledger.proto.MLDataFormats.ManagedLedgerInfo;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.DataProvider;
import org.testng.annotations.Test;

/**
 * Files of a killed or stopped broker are damaged, then it starts again. Either it refuses, or the topics concerned do, with
 * a line that names the place; the rest goes on; and nothing is ever silently empty or shorter.
 */
public class DamageTest {

    private static final Map<String, String> SETTINGS = Map.of("nereusJournalSegmentMB", "16");
    private static final String HURT = Topics.name("hurt");
    private static final String SOUND = Topics.name("sound");
    private static final String STOCK = Topics.name("stock");
    private static final int MESSAGES = 40;
    private static final int BLOCK = 4096;

    private TestBroker broker;
    private Path killed;
    private Path stopped;

    @BeforeClass
    public void prepareDirectories() throws Exception {
        broker = TestBroker.prepare();
        addTopicOfStockStorage();
        broker.process().start(SETTINGS);
        for (String topic : List.of(SOUND, HURT, SOUND)) {
            Topics.send(broker.client(), topic, "message of " + topic + " ", MESSAGES);
        }
        broker.process().kill();
        killed = snapshot("killed");
        broker.process().start(SETTINGS);
        broker.process().stop();
        stopped = snapshot("stopped");
    }

    @AfterClass(alwaysRun = true)
    public void cleanUp() throws Exception {
        if (broker != null) {
            broker.close();
        }
    }

    @Test
    public void undamagedDirectoryOfKilledBrokerHasEverything() throws Exception {
        restore(killed);
        broker.process().start(SETTINGS);
        assertComplete(HURT, MESSAGES);
        assertComplete(SOUND, 2 * MESSAGES);
        end();
    }

    @Test
    public void l12_flippedByteOfAcknowledgedMessageRefusesItsTopicAndNoOther() throws Exception {
        restore(killed);
        Path segment = onlySegment();
        long place = find(segment, "message of " + HURT + " 7");
        flip(segment, place + 9);
        long log = broker.process().logSize();
        broker.process().start(SETTINGS);
        assertComplete(SOUND, 2 * MESSAGES);
        assertRefusedOrDamaged(HURT);
        Evidence.assertLine(broker.process().logSince(log), "damaged at", "segment " + sequence(segment), "restore");
        end();
    }

    @Test
    public void tornTailIsDroppedAndNothingAcknowledgedWithIt() throws Exception {
        restore(killed);
        Path segment = onlySegment();
        long end = lastBlockWithContent(segment);
        // the last frame is the marker that proves the one before; a write torn in the middle leaves garbage behind it
        try (FileChannel file = FileChannel.open(segment, StandardOpenOption.WRITE)) {
            file.write(ByteBuffer.wrap(new byte[BLOCK / 2]), end + BLOCK / 2);
            file.write(ByteBuffer.wrap("garbage of a torn write".getBytes(StandardCharsets.UTF_8)), end + BLOCK);
        }
        broker.process().start(SETTINGS);
        assertComplete(HURT, MESSAGES);
        assertComplete(SOUND, 2 * MESSAGES);
        end();
    }

    @Test
    public void segmentCutInTheMiddleIsNeverSilentlyShorter() throws Exception {
        restore(killed);
        Path segment = onlySegment();
        try (FileChannel file = FileChannel.open(segment, StandardOpenOption.WRITE)) {
            file.truncate(find(segment, "message of " + HURT + " 20") / BLOCK * BLOCK);
        }
        assertRefused(segment.getFileName().toString());
    }

    @Test
    public void missingSegmentIsNamed() throws Exception {
        restore(killed);
        Path segment = onlySegment();
        Files.delete(segment);
        assertRefused(segment.getFileName().toString());
    }

    @DataProvider
    public Object[][] metadataFiles() {
        return new Object[][] {{"MANIFEST-"}, {".sst"}, {"CURRENT"}};
    }

    @Test(dataProvider = "metadataFiles")
    public void damagedFileOfTheMetadataIsNamed(String kind) throws Exception {
        restore(stopped);
        Path metadata = data().resolve("metadata");
        Path file = newest(metadata, kind);
        if (kind.equals("CURRENT")) {
            Files.delete(file);
        } else {
            for (long place = 20; place < Files.size(file); place += 64) {
                flip(file, place);
            }
        }
        assertRefused(metadata.toString());
    }

    @Test
    public void lostIdentityOfTheDirectoryIsNotTakenForAnEmptyOne() throws Exception {
        restore(stopped);
        Files.delete(data().resolve("nereus.id"));
        assertRefused(data().toString(), "nereus.id");
    }

    @Test
    public void l13_topicOfStockStorageIsRefusedByName() throws Exception {
        restore(stopped);
        long log = broker.process().logSize();
        broker.process().start(SETTINGS);
        expectThrows(PulsarAdminException.class, () -> broker.admin().topics().getStats(STOCK));
        try (PulsarClient impatient = PulsarClient.builder().serviceUrl(broker.process().serviceUrl())
                .operationTimeout(3, TimeUnit.SECONDS).build()) {
            expectThrows(PulsarClientException.class, () -> Topics.send(impatient, STOCK, "m", 1));
        }
        Evidence.assertLine(broker.process().logSince(log), "public/default/persistent/stock", "bookkeeper");
        assertComplete(SOUND, 2 * MESSAGES);
        end();
    }

    // ---- what every test does

    /** The start ends with a line that contains the given texts. */
    private void assertRefused(String... texts) throws Exception {
        Evidence.assertLine(broker.process().startRefused(SETTINGS), texts);
    }

    private void assertComplete(String topic, int messages) throws Exception {
        assertEquals(Topics.readAll(broker.client(), topic, MessageId.earliest).size(), messages, topic);
    }

    /** Loading the topic fails, and keeps failing when it is tried again. */
    private void assertRefusedOrDamaged(String topic) {
        for (int attempt = 0; attempt < 2; attempt++) {
            expectThrows(PulsarAdminException.class, () -> broker.admin().topics().getInternalStats(topic));
        }
    }

    private void end() throws PulsarClientException {
        broker.forgetClients();
        broker.process().kill();
    }

    /** Metadata that only stock's own ledger understands, as a broker on BookKeeper leaves it. */
    private void addTopicOfStockStorage() throws Exception {
        MetadataStoreExtended store = MetadataStoreExtended.create("rocksdb://" + broker.process().files().metadata(),
                MetadataStoreConfig.builder().build());
        try {
            byte[] stock = ManagedLedgerInfo.newBuilder().addLedgerInfo(ManagedLedgerInfo.LedgerInfo.newBuilder().setLedgerId(3))
                    .build().toByteArray();
            store.put("/managed-ledgers/public/default/persistent/stock", stock, Optional.of(-1L)).get();
        } finally {
            store.close();
        }
    }

    // ---- directories and files

    private Path data() {
        return broker.process().files().data();
    }

    private Path snapshot(String name) throws IOException {
        Path snapshot = Files.createDirectory(broker.directory().resolve(name));
        TestBroker.copy(data(), snapshot.resolve("data"));
        TestBroker.copy(broker.process().files().metadata(), snapshot.resolve("metadata"));
        return snapshot;
    }

    private void restore(Path snapshot) throws IOException, PulsarClientException {
        if (broker.process().isRunning()) {      // a test before this one failed half-way
            end();
        }
        TestBroker.remove(data());
        TestBroker.copy(snapshot.resolve("data"), data());
        TestBroker.remove(broker.process().files().metadata());
        TestBroker.copy(snapshot.resolve("metadata"), broker.process().files().metadata());
    }

    /** The segment of the journal that holds all that was sent. */
    private Path onlySegment() throws IOException {
        for (Path segment : list(data().resolve("journal"))) {
            if (indexOf(Files.readAllBytes(segment), ("message of " + HURT).getBytes(StandardCharsets.UTF_8)) >= 0) {
                return segment;
            }
        }
        throw new AssertionError("no segment holds the messages of " + HURT + ": " + list(data().resolve("journal")));
    }

    /** How messages name a segment. */
    private static String sequence(Path segment) {
        return segment.getFileName().toString().replace(".seg", "");
    }

    private static Path newest(Path directory, String kind) throws IOException {
        List<Path> files = list(directory).stream().filter(f -> f.getFileName().toString().contains(kind)).toList();
        assertTrue(!files.isEmpty(), "no " + kind + " in " + directory);
        return files.get(files.size() - 1);
    }

    private static List<Path> list(Path directory) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.sorted(Comparator.comparing(Path::toString)).toList();
        }
    }

    private static long find(Path file, String text) throws IOException {
        int place = indexOf(Files.readAllBytes(file), text.getBytes(StandardCharsets.UTF_8));
        assertTrue(place >= 0, "'" + text + "' is not in " + file);
        return place;
    }

    private static int indexOf(byte[] bytes, byte[] wanted) {
        for (int at = 0; at <= bytes.length - wanted.length; at++) {
            int same = 0;
            while (same < wanted.length && bytes[at + same] == wanted[same]) {
                same++;
            }
            if (same == wanted.length) {
                return at;
            }
        }
        return -1;
    }

    private static void flip(Path file, long place) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            ByteBuffer one = ByteBuffer.allocate(1);
            channel.read(one, place);
            one.put(0, (byte) ~one.get(0));
            one.rewind();
            channel.write(one, place);
        }
    }

    private static long lastBlockWithContent(Path file) throws IOException {
        byte[] bytes = Files.readAllBytes(file);
        int at = bytes.length - 1;
        while (bytes[at] == 0) {
            at--;
        }
        return (long) at / BLOCK * BLOCK;
    }
}
