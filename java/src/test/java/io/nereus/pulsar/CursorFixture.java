package io.nereus.pulsar;

import io.nereus.pulsar.contract.CursorCalls;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntriesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;

/** A ledger over a real engine and the calls that cursor tests make on it. */
abstract class CursorFixture {

    static final long SECONDS = 30;

    LedgerFixture fixture;
    String name;
    ManagedLedgerConfig config;
    NereusManagedLedger ledger;

    @BeforeMethod
    public void openLedger() throws Exception {
        fixture = new LedgerFixture();
        name = LedgerFixture.freshName();
        config = new ManagedLedgerConfig();
        config.setDeletionAtBatchIndexLevelEnabled(true);
        config.setRetentionTime(-1, TimeUnit.DAYS);
        config.setRetentionSizeInMB(-1);
        ledger = fixture.ledger(name, config);
    }

    @AfterMethod(alwaysRun = true)
    public void closeLedger() {
        if (fixture != null) {
            fixture.close();
        }
    }

    /** Closes everything and opens it again over the same directory. */
    void reopen() throws Exception {
        fixture.restart();
        ledger = fixture.ledger(name, config);
    }

    /** Goes on from what a process that is killed now would leave. */
    void crash() throws Exception {
        fixture.crash();
        ledger = fixture.ledger(name, config);
    }

    List<Position> add(int entries) throws Exception {
        List<Position> positions = new ArrayList<>();
        for (int i = 0; i < entries; i++) {
            positions.add(LedgerFixture.add(ledger, "m" + (ledger.committedEnd())));
        }
        return positions;
    }

    NereusManagedCursor earliest(String cursor) throws Exception {
        return (NereusManagedCursor) ledger.openCursor(cursor, InitialPosition.Earliest);
    }

    NereusManagedCursor latest(String cursor) throws Exception {
        return (NereusManagedCursor) ledger.openCursor(cursor, InitialPosition.Latest);
    }

    /** The texts of up to {@code most} entries, without waiting. */
    static List<String> read(ManagedCursor cursor, int most) throws Exception {
        return LedgerFixture.texts(cursor.readEntries(most));
    }

    static List<String> messages(int from, int to) {
        List<String> texts = new ArrayList<>();
        for (int i = from; i < to; i++) {
            texts.add("m" + i);
        }
        return texts;
    }

    static void assertBacklog(ManagedCursor cursor, long expected) {
        CursorCalls.assertBacklog(cursor, expected);
    }

    static CompletableFuture<Void> deleteLater(ManagedCursor cursor, List<Position> positions) {
        return CursorCalls.delete(cursor, positions);
    }

    static CompletableFuture<Void> markDeleteLater(ManagedCursor cursor, Position position,
                                                   Map<String, Long> properties) {
        return CursorCalls.markDelete(cursor, position, properties);
    }

    static CompletableFuture<Position> resetLater(ManagedCursor cursor, Position position, boolean force) {
        return CursorCalls.reset(cursor, position, force).thenApply(Position.class::cast);
    }

    static CompletableFuture<List<Entry>> readOrWait(ManagedCursor cursor, int most) {
        CompletableFuture<List<Entry>> done = new CompletableFuture<>();
        cursor.asyncReadEntriesOrWait(most, new ReadEntriesCallback() {
            @Override
            public void readEntriesComplete(List<Entry> entries, Object ctx) {
                done.complete(entries);
            }

            @Override
            public void readEntriesFailed(ManagedLedgerException exception, Object ctx) {
                done.completeExceptionally(exception);
            }
        }, null, PositionFactory.LATEST);
        return done;
    }
}
