package io.nereus.bench;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** What the kernel says about a process and about a disk: figures that neither side makes about itself. */
public final class Proc {

    /** Clock ticks per second of /proc: 100 on every Linux that a JVM of today runs on. */
    private static final double TICKS = 100;
    private static final int STAT_UTIME = 11;
    private static final int STAT_STIME = 12;
    private static final int FLUSHES = 18;

    private Proc() {
    }

    /** CPU seconds, user and system, of a process so far, all its threads. */
    public static double cpuSeconds(long pid) throws IOException {
        String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");   // the name may hold spaces
        return (Long.parseLong(fields[STAT_UTIME]) + Long.parseLong(fields[STAT_STIME])) / TICKS;
    }

    /** Resident memory of a process in bytes. */
    public static long residentBytes(long pid) throws IOException {
        return field(Path.of("/proc/" + pid + "/status"), "VmRSS:") * 1024;
    }

    /** Bytes that a process caused to be written to disks so far. */
    public static long writtenBytes(long pid) throws IOException {
        return field(Path.of("/proc/" + pid + "/io"), "write_bytes:");
    }

    /**
     * Times that the threads which a process has now went to sleep so far: one sleep, one wake-up. Those of threads that
     * ended are gone.
     */
    public static long sleeps(long pid) throws IOException {
        long sleeps = 0;
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc/" + pid + "/task"))) {
            for (Path thread : threads) {
                try {
                    sleeps += field(thread.resolve("status"), "voluntary_ctxt_switches:");
                } catch (IOException failed) {
                    // It may have ended since the listing, also while its file was being read.
                    if (Files.exists(thread)) {
                        throw failed;
                    }
                }
            }
        }
        return sleeps;
    }

    /**
     * Flushes that the disks of this machine completed so far: what a sync costs a disk with a volatile cache. Zero where
     * the kernel does not say (a file system without a disk of its own).
     */
    public static long diskFlushes() throws IOException {
        long flushes = 0;
        for (String line : Files.readAllLines(Path.of("/proc/diskstats"))) {
            String[] fields = line.strip().split("\\s+");
            if (fields.length > FLUSHES) {
                flushes += Long.parseLong(fields[FLUSHES]);
            }
        }
        return flushes;
    }

    private static long field(Path file, String name) throws IOException {
        List<String> lines = Files.readAllLines(file);
        for (String line : lines) {
            if (line.startsWith(name)) {
                return Long.parseLong(line.substring(name.length()).strip().split(" ")[0]);
            }
        }
        throw new IOException("no " + name + " in " + file);
    }
}
