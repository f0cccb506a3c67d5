package io.nereus.pulsar.contract;

import io.netty.buffer.ByteBuf;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;

/**
 * An interceptor that sees the text of each entry that is read from storage, and may fail its read by throwing. Stock
 * asks it only for entries that its cache does not hold: open the ledger afresh before reading.
 */
final class PayloadHook implements ManagedLedgerInterceptor {

    private final Storage storage;
    private volatile Consumer<String> onRead = text -> { };

    PayloadHook(Storage storage) {
        this.storage = storage;
    }

    /** From now on calls {@code hook} for each entry. */
    void onRead(Consumer<String> hook) {
        onRead = hook;
    }

    /** From now on reading the entry {@code text} fails. */
    void failReadsOf(String text) {
        onRead = read -> {
            if (read.equals(text)) {
                throw new IllegalStateException("the test does not want " + text + " to be read");
            }
        };
    }

    @Override
    public PayloadProcessorHandle processPayloadBeforeEntryCache(ByteBuf dataReadFromLedger) {
        try {
            onRead.accept(dataReadFromLedger.toString(StandardCharsets.UTF_8));
        } catch (RuntimeException e) {
            if (storage == Storage.STOCK) {
                dataReadFromLedger.release(); // stock lends a reference of its own and forgets it then
            }
            throw e;
        }
        return null;
    }

    @Override
    public void beforeAddEntry(AddEntryOperation op, int numberOfMessages) {
    }

    @Override
    public void onManagedLedgerPropertiesInitialize(Map<String, String> propertiesMap) {
    }

    @Override
    public CompletableFuture<Void> onManagedLedgerLastLedgerInitialize(String name, LastEntryHandle lastEntryHandle) {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public void onUpdateManagedLedgerInfo(Map<String, String> propertiesMap) {
    }
}
