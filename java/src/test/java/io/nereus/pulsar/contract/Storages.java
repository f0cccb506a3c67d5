package io.nereus.pulsar.contract;

import org.testng.annotations.DataProvider;

/**
 * The data provider of the contract tests.
 *
 * <p>The system property {@code nereus.contract.storage} leaves one storage. A run on another Pulsar release than the one that
 * is compiled against sets it to NEREUS: the mock under stock is of that one release, and what the tests record of stock too.
 */
public final class Storages {

    private Storages() {
    }

    /** Each storage once, or the one that is asked for. */
    @DataProvider(name = "storages")
    public static Object[][] storages() {
        String only = System.getProperty("nereus.contract.storage");
        return only != null ? new Object[][] {{Storage.valueOf(only)}} : new Object[][] {{Storage.STOCK}, {Storage.NEREUS}};
    }
}
