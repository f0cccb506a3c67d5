package io.nereus.tests.history;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.function.LongFunction;

/**
 * Appends events to a file, one write per event, so that what was recorded survives the death of this process (not of
 * the machine). Promises: the order in the file is the order of the stamped times. Thread-safe; any thread may append.
 */
public final class HistoryWriter implements AutoCloseable {

    private final FileChannel file;
    private long lastMillis = Long.MIN_VALUE;

    private HistoryWriter(FileChannel file) {
        this.file = file;
    }

    /** Opens the file for appending and creates it if there is none. */
    public static HistoryWriter open(Path path) throws IOException {
        return new HistoryWriter(FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.APPEND));
    }

    /** Milliseconds of the machine's monotonic clock: the time scale of every event. */
    public static long now() {
        return System.nanoTime() / 1_000_000;
    }

    /**
     * Stamps and appends one event.
     *
     * @param event makes the event from the time it is given
     * @return that time
     */
    public synchronized long append(LongFunction<Event> event) {
        lastMillis = Math.max(lastMillis, now());
        ByteBuffer line = ByteBuffer.wrap(EventCodec.encode(event.apply(lastMillis)).getBytes(StandardCharsets.UTF_8));
        try {
            while (line.hasRemaining()) {
                file.write(line);
            }
        } catch (IOException e) {
            throw new UncheckedIOException("the history cannot be written, so nothing that follows could be judged", e);
        }
        return lastMillis;
    }

    @Override
    public synchronized void close() throws IOException {
        file.close();
    }
}
