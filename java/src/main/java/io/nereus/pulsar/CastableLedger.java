package io.nereus.pulsar;

import com.google.common.collect.Range;
import io.netty.buffer.ByteBuf;
import io.nereus.pulsar.compat.Unconstructed;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.function.Predicate;
import org.apache.bookkeeper.common.util.OrderedScheduler;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.CloseCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteLedgerCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OffloadCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.ReadEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.TerminateCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.UpdatePropertiesCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedgerAttributes;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerMXBean;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionBound;
import org.apache.bookkeeper.mledger.impl.ManagedCursorContainer;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerImpl;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.common.policies.data.ManagedLedgerInternalStats;

/**
 * A Nereus ledger in the one type that classes of some Pulsar releases cast their ledger to; see {@link ShownLedgers}.
 *
 * <p>Promises: every method of Pulsar's ledger interface, of all releases that the jar serves, is the Nereus ledger's, and
 * so are the two threads that a replicator takes; nothing that stock's class itself keeps is ever used. It is a name for
 * that ledger, not a second one: it compares by identity, as the ledger does, and there is one for each ledger. Thread-safe.
 *
 * <p>Does not: answer what only stock's class has beside those. Nobody asks: who casts wants the two threads or methods of
 * the interface, and stock's own cursors, which do more with theirs, never see one of these. Refusals could not be complete
 * either, because those methods change with every release.
 *
 * <p>Long because the interface is; there is nothing in it but delegation.
 */
@SuppressWarnings({"rawtypes", "unchecked"})   // see the section on ledgers
final class CastableLedger extends ManagedLedgerImpl {

    /** Set once, before anybody sees the object: not final, because no constructor runs. */
    private NereusManagedLedger ledger;

    /** For the compiler alone: stock's constructor wants a BookKeeper client, and opens a ledger there. */
    private CastableLedger() {
        super(null, null, null, null, null, null);
    }

    /**
     * Makes the object that stands for {@code ledger}.
     *
     * @throws ReflectiveOperationException if this Java makes no object without its constructor
     */
    static CastableLedger of(NereusManagedLedger ledger) throws ReflectiveOperationException {
        CastableLedger made = Unconstructed.make(CastableLedger.class);
        made.ledger = ledger;
        return made;
    }

    // ---- executors

    /** The ledger's own thread: what runs there is in order with its callbacks. */
    @Override
    public ExecutorService getExecutor() {
        return ledger.scheduler();
    }

    /** The threads of all ledgers of the broker. */
    @Override
    public OrderedScheduler getScheduledExecutor() {
        return ledger.schedulers();
    }

    // ---- appends

    @Override
    public Position addEntry(byte[] data) throws InterruptedException, ManagedLedgerException {
        return ledger.addEntry(data);
    }

    @Override
    public Position addEntry(byte[] data, int numberOfMessages) throws InterruptedException, ManagedLedgerException {
        return ledger.addEntry(data, numberOfMessages);
    }

    @Override
    public Position addEntry(byte[] data, int offset, int length) throws InterruptedException, ManagedLedgerException {
        return ledger.addEntry(data, offset, length);
    }

    @Override
    public Position addEntry(byte[] data, int numberOfMessages, int offset, int length)
            throws InterruptedException, ManagedLedgerException {
        return ledger.addEntry(data, numberOfMessages, offset, length);
    }

    @Override
    public void asyncAddEntry(ByteBuf buffer, AddEntryCallback callback, Object ctx) {
        ledger.asyncAddEntry(buffer, callback, ctx);
    }

    @Override
    public void asyncAddEntry(byte[] data, AddEntryCallback callback, Object ctx) {
        ledger.asyncAddEntry(data, callback, ctx);
    }

    @Override
    public void asyncAddEntry(ByteBuf buffer, int numberOfMessages, AddEntryCallback callback, Object ctx) {
        ledger.asyncAddEntry(buffer, numberOfMessages, callback, ctx);
    }

    @Override
    public void asyncAddEntry(byte[] data, int offset, int length, AddEntryCallback callback, Object ctx) {
        ledger.asyncAddEntry(data, offset, length, callback, ctx);
    }

    @Override
    public void asyncAddEntry(byte[] data, int numberOfMessages, int offset, int length, AddEntryCallback callback,
                              Object ctx) {
        ledger.asyncAddEntry(data, numberOfMessages, offset, length, callback, ctx);
    }

    @Override
    public void readyToCreateNewLedger() {
        ledger.readyToCreateNewLedger();
    }

    @Override
    public void unfenceForInterceptorException() {
        ledger.unfenceForInterceptorException();
    }

    @Override
    public int getPendingAddEntriesCount() {
        return ledger.getPendingAddEntriesCount();
    }

    @Override
    public ManagedLedgerInterceptor getManagedLedgerInterceptor() {
        return ledger.getManagedLedgerInterceptor();
    }

    // ---- cursors

    @Override
    public ManagedCursor openCursor(String name) throws InterruptedException, ManagedLedgerException {
        return ledger.openCursor(name);
    }

    @Override
    public ManagedCursor openCursor(String name, InitialPosition initialPosition)
            throws InterruptedException, ManagedLedgerException {
        return ledger.openCursor(name, initialPosition);
    }

    @Override
    public ManagedCursor openCursor(String name, InitialPosition initialPosition, Map<String, Long> positionProperties,
                                    Map<String, String> cursorProperties)
            throws InterruptedException, ManagedLedgerException {
        return ledger.openCursor(name, initialPosition, positionProperties, cursorProperties);
    }

    @Override
    public void asyncOpenCursor(String name, OpenCursorCallback callback, Object ctx) {
        ledger.asyncOpenCursor(name, callback, ctx);
    }

    @Override
    public void asyncOpenCursor(String name, InitialPosition initialPosition, OpenCursorCallback callback, Object ctx) {
        ledger.asyncOpenCursor(name, initialPosition, callback, ctx);
    }

    @Override
    public void asyncOpenCursor(String name, InitialPosition initialPosition, Map<String, Long> positionProperties,
                                Map<String, String> cursorProperties, OpenCursorCallback callback, Object ctx) {
        ledger.asyncOpenCursor(name, initialPosition, positionProperties, cursorProperties, callback, ctx);
    }

    @Override
    public ManagedCursor newNonDurableCursor(Position startPosition) throws ManagedLedgerException {
        return ledger.newNonDurableCursor(startPosition);
    }

    @Override
    public ManagedCursor newNonDurableCursor(Position startPosition, String subscriptionName)
            throws ManagedLedgerException {
        return ledger.newNonDurableCursor(startPosition, subscriptionName);
    }

    @Override
    public ManagedCursor newNonDurableCursor(Position startPosition, String subscriptionName,
                                             InitialPosition initialPosition, boolean isReadCompacted)
            throws ManagedLedgerException {
        return ledger.newNonDurableCursor(startPosition, subscriptionName, initialPosition, isReadCompacted);
    }

    @Override
    public void deleteCursor(String name) throws InterruptedException, ManagedLedgerException {
        ledger.deleteCursor(name);
    }

    @Override
    public void asyncDeleteCursor(String name, DeleteCursorCallback callback, Object ctx) {
        ledger.asyncDeleteCursor(name, callback, ctx);
    }

    @Override
    public void removeWaitingCursor(ManagedCursor cursor) {
        ledger.removeWaitingCursor(cursor);
    }

    @Override
    public ManagedCursorContainer getCursors() {
        return (ManagedCursorContainer) ledger.getCursors();
    }

    @Override
    public ManagedCursorContainer getActiveCursors() {
        return (ManagedCursorContainer) ledger.getActiveCursors();
    }

    @Override
    public ManagedCursor getSlowestConsumer() {
        return ledger.getSlowestConsumer();
    }

    @Override
    public void rolloverCursorsInBackground() {
        ledger.rolloverCursorsInBackground();
    }

    @Override
    public void skipNonRecoverableLedger(long ledgerId) {
        ledger.skipNonRecoverableLedger(ledgerId);
    }

    @Override
    public void checkCursorsToCacheEntries() {
        ledger.checkCursorsToCacheEntries();
    }

    // ---- reads and positions

    @Override
    public void asyncReadEntry(Position position, ReadEntryCallback callback, Object ctx) {
        ledger.asyncReadEntry(position, callback, ctx);
    }

    @Override
    public CompletableFuture<Position> asyncFindPosition(Predicate<Entry> predicate) {
        return ledger.asyncFindPosition(predicate);
    }

    @Override
    public CompletableFuture<Position> getLastDispatchablePosition(Predicate<Entry> predicate, Position startPosition) {
        return ledger.getLastDispatchablePosition(predicate, startPosition);
    }

    @Override
    public Position getFirstPosition() {
        return ledger.getFirstPosition();
    }

    @Override
    public Position getLastConfirmedEntry() {
        return ledger.getLastConfirmedEntry();
    }

    @Override
    public Position getNextValidPosition(Position position) {
        return ledger.getNextValidPosition(position);
    }

    @Override
    public Position getPreviousPosition(Position position) {
        return ledger.getPreviousPosition(position);
    }

    @Override
    public Position getPositionAfterN(Position startPosition, long n, PositionBound startRange) {
        return ledger.getPositionAfterN(startPosition, n, startRange);
    }

    // ---- counts, sizes and statistics

    @Override
    public long getNumberOfEntries() {
        return ledger.getNumberOfEntries();
    }

    @Override
    public long getNumberOfEntries(Range<Position> range) {
        return ledger.getNumberOfEntries(range);
    }

    @Override
    public long getNumberOfActiveEntries() {
        return ledger.getNumberOfActiveEntries();
    }

    @Override
    public long getTotalSize() {
        return ledger.getTotalSize();
    }

    @Override
    public long getEstimatedBacklogSize() {
        return ledger.getEstimatedBacklogSize();
    }

    @Override
    public long getEstimatedBacklogSize(Position position) {
        return ledger.getEstimatedBacklogSize(position);
    }

    @Override
    public CompletableFuture<Long> getEarliestMessagePublishTimeInBacklog() {
        return ledger.getEarliestMessagePublishTimeInBacklog();
    }

    @Override
    public long getCacheSize() {
        return ledger.getCacheSize();
    }

    @Override
    public ManagedLedgerMXBean getStats() {
        return ledger.getStats();
    }

    @Override
    public ManagedLedgerAttributes getManagedLedgerAttributes() {
        return ledger.getManagedLedgerAttributes();
    }

    @Override
    public CompletableFuture<ManagedLedgerInternalStats> getManagedLedgerInternalStats(boolean includeLedgerMetadata) {
        return ledger.getManagedLedgerInternalStats(includeLedgerMetadata);
    }

    // ---- ledgers: raw types, as in LedgerQueries

    @Override
    public CompletableFuture getLedgerInfo(long ledgerId) {
        return ledger.getLedgerInfo(ledgerId);
    }

    @Override
    public Optional getOptionalLedgerInfo(long ledgerId) {
        return ledger.getOptionalLedgerInfo(ledgerId);
    }

    @Override
    public NavigableMap getLedgersInfo() {
        return ledger.getLedgersInfo();
    }

    @Override
    @Deprecated
    public void rollCurrentLedgerIfFull() {
        ledger.rollCurrentLedgerIfFull();
    }

    @Override
    public boolean checkInactiveLedgerAndRollOver() {
        return ledger.checkInactiveLedgerAndRollOver();
    }

    @Override
    public void trimConsumedLedgersInBackground(CompletableFuture<?> promise) {
        ledger.trimConsumedLedgersInBackground(promise);
    }

    // ---- offload

    @Override
    public Position offloadPrefix(Position position) throws ManagedLedgerException {
        return ledger.offloadPrefix(position);
    }

    @Override
    public void asyncOffloadPrefix(Position position, OffloadCallback callback, Object ctx) {
        ledger.asyncOffloadPrefix(position, callback, ctx);
    }

    @Override
    public long getOffloadedSize() {
        return ledger.getOffloadedSize();
    }

    @Override
    public long getLastOffloadedLedgerId() {
        return ledger.getLastOffloadedLedgerId();
    }

    @Override
    public long getLastOffloadedSuccessTimestamp() {
        return ledger.getLastOffloadedSuccessTimestamp();
    }

    @Override
    public long getLastOffloadedFailureTimestamp() {
        return ledger.getLastOffloadedFailureTimestamp();
    }

    // ---- name, configuration and properties

    @Override
    public String getName() {
        return ledger.getName();
    }

    @Override
    public ManagedLedgerConfig getConfig() {
        return ledger.getConfig();
    }

    @Override
    public void setConfig(ManagedLedgerConfig config) {
        ledger.setConfig(config);
    }

    @Override
    public Map<String, String> getProperties() {
        return ledger.getProperties();
    }

    @Override
    public void setProperty(String key, String value) throws InterruptedException, ManagedLedgerException {
        ledger.setProperty(key, value);
    }

    @Override
    public void asyncSetProperty(String key, String value, UpdatePropertiesCallback callback, Object ctx) {
        ledger.asyncSetProperty(key, value, callback, ctx);
    }

    @Override
    public void setProperties(Map<String, String> properties) throws InterruptedException, ManagedLedgerException {
        ledger.setProperties(properties);
    }

    @Override
    public void asyncSetProperties(Map<String, String> properties, UpdatePropertiesCallback callback, Object ctx) {
        ledger.asyncSetProperties(properties, callback, ctx);
    }

    @Override
    public void deleteProperty(String key) throws InterruptedException, ManagedLedgerException {
        ledger.deleteProperty(key);
    }

    @Override
    public void asyncDeleteProperty(String key, UpdatePropertiesCallback callback, Object ctx) {
        ledger.asyncDeleteProperty(key, callback, ctx);
    }

    // ---- end of life

    @Override
    public Position terminate() throws InterruptedException, ManagedLedgerException {
        return ledger.terminate();
    }

    @Override
    public void asyncTerminate(TerminateCallback callback, Object ctx) {
        ledger.asyncTerminate(callback, ctx);
    }

    @Override
    public boolean isTerminated() {
        return ledger.isTerminated();
    }

    @Override
    public CompletableFuture<Position> asyncMigrate() {
        return ledger.asyncMigrate();
    }

    @Override
    public boolean isMigrated() {
        return ledger.isMigrated();
    }

    @Override
    public CompletableFuture<Void> asyncTruncate() {
        return ledger.asyncTruncate();
    }

    @Override
    public void close() throws InterruptedException, ManagedLedgerException {
        ledger.close();
    }

    @Override
    public void asyncClose(CloseCallback callback, Object ctx) {
        ledger.asyncClose(callback, ctx);
    }

    @Override
    public void delete() throws InterruptedException, ManagedLedgerException {
        ledger.delete();
    }

    @Override
    public void asyncDelete(DeleteLedgerCallback callback, Object ctx) {
        ledger.asyncDelete(callback, ctx);
    }

    // ---- what Pulsar has from 4.0.9 or 4.1 on: hence without @Override

    public long getLastAddEntryTime() {
        return ledger.getLastAddEntryTime();
    }

    public long getMetadataCreationTimestamp() {
        return ledger.getMetadataCreationTimestamp();
    }

    public CompletableFuture<Void> asyncAddLedgerProperty(long ledgerId, String key, String value) {
        return ledger.asyncAddLedgerProperty(ledgerId, key, value);
    }

    public CompletableFuture<Void> asyncRemoveLedgerProperty(long ledgerId, String key) {
        return ledger.asyncRemoveLedgerProperty(ledgerId, key);
    }

    public CompletableFuture<String> asyncGetLedgerProperty(long ledgerId, String key) {
        return ledger.asyncGetLedgerProperty(ledgerId, key);
    }

    @Override
    public String toString() {
        return ledger.toString();
    }
}
