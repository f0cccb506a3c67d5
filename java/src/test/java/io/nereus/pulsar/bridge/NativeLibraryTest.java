package io.nereus.pulsar.bridge;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.Test;

/** Loading: the right library, once, or an error that says what was found and what to do. */
public class NativeLibraryTest {

    private static final String FILE = "libnereus_jni.so";
    private static final String ABI_SYMBOL = "Java_io_nereus_pulsar_bridge_NativeCalls_abiVersion";

    private final List<Path> temporaries = new ArrayList<>();

    @AfterMethod(alwaysRun = true)
    public void removeTemporaries() throws IOException {
        for (Path directory : temporaries) {
            Engines.delete(directory);
        }
        temporaries.clear();
    }

    @Test
    public void bothSidesHaveTheSameErrorTable() throws Exception {
        NativeLibrary.load(null);
        assertEquals(Messages.errorTable(NativeCalls.errorTable()), NativeErrors.table());
    }

    @Test
    public void theLibraryOfTheJarIsLoadedAndNothingOfItStaysOnDisk() throws Exception {
        Path base = temporary();
        Forked.Result result = new Forked().run("load", base.toString());
        result.assertSays("loaded 0.");
        assertEquals(list(base), List.of());
        Path byProperty = temporary().resolve("made/by/the/loader");
        new Forked().option("-D" + NativeLibrary.DIRECTORY_PROPERTY + "=" + byProperty).run("load")
                .assertSays("loaded 0.");
        assertEquals(list(byProperty), List.of());
    }

    @Test
    public void aLibraryOnTheLibraryPathGoesFirst() throws Exception {
        Path path = temporary();
        Files.copy(library(), path.resolve(FILE));
        Path resources = temporary();
        Files.copy(buildProperties(), resources.resolve("nereus-build.properties"));
        new Forked().withResources(resources).option("-Djava.library.path=" + path).run("load").assertSays("loaded 0.");
    }

    @Test
    public void aMissingLibrary() throws Exception {
        Path resources = temporary();
        Files.copy(buildProperties(), resources.resolve("nereus-build.properties"));
        new Forked().withResources(resources).run("load")
                .assertSays("refused INVALID", "there is no native library", FILE, "Use the complete Nereus jar");
    }

    @Test
    public void aFileThatIsNoLibraryIsNamedAndNotPassedOver() throws Exception {
        Path path = temporary();
        Files.writeString(path.resolve(FILE), "a text file, far from being a library");
        new Forked().option("-Djava.library.path=" + path).run("load")
                .assertSays("refused INVALID", path.resolve(FILE).toString(), "cannot be loaded");
        Files.write(path.resolve(FILE), new byte[0]);
        new Forked().option("-Djava.library.path=" + path).run("load")
                .assertSays("refused INVALID", path.resolve(FILE).toString(), "cannot be loaded");
    }

    @Test
    public void aLibraryOfSomebodyElse() throws Exception {
        Path path = temporary();
        compile("int something_else(void) { return 1; }", path.resolve(FILE));
        new Forked().option("-Djava.library.path=" + path).run("load")
                .assertSays("refused INVALID", path.resolve(FILE).toString(), "is not the native library of Nereus");
    }

    @Test
    public void aLibraryOfAnotherBorderVersionNamesBoth() throws Exception {
        Path path = temporary();
        compile("int " + ABI_SYMBOL + "(void *env, void *type) { return 99; }", path.resolve(FILE));
        new Forked().option("-Djava.library.path=" + path).run("load")
                .assertSays("refused INVALID", "border version 99", "speak " + NativeLibrary.ABI_VERSION);
    }

    @Test
    public void aLibraryOfAnotherBuildNamesBoth() throws Exception {
        Path resources = temporary();
        Files.writeString(resources.resolve("nereus-build.properties"), "buildId=0.0.0+feedface\n");
        Path path = temporary();
        Files.copy(library(), path.resolve(FILE));
        String actual = Files.readAllLines(buildProperties()).stream().filter(line -> line.startsWith("buildId="))
                .findFirst().orElseThrow().substring("buildId=".length());
        new Forked().withResources(resources).option("-Djava.library.path=" + path).run("load")
                .assertSays("refused INVALID", "is build " + actual, "belong to build 0.0.0+feedface");
    }

    @Test
    public void classesThatDoNotKnowTheirBuildAreRefused() throws Exception {
        new Forked().withResources(temporary()).run("load")
                .assertSays("refused INVALID", "nereus-build.properties", "Use the complete Nereus jar");
    }

    @Test
    public void aSecondCopyInTheSameJvmIsRefusedNamingTheFirst() throws Exception {
        Forked.Result result = new Forked().run("second-loader");
        result.assertSays("loaded 0.", "second copy: the native library of Nereus is already loaded in this JVM by",
                "AppClassLoader", "URLClassLoader");
        result.assertSilentAbout("second copy loaded");
    }

    @Test
    public void aDirectoryThatCannotBeWrittenIsNamed() throws Exception {
        Path file = Files.createFile(temporary().resolve("a-file"));
        new Forked().run("load", file.resolve("below").toString())
                .assertSays("refused IO", file.toString(), "Set nereusNativeDirectory");
    }

    @Test
    public void aDirectoryWithoutExecutePermissionIsExplained() {
        String text = NativeLibrary.explain("/x/libnereus_jni.so: failed to map segment from shared object",
                Path.of("/data/x"));
        assertTrue(text.contains("noexec") && text.contains("/data/x") && text.contains("nereusNativeDirectory"), text);
        assertTrue(NativeLibrary.explain("version `GLIBC_2.99' not found", Path.of("/x")).contains("newer C"));
    }

    @Test
    public void muslAndOtherPlatformsAreRefusedByName() throws Exception {
        Path maps = temporary().resolve("maps");
        Files.writeString(maps, "7f0000000000-7f0000001000 r-xp 00000000 08:01 1 /lib/ld-musl-x86_64.so.1\n");
        NativeException musl = expectThrows(NativeException.class, () -> NativeLibrary.requireGlibc(maps));
        assertEquals(musl.code(), NativeErrors.UNSUPPORTED);
        assertTrue(musl.getMessage().contains("musl") && musl.getMessage().contains("glibc"), musl.getMessage());
        Files.writeString(maps, "7f0000000000-7f0000001000 r-xp 00000000 08:01 1 /lib/x86_64-linux-gnu/libc.so.6\n");
        NativeLibrary.requireGlibc(maps);
        NativeLibrary.requirePlatform("Linux", "amd64");
        NativeException mac = expectThrows(NativeException.class,
                () -> NativeLibrary.requirePlatform("Mac OS X", "aarch64"));
        assertTrue(mac.getMessage().contains("Mac OS X on aarch64"), mac.getMessage());
        expectThrows(NativeException.class, () -> NativeLibrary.requirePlatform("Linux", "aarch64"));
    }

    @Test
    public void theLibraryExportsItsEntryPointsAndNothingElse() throws Exception {
        List<String> exported = run(List.of("nm", "-D", "--defined-only", library().toString())).lines()
                .map(line -> line.substring(line.lastIndexOf(' ') + 1)).sorted().toList();
        List<String> declared = Stream.of(NativeCalls.class.getDeclaredMethods())
                .filter(method -> java.lang.reflect.Modifier.isNative(method.getModifiers()))
                .map(method -> "Java_io_nereus_pulsar_bridge_NativeCalls_" + method.getName()).sorted().toList();
        assertEquals(exported, declared);
    }

    @Test
    public void theLibraryNeedsNoStaticThreadLocalStorage() throws Exception {
        String dynamic = run(List.of("readelf", "-d", library().toString()));
        assertTrue(!dynamic.contains("STATIC_TLS"), dynamic);
    }

    private static Path library() throws Exception {
        return Forked.resourceRoot("/native/linux-x86_64/" + FILE).resolve("native/linux-x86_64").resolve(FILE);
    }

    private static Path buildProperties() throws Exception {
        return Forked.resourceRoot("/nereus-build.properties").resolve("nereus-build.properties");
    }

    private void compile(String source, Path target) throws Exception {
        Path file = Files.writeString(temporary().resolve("library.c"), source);
        run(List.of("cc", "-shared", "-fPIC", "-o", target.toString(), file.toString()));
    }

    private static String run(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        process.getInputStream().transferTo(output);
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), command.toString());
        String text = output.toString(StandardCharsets.UTF_8);
        assertEquals(process.exitValue(), 0, command + ": " + text);
        return text;
    }

    private Path temporary() throws IOException {
        Path directory = Files.createTempDirectory("nereus-library-");
        temporaries.add(directory);
        return directory;
    }

    private static List<Path> list(Path directory) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.toList();
        }
    }
}
