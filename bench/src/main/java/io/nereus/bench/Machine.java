package io.nereus.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.concurrent.TimeUnit;

/** The machine that is measured on, and what is done to it between measurements. */
final class Machine {

    private static final Path DROP_CACHES = Path.of("/proc/sys/vm/drop_caches");

    private Machine() {
    }

    /** Processors, memory, kernel, date. */
    static String description() throws IOException {
        String model = Files.lines(Path.of("/proc/cpuinfo")).filter(line -> line.startsWith("model name"))
            .map(line -> line.substring(line.indexOf(':') + 2)).findFirst().orElse(System.getProperty("os.arch"));
        long memory = Files.lines(Path.of("/proc/meminfo")).filter(line -> line.startsWith("MemTotal:"))
            .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).findFirst().orElse(0) >> 20;
        return "%d x %s, %d GiB, Linux %s, Java %s, %s".formatted(Runtime.getRuntime().availableProcessors(), model,
            memory, System.getProperty("os.version"), System.getProperty("java.version"), LocalDate.now());
    }

    /** Can the page cache be dropped? Else no read is cold. */
    static boolean canDropCaches() {
        return Files.isWritable(DROP_CACHES);
    }

    /** Writes what is dirty, so that one side's pages are not written in the other's time. */
    static void settle() throws IOException, InterruptedException {
        if (!new ProcessBuilder("sync").start().waitFor(120, TimeUnit.SECONDS)) {
            throw new IOException("sync did not end within 120 s");
        }
    }

    /** Writes what is dirty and drops the page cache. */
    static void dropCaches() throws IOException, InterruptedException {
        settle();
        Files.writeString(DROP_CACHES, "3\n");
    }
}
