package io.nereus.pulsar;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OffloadCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.OpenCursorCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.UpdatePropertiesCallback;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;

/**
 * The half of Pulsar's ledger interface that only says the other half in another way: each blocking call is its
 * asynchronous call and a wait, each short form is the long form with defaults. Also the calls for which Nereus has one
 * fixed answer, because what they are about does not exist here.
 *
 * <p>Owns no state. A blocking call that is made on the ledger's executor is refused at once, because the answer it waits
 * for would come there; what was asked for is carried out all the same.
 */
abstract class BlockingLedger implements ManagedLedger {

    /** Whether the caller is on the thread on which this ledger calls back. */
    abstract boolean isOnExecutor();

    private <T> T waitFor(CompletableFuture<T> future, String what)
            throws InterruptedException, ManagedLedgerException {
        Waiting.checkCanWait(future, what, isOnExecutor());
        return Waiting.forResult(future, what);
    }

    // ---- appends

    @Override
    public Position addEntry(byte[] data) throws InterruptedException, ManagedLedgerException {
        return addEntry(data, 1, 0, data.length);
    }

    @Override
    public Position addEntry(byte[] data, int numberOfMessages) throws InterruptedException, ManagedLedgerException {
        return addEntry(data, numberOfMessages, 0, data.length);
    }

    @Override
    public Position addEntry(byte[] data, int offset, int length) throws InterruptedException, ManagedLedgerException {
        return addEntry(data, 1, offset, length);
    }

    @Override
    public Position addEntry(byte[] data, int numberOfMessages, int offset, int length)
            throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Position> added = new CompletableFuture<>();
        asyncAddEntry(data, numberOfMessages, offset, length, Callbacks.added(added), null);
        Waiting.checkCanWait(added, "an append to ledger " + getName(), isOnExecutor());
        return Waiting.forOutcome(added);
    }

    @Override
    public void asyncAddEntry(byte[] data, AddEntryCallback callback, Object ctx) {
        asyncAddEntry(data, 1, 0, data.length, callback, ctx);
    }

    @Override
    public void asyncAddEntry(byte[] data, int offset, int length, AddEntryCallback callback, Object ctx) {
        asyncAddEntry(data, 1, offset, length, callback, ctx);
    }

    @Override
    public void asyncAddEntry(byte[] data, int numberOfMessages, int offset, int length, AddEntryCallback callback,
                              Object ctx) {
        asyncAddEntry(Unpooled.wrappedBuffer(data, offset, length), numberOfMessages, callback, ctx);
    }

    @Override
    public void asyncAddEntry(ByteBuf buffer, AddEntryCallback callback, Object ctx) {
        asyncAddEntry(buffer, 1, callback, ctx);
    }

    // ---- cursors

    @Override
    public ManagedCursor openCursor(String name) throws InterruptedException, ManagedLedgerException {
        return openCursor(name, InitialPosition.Latest);
    }

    @Override
    public ManagedCursor openCursor(String name, InitialPosition initialPosition)
            throws InterruptedException, ManagedLedgerException {
        return openCursor(name, initialPosition, Map.of(), Map.of());
    }

    @Override
    public ManagedCursor openCursor(String name, InitialPosition initialPosition, Map<String, Long> properties,
                                    Map<String, String> cursorProperties)
            throws InterruptedException, ManagedLedgerException {
        CompletableFuture<ManagedCursor> opened = new CompletableFuture<>();
        asyncOpenCursor(name, initialPosition, properties, cursorProperties, new OpenCursorCallback() {
            @Override
            public void openCursorComplete(ManagedCursor cursor, Object ctx) {
                opened.complete(cursor);
            }

            @Override
            public void openCursorFailed(ManagedLedgerException exception, Object ctx) {
                opened.completeExceptionally(exception);
            }
        }, null);
        return waitFor(opened, "opening cursor " + name + " of ledger " + getName());
    }

    @Override
    public void asyncOpenCursor(String name, OpenCursorCallback callback, Object ctx) {
        asyncOpenCursor(name, InitialPosition.Latest, callback, ctx);
    }

    @Override
    public void asyncOpenCursor(String name, InitialPosition initialPosition, OpenCursorCallback callback, Object ctx) {
        asyncOpenCursor(name, initialPosition, Map.of(), Map.of(), callback, ctx);
    }

    @Override
    public ManagedCursor newNonDurableCursor(Position startCursorPosition) throws ManagedLedgerException {
        return newNonDurableCursor(startCursorPosition, "non-durable-cursor-" + UUID.randomUUID());
    }

    @Override
    public ManagedCursor newNonDurableCursor(Position startPosition, String subscriptionName)
            throws ManagedLedgerException {
        return newNonDurableCursor(startPosition, subscriptionName, InitialPosition.Latest, false);
    }

    @Override
    public void deleteCursor(String name) throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Void> deleted = new CompletableFuture<>();
        asyncDeleteCursor(name, Callbacks.cursorDeleted(deleted), null);
        waitFor(deleted, "deleting cursor " + name + " of ledger " + getName());
    }

    // ---- properties

    @Override
    public void setProperty(String key, String value) throws InterruptedException, ManagedLedgerException {
        setProperties(Map.of(key, value));
    }

    @Override
    public void asyncSetProperty(String key, String value, UpdatePropertiesCallback callback, Object ctx) {
        asyncSetProperties(Map.of(key, value), callback, ctx);
    }

    @Override
    public void setProperties(Map<String, String> properties) throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Map<String, String>> updated = new CompletableFuture<>();
        asyncSetProperties(properties, Callbacks.propertiesUpdated(updated), null);
        waitFor(updated, "setting properties of ledger " + getName());
    }

    @Override
    public void deleteProperty(String key) throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Map<String, String>> updated = new CompletableFuture<>();
        asyncDeleteProperty(key, Callbacks.propertiesUpdated(updated), null);
        waitFor(updated, "deleting property " + key + " of ledger " + getName());
    }

    // ---- end of life

    @Override
    public Position terminate() throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Position> terminated = new CompletableFuture<>();
        asyncTerminate(Callbacks.terminated(terminated), null);
        return waitFor(terminated, "terminating ledger " + getName());
    }

    @Override
    public void close() throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Void> closed = new CompletableFuture<>();
        asyncClose(Callbacks.closed(closed), null);
        waitFor(closed, "closing ledger " + getName());
    }

    @Override
    public void delete() throws InterruptedException, ManagedLedgerException {
        CompletableFuture<Void> deleted = new CompletableFuture<>();
        asyncDelete(Callbacks.deleted(deleted), null);
        waitFor(deleted, "deleting ledger " + getName());
    }

    // ---- Pulsar's offloaders, which Nereus does not need

    @Override
    public Position offloadPrefix(Position pos) throws ManagedLedgerException {
        throw offloadRefusal();
    }

    @Override
    public void asyncOffloadPrefix(Position pos, OffloadCallback callback, Object ctx) {
        callback.offloadFailed(offloadRefusal(), ctx);
    }

    // ---- properties of single ledgers, which Pulsar knows from 4.1 on: hence without @Override

    /** Refused: a virtual ledger is arithmetic, it has no record of its own that could keep properties. */
    public CompletableFuture<Void> asyncAddLedgerProperty(long ledgerId, String key, String value) {
        return CompletableFuture.failedFuture(ledgerPropertyRefusal());
    }

    /** Refused, as {@link #asyncAddLedgerProperty}. */
    public CompletableFuture<Void> asyncRemoveLedgerProperty(long ledgerId, String key) {
        return CompletableFuture.failedFuture(ledgerPropertyRefusal());
    }

    /** Refused, as {@link #asyncAddLedgerProperty}. */
    public CompletableFuture<String> asyncGetLedgerProperty(long ledgerId, String key) {
        return CompletableFuture.failedFuture(ledgerPropertyRefusal());
    }

    private static ManagedLedgerException ledgerPropertyRefusal() {
        return Unsupported.feature("properties of single ledgers", "set properties of the topic instead");
    }

    private static ManagedLedgerException offloadRefusal() {
        return Unsupported.feature("Pulsar's tiered-storage offloaders",
            "leave managedLedgerOffloadDriver unset and do not trigger offloads");
    }

    /** Always 0: nothing is ever offloaded by Pulsar's offloaders. */
    @Override
    public long getOffloadedSize() {
        return 0;
    }

    /** Always 0, stock's value for "never". */
    @Override
    public long getLastOffloadedLedgerId() {
        return 0;
    }

    /** Always 0, stock's value for "never". */
    @Override
    public long getLastOffloadedSuccessTimestamp() {
        return 0;
    }

    /** Always 0, stock's value for "never". */
    @Override
    public long getLastOffloadedFailureTimestamp() {
        return 0;
    }

    // ---- ledgers that are rolled, and entries that are cached in Java

    /** Closes the parts that are due, and lets retention look at them; soon, on the ledger's executor. */
    abstract void closeWhatIsDue();

    /** No ledger is rolled, but what Pulsar would have rolled is closed, so that retention may let it go. */
    @Override
    @Deprecated
    public void rollCurrentLedgerIfFull() {
        closeWhatIsDue();
    }

    /** As {@link #rollCurrentLedgerIfFull()}; true while there is something that was idle for so long. */
    @Override
    public boolean checkInactiveLedgerAndRollOver() {
        long idle = getConfig().getInactiveLedgerRollOverTimeMs();
        if (idle <= 0 || getNumberOfEntries() == 0 || !idleFor(idle)) {
            return false;
        }
        closeWhatIsDue();
        return true;
    }

    /** Whether the ledger is open and nothing was appended for longer than {@code millis}. */
    abstract boolean idleFor(long millis);

    /** Nothing to do: what a cursor persists is a record that is replaced, there is no cursor ledger to roll. */
    @Override
    public void rolloverCursorsInBackground() {
        // see the Javadoc
    }

    /** Skips a ledger in every cursor, as far as a cursor does. */
    @Override
    public void skipNonRecoverableLedger(long ledgerId) {
        for (ManagedCursor cursor : getCursors()) {
            cursor.skipNonRecoverableLedger(ledgerId);
        }
    }

    /** Nothing to do: entries are cached natively, whatever the cursors' distances are. */
    @Override
    public void checkCursorsToCacheEntries() {
        // see the Javadoc
    }

    /** Always 0: the facade keeps no entries, caches are native and shared by all topics. */
    @Override
    public long getCacheSize() {
        return 0;
    }
}
