package io.nereus.pulsar.contract;

import org.apache.bookkeeper.client.AsyncCallback.OpenCallback;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.PulsarMockBookKeeper;
import org.apache.bookkeeper.common.util.OrderedExecutor;

/**
 * Pulsar's mock of BookKeeper with the one promise of real bookies that it lacks: opening a ledger for recovery fences
 * whoever still writes to it.
 */
final class FencingBookKeeper extends PulsarMockBookKeeper {

    FencingBookKeeper(OrderedExecutor threads) throws Exception {
        super(threads);
    }

    /** The mock has one handle for every opener; closing it makes it refuse adds and still serve reads. */
    @Override
    public void asyncOpenLedger(long id, DigestType digestType, byte[] password, OpenCallback callback, Object ctx) {
        super.asyncOpenLedger(id, digestType, password, (code, handle, ignored) -> {
            if (code == BKException.Code.OK) {
                handle.asyncClose((closed, same, none) -> callback.openComplete(code, handle, ctx), null);
            } else {
                callback.openComplete(code, handle, ctx);
            }
        }, null);
    }

    /** As Pulsar 4.2's BookKeeper client is asked; the mock has no metadata that could be kept up to date. */
    public void asyncOpenLedger(long id, DigestType digestType, byte[] password, OpenCallback callback, Object ctx,
                                boolean keepUpdateMetadata) {
        asyncOpenLedger(id, digestType, password, callback, ctx);
    }

    @Override
    public void asyncOpenLedgerNoRecovery(long id, DigestType digestType, byte[] password, OpenCallback callback,
                                          Object ctx) {
        super.asyncOpenLedger(id, digestType, password, callback, ctx);
    }

    /** A broker closes its client; the bookies live on until {@link #shutdown()}. */
    @Override
    public void close() {
        // nothing is the client's own
    }
}
