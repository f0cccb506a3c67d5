package io.nereus.tests.history;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import io.nereus.tests.history.Event.Delivery;
import io.nereus.tests.history.Event.Outage;
import io.nereus.tests.history.Event.Reach;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongFunction;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** The file gives back what was written, also after its writer died, and refuses what it cannot read. */
public class HistoryFileTest {

    private static final MsgId ID = new MsgId(4_294_967_296L, 17, 3);
    private static final List<LongFunction<Event>> ONE_OF_EACH = List.of(
            t -> new Event.Topic(t, "topic", true),
            t -> new Event.Sent(t, "topic", "p", 1, "0a", 5),
            t -> new Event.Receipt(t, "topic", "p", 1, ID, true),
            t -> new Event.SendFailed(t, "topic", "p", 2, "timed out:\n\tat \\ line\r"),
            t -> new Event.Subscribed(t, "topic", "s", Delivery.KEY_SHARED),
            t -> new Event.Received(t, "topic", "s", "c", ID, "p", 1, "", 2, "0a"),
            t -> new Event.Interrupted(t, "topic", "s", "c"),
            t -> new Event.AckRequested(t, "topic", "s", ID, Reach.ONE),
            t -> new Event.AckReceipt(t, "topic", "s", ID, Reach.UP_TO),
            t -> new Event.Drained(t, "topic", "s"),
            t -> new Event.ScanStarted(t, "topic", "a"),
            t -> new Event.Scanned(t, "topic", "a", ID, "p", 1, "0a"),
            t -> new Event.ScanEnded(t, "topic", "a"),
            t -> new Event.Fetched(t, "topic", ID, MsgId.UNKNOWN, "", -1, ""),
            t -> new Event.Gone(t, t - 5, Outage.KILLED, ""));

    private Path file;

    @BeforeMethod
    public void createFile() throws IOException {
        file = Files.createTempFile("history", ".log");
    }

    @AfterMethod(alwaysRun = true)
    public void deleteFile() throws IOException {
        Files.deleteIfExists(file);
    }

    @Test
    public void everyKindOfEventIsReadBackEqual() throws IOException {
        assertEquals(ONE_OF_EACH.stream().map(e -> e.apply(0).getClass()).collect(Collectors.toSet()),
                Stream.of(Event.class.getPermittedSubclasses()).collect(Collectors.toSet()), "one example of each kind");
        List<Event> written = new ArrayList<>();
        try (HistoryWriter writer = HistoryWriter.open(file)) {
            for (LongFunction<Event> event : ONE_OF_EACH) {
                writer.append(t -> {
                    Event stamped = event.apply(t);
                    written.add(stamped);
                    return stamped;
                });
            }
        }
        assertEquals(History.read(List.of(file)), written);
    }

    @Test
    public void eventsAreInTheFileBeforeTheWriterIsClosed() throws IOException {
        try (HistoryWriter writer = HistoryWriter.open(file)) {
            writer.append(t -> new Event.Topic(t, "topic", false));
            assertEquals(History.read(List.of(file)).size(), 1);
        }
    }

    @Test
    public void eventsAreStampedWithTheMonotonicClockInTheOrderOfTheFile() throws IOException {
        long before = HistoryWriter.now();
        try (HistoryWriter writer = HistoryWriter.open(file)) {
            for (int i = 0; i < 10; i++) {
                writer.append(t -> new Event.Topic(t, "topic", false));
            }
        }
        long last = before;
        for (Event event : History.read(List.of(file))) {
            assertTrue(event.millis() >= last, event + " after " + last);
            last = event.millis();
        }
        assertTrue(last <= HistoryWriter.now(), last + " is in the future");
    }

    @Test
    public void reopenedFileIsContinued() throws IOException {
        for (int i = 0; i < 2; i++) {
            try (HistoryWriter writer = HistoryWriter.open(file)) {
                writer.append(t -> new Event.Topic(t, "topic", false));
            }
        }
        assertEquals(History.read(List.of(file)).size(), 2);
    }

    @Test
    public void cutOffLastLineIsLeftOut() throws IOException {
        Files.writeString(file, "Topic\t1\ta\tfalse\nTopic\t2\tb\tfa");
        assertEquals(History.read(List.of(file)), List.of(new Event.Topic(1, "a", false)));
    }

    @Test
    public void unreadableLineIsRefusedByFileAndLine() {
        for (String bad : List.of("Topic\t1\ta\tmaybe", "Topic\tx\ta\ttrue", "Topic\t1\ta", "Nonsense\t1", "",
                "Drained\t1\ta\\\tb", "Gone\t1\t0\tDIED\t", "Fetched\t1\tt\t1:2\t1:2:3\tp\t1\th")) {
            IllegalArgumentException refusal = expectThrows(IllegalArgumentException.class, () -> {
                Files.writeString(file, "Topic\t1\ta\tfalse\n" + bad + "\n", StandardCharsets.UTF_8,
                        StandardOpenOption.TRUNCATE_EXISTING);
                History.read(List.of(file));
            });
            assertTrue(refusal.getMessage().startsWith(file + ", line 2: "), refusal.getMessage());
        }
    }

    @Test
    public void filesAreMergedByTime() throws IOException {
        Path second = Files.createTempFile("history", ".log");
        try {
            Files.writeString(file, "Topic\t1\ta\tfalse\nTopic\t5\tb\tfalse\n");
            Files.writeString(second, "Topic\t3\tc\tfalse\n");
            assertEquals(History.read(List.of(file, second)).stream().map(e -> ((Event.Topic) e).topic()).toList(),
                    List.of("a", "c", "b"));
        } finally {
            Files.delete(second);
        }
    }

    @Test
    public void messageIdsAreOrderedAsTheTopicIs() {
        assertTrue(new MsgId(1, 9, 9).compareTo(new MsgId(2, 0, -1)) < 0);
        assertTrue(new MsgId(1, 0, 9).compareTo(new MsgId(1, 1, 0)) < 0);
        assertTrue(new MsgId(1, 1, 0).compareTo(new MsgId(1, 1, 1)) < 0);
        assertThrows(IllegalArgumentException.class, () -> MsgId.parse("1:2"));
    }
}
