package io.nereus.pulsar.contract;

import org.testng.annotations.DataProvider;

/** The data provider of the contract tests. */
public final class Storages {

    private Storages() {
    }

    /** Each storage once. */
    @DataProvider(name = "storages")
    public static Object[][] storages() {
        return new Object[][] {{Storage.STOCK}, {Storage.NEREUS}};
    }
}
