package io.nereus.pulsar.bridge;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Loads the native library, once per JVM, and proves that it is the one that belongs to these classes.
 *
 * <p>Order: {@code libnereus_jni.so} from {@code java.library.path} if one lies there, else the copy in the jar, which
 * is unpacked into a private directory and removed as soon as it is loaded. Promises: a library of another build, a
 * second copy in the same JVM, an unfit system and a directory without execute permission are refused with a message
 * that names what was found and what to do (L17).
 */
final class NativeLibrary {

    /** Version of the border that these classes speak. */
    static final int ABI_VERSION = 2;
    /** System property for the directory to unpack into; the setting {@code nereusNativeDirectory} goes before it. */
    static final String DIRECTORY_PROPERTY = "nereus.nativeDirectory";
    /** System property that marks this JVM as taken, with the holder as its value. */
    static final String LOADED_PROPERTY = "nereus.nativeLibraryLoadedBy";

    private static final Logger log = LoggerFactory.getLogger(NativeLibrary.class);

    private static final String NAME = "nereus_jni";
    private static final String FILE_NAME = "libnereus_jni.so";
    private static final String RESOURCE = "/native/linux-x86_64/" + FILE_NAME;
    private static final String BUILD_RESOURCE = "/nereus-build.properties";

    private static volatile boolean loaded;

    private NativeLibrary() {
    }

    /**
     * Loads the library if this has not been done; otherwise does nothing.
     *
     * @param directory where to unpack the jar's copy, or null for the system property or the temporary directory
     * @throws NativeException if there is no library that belongs to these classes, or it cannot be used
     */
    static synchronized void load(String directory) throws NativeException {
        if (loaded) {
            return;
        }
        String expectedBuild = expectedBuildId();
        String self = "class loader " + NativeLibrary.class.getClassLoader() + " of " + codeSource();
        Object holder = System.getProperties().putIfAbsent(LOADED_PROPERTY, self);
        if (holder != null) {
            throw new NativeException(NativeErrors.INVALID, "the native library of Nereus is already loaded in this JVM"
                    + " by " + holder + "; " + self + " must not load a second copy, because two copies would open the"
                    + " same data twice. Keep one Nereus jar, in the broker's lib directory, and none in a NAR");
        }
        boolean mayRetry = true;
        try {
            String source = loadFile(directory);
            // From here on the library sits in this JVM for good: another attempt would load a second copy.
            mayRetry = false;
            verify(source, expectedBuild);
            log.info("Loaded the native library of Nereus, build {}, from {}", expectedBuild, source);
            loaded = true;
        } finally {
            if (mayRetry) {
                System.clearProperty(LOADED_PROPERTY);
            }
        }
    }

    /** Whether native methods may be called. */
    static boolean isLoaded() {
        return loaded;
    }

    private static String loadFile(String directory) throws NativeException {
        requirePlatform(System.getProperty("os.name"), System.getProperty("os.arch"));
        Path onPath = onLibraryPath(System.getProperty("java.library.path", ""));
        try {
            System.loadLibrary(NAME);
            return onPath != null ? onPath.toString() : "the JVM's library path";
        } catch (UnsatisfiedLinkError e) {
            if (onPath != null) {
                // A file the operator put there on purpose is never passed over in silence.
                throw new NativeException(NativeErrors.INVALID, "java.library.path names " + onPath
                        + ", which cannot be loaded: " + e.getMessage() + ". Put the library of this release there, or"
                        + " remove the file to use the copy in the jar", e);
            }
        }
        requireGlibc(Path.of("/proc/self/maps"));
        return loadFromJar(unpackInto(directory));
    }

    private static String loadFromJar(Path base) throws NativeException {
        Path privateDirectory = null;
        Path file = null;
        try (InputStream in = NativeLibrary.class.getResourceAsStream(RESOURCE)) {
            if (in == null) {
                throw new NativeException(NativeErrors.INVALID, "there is no native library: neither " + FILE_NAME
                        + " in java.library.path (" + System.getProperty("java.library.path") + ") nor " + RESOURCE
                        + " in " + codeSource() + ". Use the complete Nereus jar");
            }
            Files.createDirectories(base);
            privateDirectory = Files.createTempDirectory(base, "nereus-native-",
                    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            file = privateDirectory.resolve(FILE_NAME);
            Files.copy(in, file);
            System.load(file.toAbsolutePath().toString());
            return RESOURCE + " of " + codeSource();
        } catch (IOException e) {
            throw new NativeException(NativeErrors.IO, "the native library cannot be unpacked into " + base + ": " + e
                    + ". Set nereusNativeDirectory to a directory that the broker may write to", e);
        } catch (UnsatisfiedLinkError e) {
            throw new NativeException(NativeErrors.INVALID, explain(e.getMessage(), base), e);
        } finally {
            // The mapping stays after the file is gone; nothing is left behind, also not after kill -9.
            remove(file);
            remove(privateDirectory);
        }
    }

    /** Says what to do about the linker's refusal of the copy unpacked into {@code base}. */
    static String explain(String refusal, Path base) {
        String text = String.valueOf(refusal);
        String lower = text.toLowerCase(Locale.ROOT);
        if (lower.contains("failed to map segment") || lower.contains("operation not permitted")) {
            return "the native library was unpacked into " + base + ", from which nothing may be executed (mounted"
                    + " noexec?): " + text + ". Set nereusNativeDirectory to a directory that allows it";
        }
        if (lower.contains("glibc_") || lower.contains("glibcxx_")) {
            return "the native library needs a newer C or C++ library than this system has: " + text;
        }
        return "the native library in the jar cannot be loaded: " + text;
    }

    private static Path unpackInto(String directory) {
        String chosen = directory != null && !directory.isBlank() ? directory : System.getProperty(DIRECTORY_PROPERTY);
        return Path.of(chosen != null && !chosen.isBlank() ? chosen : System.getProperty("java.io.tmpdir"));
    }

    private static void verify(String source, String expectedBuild) throws NativeException {
        int abi;
        String build;
        try {
            abi = NativeCalls.abiVersion();
            build = abi == ABI_VERSION ? NativeCalls.buildId() : "not asked";
        } catch (UnsatisfiedLinkError e) {
            throw new NativeException(NativeErrors.INVALID, source + " is not the native library of Nereus: "
                    + e.getMessage(), e);
        }
        compare(source, abi, build, ABI_VERSION, expectedBuild);
        Map<Integer, String> table = Messages.errorTable(NativeCalls.errorTable());
        if (!table.equals(NativeErrors.table())) {
            throw new NativeException(NativeErrors.INTERNAL, source + " has the error table " + table
                    + ", these classes have " + NativeErrors.table());
        }
    }

    /** Refuses a library that differs, naming both sides. */
    static void compare(String source, int abi, String build, int expectedAbi, String expectedBuild)
            throws NativeException {
        if (abi != expectedAbi) {
            throw new NativeException(NativeErrors.INVALID, source + " speaks border version " + abi
                    + ", the classes in " + codeSource() + " speak " + expectedAbi + ". Use jar and library of one"
                    + " release");
        }
        if (!expectedBuild.equals(build)) {
            throw new NativeException(NativeErrors.INVALID, source + " is build " + build + ", the classes in "
                    + codeSource() + " belong to build " + expectedBuild + ". Use jar and library of one release");
        }
    }

    private static String expectedBuildId() throws NativeException {
        try (InputStream in = NativeLibrary.class.getResourceAsStream(BUILD_RESOURCE)) {
            Properties properties = new Properties();
            if (in != null) {
                properties.load(in);
            }
            String id = properties.getProperty("buildId", "").trim();
            if (id.isEmpty()) {
                throw new NativeException(NativeErrors.INVALID, codeSource() + " does not say which native library it"
                        + " belongs to (" + BUILD_RESOURCE + ", key buildId). Use the complete Nereus jar");
            }
            return id;
        } catch (IOException e) {
            throw new NativeException(NativeErrors.IO, "cannot read " + BUILD_RESOURCE + " of " + codeSource() + ": "
                    + e, e);
        }
    }

    /** Refuses an operating system or processor for which there is no library. */
    static void requirePlatform(String system, String processor) throws NativeException {
        boolean linux = system != null && system.toLowerCase(Locale.ROOT).startsWith("linux");
        if (!linux || !("amd64".equals(processor) || "x86_64".equals(processor))) {
            throw new NativeException(NativeErrors.UNSUPPORTED, "the native library of Nereus is built for Linux on"
                    + " x86_64, this JVM runs on " + system + " on " + processor);
        }
    }

    /**
     * Refuses the jar's copy where the JVM itself runs on musl: a library for glibc would load there through a
     * compatibility layer and crash later. What counts is what is mapped into this process, not what is installed.
     */
    static void requireGlibc(Path maps) throws NativeException {
        String mapped;
        try {
            mapped = Files.readString(maps);
        } catch (IOException e) {
            log.warn("Cannot read {} to find out which C library this JVM uses; assuming glibc: {}", maps,
                    e.toString());
            return;
        }
        if (mapped.contains("/ld-musl-") || mapped.contains("/libc.musl-")) {
            throw new NativeException(NativeErrors.UNSUPPORTED, "this JVM runs on musl (Alpine Linux); the native"
                    + " library of Nereus is built for glibc. Run the broker on an image with glibc, or build the"
                    + " library for musl and put it into java.library.path");
        }
    }

    private static Path onLibraryPath(String libraryPath) {
        for (String entry : libraryPath.split(File.pathSeparator)) {
            if (!entry.isEmpty()) {
                Path candidate = Path.of(entry, FILE_NAME);
                if (Files.exists(candidate)) {
                    return candidate;
                }
            }
        }
        return null;
    }

    private static void remove(Path path) {
        if (path != null) {
            try {
                Files.deleteIfExists(path);
            } catch (IOException e) {
                log.warn("Cannot remove {}: {}", path, e.toString());
            }
        }
    }

    private static String codeSource() {
        var source = NativeLibrary.class.getProtectionDomain().getCodeSource();
        return source == null ? "unknown origin" : String.valueOf(source.getLocation());
    }
}
