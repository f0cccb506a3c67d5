package io.nereus.tests.e2e;

import static org.testng.Assert.assertEquals;

import io.nereus.tests.broker.Installation;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Enumeration;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
import org.apache.pulsar.client.api.MessageId;
import org.testng.annotations.AfterClass;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/**
 * Starts that must be refused: each ends the broker with a line that says what, where and what to do, and changes
 * nothing: when all is over, the broker with the right settings has everything it had.
 */
public class RefusedStartTest {

    private static final String TOPIC = Topics.name("kept");
    private static final String LIBRARY = "native/linux-x86_64/libnereus_jni.so";
    private static final String BUILD = "nereus-build.properties";

    private TestBroker broker;
    private Path scratch;
    private Path olderCopy;

    @BeforeClass
    public void writeSomethingInTwoStarts() throws Exception {
        scratch = Files.createTempDirectory("nereus-refused-");
        broker = TestBroker.prepare();
        broker.process().start();
        Topics.send(broker.client(), TOPIC, "m", 5);
        broker.process().stop();
        olderCopy = scratch.resolve("older");
        TestBroker.copy(broker.process().files().data(), olderCopy);
        broker.process().start();
        Topics.send(broker.client(), TOPIC, "n", 5);
    }

    @AfterClass(alwaysRun = true)
    public void cleanUp() throws Exception {
        if (broker != null) {
            broker.close();
        }
        TestBroker.remove(scratch);
    }

    @Test
    public void directoryHeldByAnotherProcess() throws Exception {
        if (!broker.process().isRunning()) {
            broker.process().start();
        }
        String data = broker.process().files().data().toString();
        try (TestBroker second = TestBroker.prepare()) {
            String log = second.process().startRefused(Map.of("nereusDataDirectory", data));
            Evidence.assertLine(log, data, "in use by process " + broker.process().pid());
        }
    }

    @Test
    public void directoryOfAnotherCluster() throws Exception {
        stop();
        String data = broker.process().files().data().toString();
        Path directory = Files.createTempDirectory("nereus-e2e-");
        try (TestBroker other = TestBroker.prepare(directory, "other", Files.createDirectory(directory.resolve("metadata")), Installation.built())) {
            String log = other.process().startRefused(Map.of("nereusDataDirectory", data));
            Evidence.assertLine(log, data, "belongs to cluster " + TestBroker.CLUSTER, "not to other");
        }
    }

    @Test
    public void secondBrokerOfTheClusterWithAnotherDirectory() throws Exception {
        String another = scratch.resolve("another").toString();
        Evidence.assertLine(refused(Map.of("nereusDataDirectory", another)), another, "cluster " + TestBroker.CLUSTER, "use that directory");
    }

    @Test
    public void olderCopyOfTheDirectory() throws Exception {
        stop();
        Path data = broker.process().files().data();
        Path newest = scratch.resolve("newest");
        Files.move(data, newest);
        try {
            TestBroker.copy(olderCopy, data);
            String log = broker.process().startRefused(Map.of());
            Evidence.assertLine(log, data.toString(), "older copy", "restore the newest copy");
        } finally {
            TestBroker.remove(data);
            Files.move(newest, data);
        }
    }

    @Test
    public void unwritableDirectory() throws Exception {
        stop();
        Path locked = Files.createDirectory(scratch.resolve("locked"));
        Files.setPosixFilePermissions(locked, PosixFilePermissions.fromString("r-xr-xr-x"));
        Path data = locked.resolve("nereus");
        try (TestBroker other = TestBroker.prepare()) {
            if (System.getProperty("user.name").equals("root")) {     // root writes anywhere unless it gives its privileges up
                other.process().withWrapper("setpriv", "--inh-caps=-all", "--bounding-set=-all");
            }
            String log = other.process().startRefused(Map.of("nereusDataDirectory", data.toString()));
            Evidence.assertLine(log, data.toString(), "permission denied");
        }
    }

    @Test
    public void missingLibrary() throws Exception {
        Path jar = changedJar("without-library.jar", LIBRARY, null);
        Evidence.assertLine(refusedWith(Installation.built().withJar(jar)), "no native library", jar.toString(), "complete Nereus jar");
    }

    @Test
    public void libraryOfAnotherBuild() throws Exception {
        Path jar = changedJar("other-build.jar", BUILD, "buildId=9.9.9+other\nversion=9.9.9\n");
        Evidence.assertLine(refusedWith(Installation.built().withJar(jar)), "9.9.9+other", "build");
    }

    @Test
    public void libraryThatIsNone() throws Exception {
        Path directory = Files.createDirectory(scratch.resolve("library"));
        Path library = Files.writeString(directory.resolve("libnereus_jni.so"), "this is not a library");
        try (TestBroker other = TestBroker.prepare()) {
            other.process().withJvmArguments("-Djava.library.path=" + directory);
            Evidence.assertLine(other.process().startRefused(Map.of()), library.toString(), "cannot be loaded", "remove the file");
        }
    }

    @Test
    public void unknownKey() throws Exception {
        Evidence.assertLine(refused(Map.of("nereusDataDirectroy", "data")), "nereusDataDirectroy=data", "allowed", "nereusDataDirectory");
    }

    @Test
    public void badValue() throws Exception {
        Evidence.assertLine(refused(Map.of("nereusMemoryLimitMB", "plenty")), "nereusMemoryLimitMB=plenty", "allowed");
    }

    @Test
    public void featureThatIsNotBuilt() throws Exception {
        Evidence.assertLine(refused(Map.of("transactionCoordinatorEnabled", "true")), "transactionCoordinatorEnabled=true", "transactions", "not support");
    }

    @Test(dependsOnMethods = {"directoryHeldByAnotherProcess", "directoryOfAnotherCluster", "secondBrokerOfTheClusterWithAnotherDirectory",
            "olderCopyOfTheDirectory", "unwritableDirectory", "missingLibrary", "libraryOfAnotherBuild", "libraryThatIsNone", "unknownKey",
            "badValue", "featureThatIsNotBuilt"}, alwaysRun = true)
    public void afterAllRefusalsEverythingIsThere() throws Exception {
        stop();
        broker.process().start();
        assertEquals(Topics.readAll(broker.client(), TOPIC, MessageId.earliest).size(), 10);
    }

    /** Stops the broker, whose metadata store only one process can have open. */
    private void stop() throws IOException, InterruptedException {
        if (broker.process().isRunning()) {
            broker.process().stop();
        }
    }

    private String refused(Map<String, String> settings) throws IOException, InterruptedException {
        stop();
        return broker.process().startRefused(settings);
    }

    private static String refusedWith(Installation installation) throws IOException, InterruptedException {
        Path directory = Files.createTempDirectory("nereus-e2e-");
        try (TestBroker other = TestBroker.prepare(directory, "other", Files.createDirectory(directory.resolve("metadata")), installation)) {
            return other.process().startRefused(Map.of());
        }
    }

    /** The built jar with one entry replaced, or left out if there is no content. */
    private Path changedJar(String name, String entry, String content) throws IOException {
        Path changed = scratch.resolve(name);
        try (ZipFile built = new ZipFile(Installation.built().jar().toFile());
             OutputStream file = Files.newOutputStream(changed); ZipOutputStream out = new ZipOutputStream(file)) {
            boolean found = false;
            for (Enumeration<? extends ZipEntry> entries = built.entries(); entries.hasMoreElements(); ) {
                ZipEntry next = entries.nextElement();
                boolean meant = next.getName().equals(entry);
                found |= meant;
                if (meant && content == null) {
                    continue;
                }
                out.putNextEntry(new ZipEntry(next.getName()));
                if (meant) {
                    out.write(content.getBytes(StandardCharsets.UTF_8));
                } else {
                    try (InputStream in = built.getInputStream(next)) {
                        in.transferTo(out);
                    }
                }
                out.closeEntry();
            }
            if (!found) {
                throw new IOException("the jar has no " + entry);
            }
        }
        return changed;
    }
}
