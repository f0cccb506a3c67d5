package io.nereus.bench.ledger;

import io.netty.buffer.ByteBuf;
import java.util.List;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.Position;

/** Appends to managed ledgers. With more ledgers than appends under way every slot walks over all of them. */
final class LedgerAppends implements ClosedLoop.Target, AddEntryCallback {

    private final List<ManagedLedger> ledgers;
    private final int outstanding;
    /** Which ledger a slot comes to next; a slot has one append under way, so nobody else writes its place. */
    private final int[] turns;

    LedgerAppends(List<ManagedLedger> ledgers, int outstanding) {
        this.ledgers = ledgers;
        this.outstanding = outstanding;
        turns = new int[outstanding];
        for (int slot = 0; slot < outstanding; slot++) {
            turns[slot] = slot % ledgers.size();
        }
    }

    @Override
    public void append(int slot, ByteBuf entry, ClosedLoop.Answer answered) {
        ManagedLedger ledger = ledgers.get(turns[slot]);
        if (ledgers.size() > outstanding) {
            turns[slot] = (turns[slot] + outstanding) % ledgers.size();
        }
        ledger.asyncAddEntry(entry, this, answered);
    }

    @Override
    public void addComplete(Position position, ByteBuf data, Object ctx) {
        ((ClosedLoop.Answer) ctx).complete(null);
    }

    @Override
    public void addFailed(ManagedLedgerException exception, Object ctx) {
        ((ClosedLoop.Answer) ctx).complete(exception);
    }
}
