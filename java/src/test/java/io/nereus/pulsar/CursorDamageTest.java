package io.nereus.pulsar;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertTrue;
import static org.testng.Assert.expectThrows;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.NonRecoverableLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.testng.annotations.Test;

/** Entries whose bytes in the journal are damaged while the broker runs, over a real engine. */
public class CursorDamageTest extends CursorFixture {

    private static final int ENTRIES = 8;

    private static String text(int number) {
        return "the text of entry " + number + " is found on the disk";
    }

    /** Eight entries, of which the fourth and fifth are damaged after the ledger was opened. */
    private List<Position> damagedFourthAndFifth() throws Exception {
        earliest("sub");
        List<Position> positions = new ArrayList<>();
        for (int i = 1; i <= ENTRIES; i++) {
            positions.add(LedgerFixture.add(ledger, text(i)));
        }
        reopen(); // so that no cache holds them
        damage(text(4));
        damage(text(5));
        return positions;
    }

    private void damage(String text) throws IOException {
        byte[] wanted = text.getBytes(StandardCharsets.UTF_8);
        int places = 0;
        try (Stream<Path> files = Files.walk(fixture.directory())) {
            for (Path file : files.filter(f -> f.toString().endsWith(".seg")).toList()) {
                try (FileChannel channel =
                         FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
                    ByteBuffer bytes = ByteBuffer.allocate((int) channel.size());
                    channel.read(bytes, 0);
                    String content = new String(bytes.array(), StandardCharsets.ISO_8859_1);
                    int at = content.indexOf(new String(wanted, StandardCharsets.ISO_8859_1));
                    if (at >= 0) {
                        channel.write(ByteBuffer.wrap(new byte[] {'X'}), at);
                        places++;
                    }
                }
            }
        }
        assertEquals(places, 1, "places of the journal with: " + text);
    }

    private static List<String> readAll(ManagedCursor cursor) throws Exception {
        List<String> texts = new ArrayList<>();
        while (cursor.hasMoreEntries()) {
            texts.addAll(LedgerFixture.texts(cursor.readEntries(100)));
        }
        return texts;
    }

    @Test
    public void withAutoSkipOnlyTheDamagedEntriesAreMissingAndTheBacklogEnds_case_041() throws Exception {
        config.setAutoSkipNonRecoverableData(true);
        List<Position> positions = damagedFourthAndFifth();
        ManagedCursor cursor = earliest("sub");
        assertEquals(readAll(cursor), List.of(text(1), text(2), text(3), text(6), text(7), text(8)));
        for (int i : List.of(1, 2, 3, 6, 7, 8)) {
            cursor.delete(positions.get(i - 1));
        }
        assertEquals(cursor.getMarkDeletedPosition(), positions.get(ENTRIES - 1));
        assertBacklog(cursor, 0);
    }

    @Test
    public void withoutAutoSkipWhatLiesBeforeIsDeliveredAndNothingIsSkipped_case_041() throws Exception {
        damagedFourthAndFifth();
        ManagedCursor cursor = earliest("sub");
        assertEquals(read(cursor, 100), List.of(text(1), text(2), text(3)));
        ManagedLedgerException failure = expectThrows(ManagedLedgerException.class, () -> cursor.readEntries(100));
        assertTrue(failure.getMessage().contains("CORRUPT"), "got " + failure);
        assertFalse(failure instanceof NonRecoverableLedgerException, "the broker would expire the backlog on it");
        assertBacklog(cursor, ENTRIES);
        config.setAutoSkipNonRecoverableData(true);
        ledger.setConfig(config);
        assertEquals(readAll(cursor), List.of(text(6), text(7), text(8)), "the setting holds at once for open cursors");
    }

    @Test
    public void searchesForExpiryAndSeekGoOnBesideTheDamage_case_041() throws Exception {
        config.setAutoSkipNonRecoverableData(true);
        List<Position> positions = damagedFourthAndFifth();
        ManagedCursor cursor = earliest("sub");
        for (int border : List.of(1, 3, 6, 8)) {
            Position found = cursor.findNewestMatching(entry -> number(entry) <= border);
            assertEquals(found, positions.get(border - 1), "up to " + border);
        }
        cursor.markDelete(cursor.findNewestMatching(entry -> number(entry) <= 6));
        assertBacklog(cursor, 2);
    }

    private static int number(Entry entry) {
        return Integer.parseInt(LedgerFixture.text(entry).split(" ")[4]);
    }
}
