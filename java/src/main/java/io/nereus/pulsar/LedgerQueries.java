package io.nereus.pulsar;

import com.google.common.collect.Range;
import io.nereus.pulsar.compat.LedgerDetails;
import io.nereus.pulsar.compat.LedgerInfos;
import io.nereus.pulsar.cursor.CursorLedger;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionBound;

/**
 * The part of Pulsar's ledger interface that is answered at once from how far the ledger reaches: positions, counts,
 * sizes, ledgers.
 *
 * <p>Promises: nothing here waits, reads an entry or fails; every position is accepted; answers of one call belong to
 * one moment. Any thread.
 */
@SuppressWarnings({"rawtypes", "unchecked"})   // see the section on ledgers
abstract class LedgerQueries extends BlockingLedger implements CursorLedger {

    /** For the subclass, which alone moves it. */
    protected final LedgerExtent extent;

    LedgerQueries(LedgerExtent extent) {
        this.extent = extent;
    }

    Projection projection() {
        return extent.projection();
    }

    SpanTable spans() {
        return extent.spans();
    }

    @Override
    public long committedEnd() {
        return extent.committedEnd();
    }

    @Override
    public long trimOffset() {
        return extent.trimOffset();
    }

    /** See {@link LedgerExtent#firstKept()}. */
    long firstKept() {
        return extent.firstKept();
    }

    @Override
    public Position position(long offset) {
        return extent.projection().position(offset);
    }

    @Override
    public long offset(Position position) {
        return extent.navigator().offset(position);
    }

    /** First readable offset at or after {@code position}, within trim offset and committed end. */
    long offsetAtOrAfter(Position position) {
        return extent.navigator().offsetAtOrAfter(position);
    }

    /** Live bytes in {@code [from, to)}, estimated from the spans. */
    long bytesBetween(long from, long to) {
        return extent.spans().bytesBetween(from, to);
    }

    // ---- counts and sizes

    @Override
    public long getNumberOfEntries() {
        return extent.entries();
    }

    @Override
    public long getNumberOfEntries(Range<Position> range) {
        return extent.navigator().entriesWithin(range);
    }

    @Override
    public long getTotalSize() {
        return extent.spans().totalBytes();
    }

    @Override
    public long getEstimatedBacklogSize(Position position) {
        return position == null ? 0 : extent.bytesAfter(position);
    }

    // ---- positions

    @Override
    public Position getLastConfirmedEntry() {
        return extent.lastConfirmed();
    }

    @Override
    public Position getFirstPosition() {
        return extent.navigator().first();
    }

    @Override
    public Position getNextValidPosition(Position position) {
        return extent.navigator().next(position);
    }

    @Override
    public Position getPreviousPosition(Position position) {
        return extent.navigator().previous(position);
    }

    @Override
    public Position getPositionAfterN(Position startPosition, long n, PositionBound startRange) {
        return extent.navigator().afterN(startPosition, n, startRange);
    }

    /** Whether {@code position} names a readable entry or the place of the next one. */
    boolean isValidPosition(Position position) {
        return extent.navigator().isValid(position);
    }

    // ---- ledgers: raw types, because the class of the elements has another name in every other Pulsar release

    @Override
    public CompletableFuture getLedgerInfo(long ledgerId) {
        LedgerDetails details = extent.spans().details(ledgerId);
        return CompletableFuture.completedFuture(details == null ? null : LedgerInfos.of(details));
    }

    @Override
    public Optional getOptionalLedgerInfo(long ledgerId) {
        return Optional.ofNullable(extent.spans().details(ledgerId)).map(LedgerInfos::of);
    }

    @Override
    public NavigableMap getLedgersInfo() {
        return LedgerInfos.of(extent.spans().details());
    }
}
