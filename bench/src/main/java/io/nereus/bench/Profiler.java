package io.nereus.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * async-profiler in the measured JVMs, Java and native frames in one stack: where the CPU goes between the beginning and
 * the end of each measurement. Needs no rights beyond those of the user (timers, not the kernel's performance events).
 */
final class Profiler {

    /** Does nothing. */
    static final Profiler OFF = new Profiler(null, null);

    private final Path library;
    private final Path directory;

    private Profiler(Path library, Path directory) {
        this.library = library;
        this.directory = directory;
    }

    /** Writes flame graphs ({@code .html}) and folded stacks ({@code .collapsed}) into {@code directory}. */
    static Profiler into(Path directory) throws IOException {
        Path library = Path.of("build/profiler/libasyncProfiler.so").toAbsolutePath();
        if (!Files.isRegularFile(library)) {
            throw new IOException("no profiler at " + library + "; run: gradle profilers");
        }
        Files.createDirectories(directory);
        return new Profiler(library, directory.toAbsolutePath());
    }

    /** Arguments of a JVM that loads Nereus: where the library with symbols lies, if there is one. */
    List<String> jvmArguments() {
        String natives = System.getProperty("bench.nativeDirectory");
        return library == null || natives == null ? List.of() : List.of("-Djava.library.path=" + natives);
    }

    /** A profile that goes on until it is stopped. */
    interface Recording {
        void stop() throws IOException, InterruptedException;
    }

    /** Starts one in a JVM. */
    Recording start(long pid, String name) throws IOException, InterruptedException {
        if (library == null) {
            return () -> { };
        }
        load(pid, "start,event=ctimer,interval=1ms,cstack=dwarf");
        return () -> {
            load(pid, "dump,collapsed,file=" + directory.resolve(name + ".collapsed"));
            load(pid, "stop,flamegraph,title=" + name + ",file=" + directory.resolve(name + ".html"));
        };
    }

    private void load(long pid, String arguments) throws IOException, InterruptedException {
        Process jcmd = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "jcmd").toString(),
            Long.toString(pid), "JVMTI.agent_load", library.toString(), "\"" + arguments + "\"")
            .redirectErrorStream(true).start();
        String answer = new String(jcmd.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
        if (!jcmd.waitFor(30, TimeUnit.SECONDS) || jcmd.exitValue() != 0 || !answer.contains("return code: 0")) {
            throw new IOException("the profiler did not take '" + arguments + "': " + answer);
        }
    }
}
