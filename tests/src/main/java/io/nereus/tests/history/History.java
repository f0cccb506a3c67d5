package io.nereus.tests.history;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/** Reads the files that {@link HistoryWriter} wrote. */
public final class History {

    private History() { }

    /**
     * All events of the given files in the order of their times; events of one file keep their order. A last line that
     * was cut off by the death of its writer is left out; any other line that cannot be read is an error.
     *
     * @throws IllegalArgumentException naming file and line
     */
    public static List<Event> read(List<Path> files) throws IOException {
        List<Event> events = new ArrayList<>();
        for (Path file : files) {
            String text = Files.readString(file, StandardCharsets.UTF_8);
            int number = 1;
            for (int start = 0, end; (end = text.indexOf('\n', start)) >= 0; start = end + 1, number++) {
                try {
                    events.add(EventCodec.decode(text.substring(start, end)));
                } catch (IllegalArgumentException e) {
                    throw new IllegalArgumentException(file + ", line " + number + ": " + e.getMessage(), e);
                }
            }
        }
        events.sort(Comparator.comparingLong(Event::millis));   // a stable sort
        return events;
    }
}
