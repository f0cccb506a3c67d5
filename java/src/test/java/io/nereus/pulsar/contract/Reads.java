package io.nereus.pulsar.contract;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedCursor.FindPositionConstraint;
import org.apache.bookkeeper.mledger.ManagedCursor.IndividualDeletedEntries;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;

/** The reading half of a cursor as tests use it: texts instead of entries, {@link Answer}s instead of callbacks. */
final class Reads {

    /** Pulsar's "no limit" of bytes. */
    static final long NO_LIMIT = -1;

    private Reads() {
    }

    static ManagedCursor earliest(ManagedLedger ledger, String cursor) throws Exception {
        return ledger.openCursor(cursor, InitialPosition.Earliest);
    }

    static ManagedCursor latest(ManagedLedger ledger, String cursor) throws Exception {
        return ledger.openCursor(cursor, InitialPosition.Latest);
    }

    /** The texts of the entries {@code from} to {@code to}, which is not among them. */
    static List<String> texts(int from, int to) {
        List<String> texts = new ArrayList<>();
        for (int i = from; i < to; i++) {
            texts.add("e" + i);
        }
        return texts;
    }

    /** Reads up to {@code most} entries without waiting. */
    static List<String> read(ManagedCursor cursor, int most) throws Exception {
        return Ledgers.texts(cursor.readEntries(most));
    }

    /** Reads until there is nothing more. */
    static List<String> readAll(ManagedCursor cursor) throws Exception {
        List<String> all = new ArrayList<>();
        List<String> some = read(cursor, 100);
        while (!some.isEmpty()) {
            all.addAll(some);
            some = read(cursor, 100);
        }
        return all;
    }

    static Answer<List<Entry>> readLater(ManagedCursor cursor, int most) {
        return readLater(cursor, most, NO_LIMIT, PositionFactory.LATEST);
    }

    static Answer<List<Entry>> readLater(ManagedCursor cursor, int most, long maxBytes, Position max) {
        Answer<List<Entry>> answer = new Answer<>();
        cursor.asyncReadEntries(most, maxBytes, Answer.entries(answer), null, max);
        return answer;
    }

    static Answer<List<Entry>> readSkipping(ManagedCursor cursor, int most, Predicate<Position> skip) {
        Answer<List<Entry>> answer = new Answer<>();
        cursor.asyncReadEntriesWithSkip(most, NO_LIMIT, Answer.entries(answer), null, PositionFactory.LATEST, skip);
        return answer;
    }

    static Answer<List<Entry>> readOrWait(ManagedCursor cursor, int most) {
        return readOrWait(cursor, most, PositionFactory.LATEST);
    }

    static Answer<List<Entry>> readOrWait(ManagedCursor cursor, int most, Position max) {
        Answer<List<Entry>> answer = new Answer<>();
        cursor.asyncReadEntriesOrWait(most, Answer.entries(answer), null, max);
        return answer;
    }

    /**
     * The texts that a wait ends with once its entry is there. Stock notifies cursors late: with the notification of the
     * append before it may wake this wait for nothing, and whoever waits asks again.
     */
    static List<String> served(Storage storage, ManagedCursor cursor, Answer<List<Entry>> wait) throws Exception {
        List<String> texts = Ledgers.texts(wait.get());
        return storage == Storage.STOCK && texts.isEmpty() ? Ledgers.texts(readOrWait(cursor, 10).get()) : texts;
    }

    static Answer<List<Entry>> replay(ManagedCursor cursor, Set<? extends Position> positions) {
        Answer<List<Entry>> answer = new Answer<>();
        cursor.asyncReplayEntries(positions, Answer.entries(answer), null);
        return answer;
    }

    static Answer<Entry> nth(ManagedCursor cursor, int n, IndividualDeletedEntries deleted) {
        Answer<Entry> answer = new Answer<>();
        cursor.asyncGetNthEntry(n, deleted, Answer.entry(answer), null);
        return answer;
    }

    static Answer<Object> reset(ManagedCursor cursor, Position position, boolean force) {
        Answer<Object> answer = new Answer<>();
        cursor.asyncResetCursor(position, force, Answer.reset(answer));
        return answer;
    }

    static Answer<Void> skip(ManagedCursor cursor, int entries, IndividualDeletedEntries deleted) {
        Answer<Void> answer = new Answer<>();
        cursor.asyncSkipEntries(entries, deleted, Answer.skipped(answer), null);
        return answer;
    }

    static Answer<Position> find(ManagedCursor cursor, FindPositionConstraint constraint, Predicate<Entry> condition) {
        Answer<Position> answer = new Answer<>();
        cursor.asyncFindNewestMatching(constraint, condition, Answer.found(answer), null);
        return answer;
    }

    static Answer<Position> findWithin(ManagedCursor cursor, FindPositionConstraint constraint, Position start,
                                       Position end, Predicate<Entry> condition) {
        Answer<Position> answer = new Answer<>();
        cursor.asyncFindNewestMatching(constraint, condition, start, end, Answer.found(answer), null, false);
        return answer;
    }

    /** The number in the text of {@code entry}, which stays the caller's. */
    static int number(Entry entry) {
        return Integer.parseInt(new String(entry.getData(), StandardCharsets.UTF_8).substring(1));
    }

    /** For searches, whose predicate owns the entry: whether its number is at most {@code most}. */
    static Predicate<Entry> numberAtMost(int most) {
        return entry -> {
            try {
                return number(entry) <= most;
            } finally {
                entry.release();
            }
        };
    }
}
