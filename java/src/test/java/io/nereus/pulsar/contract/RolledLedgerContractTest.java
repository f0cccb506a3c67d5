package io.nereus.pulsar.contract;

import static org.apache.bookkeeper.mledger.ManagedCursor.FindPositionConstraint.SearchActiveEntries;
import static org.apache.bookkeeper.mledger.ManagedCursor.FindPositionConstraint.SearchAllAvailableEntries;
import static org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries.Exclude;
import static org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries.Include;
import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.ReadOnlyCursor;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

/** Reading where one ledger id ends and the next begins: a roll-over of stock, the end of a span of Nereus. */
public class RolledLedgerContractTest extends ContractTest {

    /** Entries of one ledger id. */
    private static int perLedger(Storage storage) {
        return storage == Storage.STOCK ? 50 : 65_536;
    }

    private ManagedLedger rollingLedger(Storage storage) throws Exception {
        ManagedLedgerConfig config = world(storage).config();
        config.setMaxEntriesPerLedger(perLedger(storage));
        return world(storage).open(world(storage).freshName(), config);
    }

    /** Adds {@code count} entries without waiting for each; answers their positions. */
    private static List<Position> fill(ManagedLedger ledger, int count) throws Exception {
        Position[] positions = new Position[count];
        CompletableFuture<Void> done = new CompletableFuture<>();
        AddEntryCallback callback = new AddEntryCallback() {
            private int open = count;

            @Override
            public void addComplete(Position position, ByteBuf entryData, Object ctx) {
                positions[(Integer) ctx] = position;
                if (--open == 0) {
                    done.complete(null);
                }
            }

            @Override
            public void addFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        };
        for (int i = 0; i < count; i++) {
            ledger.asyncAddEntry(("e" + i).getBytes(StandardCharsets.UTF_8), callback, i);
        }
        Ledgers.await(done);
        return List.of(positions);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void readingGoesOnAcrossTheBorder(Storage storage) throws Exception {
        int border = perLedger(storage);
        int count = border + 6;
        ManagedLedger ledger = rollingLedger(storage);
        ManagedCursor cursor = Reads.earliest(ledger, "sub");
        List<Position> positions = fill(ledger, count);
        Position last = positions.get(border - 1);
        Position first = positions.get(border);
        assertThat(first.getLedgerId()).isGreaterThan(last.getLedgerId());
        assertThat(first.getEntryId()).isZero();
        assertThat(cursor.getNumberOfEntries()).isEqualTo(count);

        cursor.seek(positions.get(border - 3));
        assertThat(Reads.read(cursor, 5)).isEqualTo(Reads.texts(border - 3, border + 2));
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(border + 2));
        // a place past the end of a ledger is the first of the next one, both as a seek and as a limit
        cursor.seek(last.getNext());
        assertThat(Reads.read(cursor, 2)).isEqualTo(Reads.texts(border, border + 2));
        cursor.seek(positions.get(border - 2));
        assertThat(Ledgers.texts(Reads.readLater(cursor, 100, Reads.NO_LIMIT, last).get()))
            .isEqualTo(Reads.texts(border - 2, border));
        cursor.rewind();
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(0));

        for (int newest : new int[] {border - 2, border - 1, border, border + 1, count - 1}) {
            assertThat(Reads.find(cursor, SearchAllAvailableEntries, Reads.numberAtMost(newest)).get())
                .isEqualTo(positions.get(newest));
            assertThat(Ledgers.text(cursor.getNthEntry(newest + 1, Include))).isEqualTo("e" + newest);
        }
        assertThat(Reads.findWithin(cursor, SearchActiveEntries, positions.get(border - 5), first,
            Reads.numberAtMost(border - 1)).get()).isEqualTo(last);
        assertThat(Ledgers.texts(Reads.replay(cursor, Set.of(last, first)).get()))
            .containsExactlyInAnyOrder("e" + (border - 1), "e" + border);

        List<Integer> scanned = new ArrayList<>();
        Ledgers.await(cursor.scan(Optional.of(positions.get(border - 2)), entry -> scanned.add(Reads.number(entry)),
            3, 1000, 60_000));
        assertThat(scanned).hasSize(8).startsWith(border - 2, border - 1, border).endsWith(count - 1);

        cursor.resetCursor(last.getNext());
        assertThat(cursor.getReadPosition()).isEqualTo(first);
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(last);
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(6);
        cursor.resetCursor(positions.get(border - 2));
        cursor.skipEntries(3, Exclude);
        assertThat(cursor.getMarkDeletedPosition()).isEqualTo(first);
        assertThat(Reads.readAll(cursor)).isEqualTo(Reads.texts(border + 1, count));

        ManagedCursor reader = ledger.newNonDurableCursor(last, "reader");
        assertThat(reader.getReadPosition()).isEqualTo(first);
        assertThat(Reads.read(reader, 1)).containsExactly("e" + border);
    }

    /** Readers of a topic that has just rolled wait in the new ledger, and get what comes there. */
    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aWaitAtTheBorderGetsTheFirstEntryBehindIt(Storage storage) throws Exception {
        int border = perLedger(storage);
        ManagedLedger ledger = rollingLedger(storage);
        ManagedCursor cursor = Reads.latest(ledger, "sub");
        fill(ledger, border);
        cursor.clearBacklog();
        assertThat(cursor.readEntries(1)).isEmpty();
        Answer<List<Entry>> wait = Reads.readOrWait(cursor, 10);
        Position first = Ledgers.add(ledger, "behind");
        assertThat(first.getEntryId()).isZero();
        assertThat(Ledgers.texts(wait.get())).containsExactly("behind");
        cursor.rewind();
        assertThat(Reads.readAll(cursor)).containsExactly("behind");
        assertThat(cursor.getNumberOfEntriesInBacklog(true)).isEqualTo(1);
    }

    @Test(dataProvider = "storages", dataProviderClass = Storages.class)
    public void aReadOnlyCursorReadsAcrossTheBorder(Storage storage) throws Exception {
        int border = perLedger(storage);
        ManagedLedger ledger = rollingLedger(storage);
        List<Position> positions = fill(ledger, border + 4);
        ledger.close();
        ReadOnlyCursor cursor = world(storage).factory().openReadOnlyCursor(ledger.getName(), PositionFactory.EARLIEST,
            world(storage).config());
        cursor.skipEntries(border - 2);
        assertThat(Ledgers.texts(cursor.readEntries(4))).isEqualTo(Reads.texts(border - 2, border + 2));
        cursor.skipEntries(1);
        assertThat(cursor.getReadPosition()).isEqualTo(positions.get(border + 3));
        assertThat(Ledgers.texts(cursor.readEntries(4))).containsExactly("e" + (border + 3));
        cursor.close();
    }
}
