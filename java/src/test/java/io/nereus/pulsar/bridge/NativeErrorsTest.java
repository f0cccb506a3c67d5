package io.nereus.pulsar.bridge;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertSame;
import static org.testng.Assert.assertTrue;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.testng.annotations.DataProvider;
import org.testng.annotations.Test;

/** What the broker gets to see of a native failure. */
public class NativeErrorsTest {

    @DataProvider
    public static Object[][] codes() {
        return NativeErrors.table().keySet().stream().filter(code -> code != NativeErrors.OK)
                .map(code -> new Object[] {code}).toArray(Object[][]::new);
    }

    @Test
    public void everyConstantIsInTheTableUnderItsName() throws Exception {
        Map<Integer, String> constants = new HashMap<>();
        for (Field field : NativeErrors.class.getFields()) {
            if (Modifier.isStatic(field.getModifiers()) && field.getType() == int.class) {
                constants.put(field.getInt(null), field.getName());
            }
        }
        assertEquals(NativeErrors.table(), constants);
    }

    @Test(dataProvider = "codes")
    public void noFailureEverMakesTheBrokerSkipDataAndEachKeepsItsMessage(int code) {
        ManagedLedgerException mapped = map(code);
        assertFalse(mapped instanceof ManagedLedgerException.NonRecoverableLedgerException, mapped.toString());
        String text = mapped + " " + mapped.getCause();
        assertTrue(text.contains("segment 7 is gone"), text);
        assertTrue(text.contains(NativeErrors.name(code)), text);
    }

    @Test
    public void typesOnWhichTheBrokerDecides() {
        assertEquals(map(NativeErrors.FENCED).getClass(), ManagedLedgerException.ManagedLedgerFencedException.class);
        assertEquals(map(NativeErrors.TERMINATED).getClass(),
                ManagedLedgerException.ManagedLedgerTerminatedException.class);
        assertEquals(map(NativeErrors.CLOSED).getClass(),
                ManagedLedgerException.ManagedLedgerAlreadyClosedException.class);
        assertEquals(map(NativeErrors.SUSPENDED).getClass(),
                ManagedLedgerException.ManagedLedgerAlreadyClosedException.class);
        assertEquals(map(NativeErrors.UNAVAILABLE).getClass(), ManagedLedgerException.class);
        assertEquals(map(NativeErrors.CORRUPT).getClass(), ManagedLedgerException.class);
    }

    @Test
    public void aMissingLedgerCarriesTheCauseThatTopicDeletionLooksFor() {
        ManagedLedgerException mapped = map(NativeErrors.NOT_FOUND);
        assertEquals(mapped.getClass(), ManagedLedgerException.MetadataNotFoundException.class);
        assertTrue(mapped.getCause() instanceof MetadataStoreException.NotFoundException);
    }

    @Test
    public void wrappersOfFuturesAreLookedThrough() {
        NativeException cause = new NativeException(NativeErrors.FENCED, "x");
        Throwable wrapped = new CompletionException(new CompletionException(cause));
        assertEquals(NativeErrors.codeOf(wrapped), NativeErrors.FENCED);
        assertEquals(NativeErrors.toManagedLedgerException(wrapped).getClass(),
                ManagedLedgerException.ManagedLedgerFencedException.class);
        ManagedLedgerException already = new ManagedLedgerException("a");
        assertSame(NativeErrors.toManagedLedgerException(new CompletionException(already)), already);
        assertEquals(NativeErrors.codeOf(new IllegalStateException()), NativeErrors.INTERNAL);
    }

    private static ManagedLedgerException map(int code) {
        return NativeErrors.toManagedLedgerException(
                new CompletionException(new NativeException(code, "segment 7 is gone")));
    }
}
