package io.nereus.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;

/** How fast the disk takes one sequential stream of 1 MiB writes with an fdatasync every 8 MiB: the limit of every log. */
final class DiskLimit {

    private static final int STEP = 1 << 20;
    private static final int STEPS_PER_SYNC = 8;

    private DiskLimit() {
    }

    /** Megabytes (10^6) per second over so many bytes of a new file in {@code directory}, which is removed again. */
    static double megabytesPerSecond(Path directory, long bytes) throws IOException {
        Path file = directory.resolve("disk-limit");
        byte[] noise = new byte[STEP];
        new Random(1).nextBytes(noise);
        ByteBuffer buffer = ByteBuffer.allocateDirect(STEP).put(noise);
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING)) {
            long start = System.nanoTime();
            for (long step = 0; step * STEP < bytes; step++) {
                buffer.rewind();
                channel.write(buffer, step * STEP);
                if (step % STEPS_PER_SYNC == STEPS_PER_SYNC - 1) {
                    channel.force(false);
                }
            }
            channel.force(false);
            return bytes * 1e3 / (System.nanoTime() - start);
        } finally {
            Files.deleteIfExists(file);
        }
    }
}
