package io.nereus.pulsar.contract;

import static io.nereus.pulsar.contract.Ledgers.addMany;
import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.collect.Range;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionBound;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.testng.annotations.Test;

/** The same questions about positions of one ledger get the same answers from both storages. */
public class PositionParityContractTest extends ContractTest {

    private static final int ENTRIES = 7;

    /** Asks both ledgers, which hold the same entries, and compares the entry ids of the answers. */
    private void compare(String question, BiFunction<ManagedLedger, Long, Object> ask) throws Exception {
        List<Object> answers = new ArrayList<>();
        for (Storage storage : Storage.values()) {
            ManagedLedger ledger = world(storage).open("public/default/persistent/parity");
            if (ledger.getNumberOfEntries() == 0) {
                addMany(ledger, ENTRIES);
            }
            long id = ledger.getLastConfirmedEntry().getLedgerId();
            Object answer = ask.apply(ledger, id);
            answers.add(answer instanceof Position position
                ? (position.getLedgerId() - id) + ":" + position.getEntryId() : answer);
        }
        assertThat(answers.get(1)).as(question).isEqualTo(answers.get(0));
    }

    @Test
    public void nextAndPreviousAgree() throws Exception {
        for (long entry = -1; entry <= ENTRIES + 3; entry++) {
            long from = entry;
            compare("next of " + from,
                (ledger, id) -> ledger.getNextValidPosition(PositionFactory.create(id, from)));
        }
        for (long entry = -1; entry <= ENTRIES; entry++) {
            long from = entry;
            compare("previous of " + from,
                (ledger, id) -> ledger.getPreviousPosition(PositionFactory.create(id, from)));
        }
    }

    @Test
    public void nFurtherAgrees() throws Exception {
        for (PositionBound bound : PositionBound.values()) {
            for (long entry = -1; entry < ENTRIES; entry++) {
                for (long n = 0; n <= ENTRIES + 2; n++) {
                    long from = entry;
                    long further = n;
                    compare(further + " after " + from + " " + bound, (ledger, id) ->
                        ledger.getPositionAfterN(PositionFactory.create(id, from), further, bound));
                }
            }
        }
    }

    @Test
    public void countsAgree() throws Exception {
        for (long lower = -1; lower < ENTRIES; lower++) {
            for (long upper = lower; upper < ENTRIES; upper++) {
                long low = lower;
                long high = upper;
                compare("entries in (" + low + ", " + high + "]", (ledger, id) -> ledger.getNumberOfEntries(
                    Range.openClosed(PositionFactory.create(id, low), PositionFactory.create(id, high))));
            }
        }
    }
}
