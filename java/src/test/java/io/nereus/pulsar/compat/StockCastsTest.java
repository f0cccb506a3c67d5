package io.nereus.pulsar.compat;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerImpl;
import org.testng.annotations.Test;

/** A class that casts is told from its file, before anybody calls it. */
public class StockCastsTest {

    private static final String STOCK_LEDGER = "org/apache/bookkeeper/mledger/impl/ManagedLedgerImpl";

    /** Also has constants of every kind that takes more than one place, before and behind. */
    private static final class Casts {

        static Object cast(Object ledger, long id, double rate) {
            Runnable later = () -> System.out.println(id + 1234567890123L + rate * 1.5 + 2.5f);
            later.run();
            return (ManagedLedgerImpl) ledger;
        }
    }

    /** Has the name within a longer text only. */
    private interface Mentions {

        void take(ManagedLedgerImpl ledger);
    }

    private static boolean names(Class<?> type, String text) throws IOException {
        try (InputStream file = type.getResourceAsStream(type.getName().substring(type.getPackageName().length() + 1) + ".class")) {
            return StockCasts.names(file, text);
        }
    }

    @Test
    public void aCastIsFoundAndAMentionIsNone() throws Exception {
        assertTrue(names(Casts.class, STOCK_LEDGER));
        assertFalse(names(Mentions.class, STOCK_LEDGER));
        assertFalse(names(String.class, STOCK_LEDGER));
        assertTrue(names(Math.class, "java/lang/StrictMath"), "behind longs and doubles");
    }

    @Test
    public void whatIsNoClassFileIsAnError() {
        assertThrows(IOException.class, () -> StockCasts.names(new ByteArrayInputStream(new byte[64]), STOCK_LEDGER));
        assertThrows(IOException.class, () -> StockCasts.names(new ByteArrayInputStream(new byte[2]), STOCK_LEDGER));
    }

    /** Two ways of looking at the same file; which of the two answers is right depends on the release. */
    @Test
    public void theClassesOfThisReleaseAreJudgedByTheirClassFiles() throws Exception {
        for (String name : List.of("PersistentReplicator", "PersistentStickyKeyDispatcherMultipleConsumersClassic")) {
            Class<?> type;
            try {
                type = Class.forName("org.apache.pulsar.broker.service.persistent." + name, false, getClass().getClassLoader());
            } catch (ClassNotFoundException e) {
                continue; // the release has none
            }
            try (InputStream file = type.getResourceAsStream(name + ".class")) {
                String bytes = new String(file.readAllBytes(), StandardCharsets.ISO_8859_1);
                assertEquals(StockCasts.in(type), bytes.contains(STOCK_LEDGER), name);
            }
        }
    }

    @Test
    public void otherClassesAreNotJudgedByWhatTheyName() {
        assertFalse(StockCasts.in(Casts.class), "it may ask first whether a ledger is one");
        assertFalse(StockCasts.in(String.class));
    }
}
