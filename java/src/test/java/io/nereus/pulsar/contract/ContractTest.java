package io.nereus.pulsar.contract;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.testng.annotations.AfterClass;
import org.testng.annotations.AfterMethod;

/**
 * Base of the tests that state one behaviour of both storages.
 *
 * <p>The worlds of {@link #world} are shared by the methods of a class, which run one after the other: use fresh names,
 * and leave no fault armed. Tests that restart, crash or break something take a {@link #freshWorld}.
 */
public abstract class ContractTest {

    private final Map<Storage, World> shared = new EnumMap<>(Storage.class);
    private final List<World> fresh = new ArrayList<>();

    /** This class's world of {@code storage}, made on first use and closed after the class. */
    protected final World world(Storage storage) throws Exception {
        World world = shared.get(storage);
        if (world == null) {
            world = World.of(storage);
            shared.put(storage, world);
        }
        return world;
    }

    /** A new ledger of this class's world. */
    protected final ManagedLedger ledger(Storage storage) throws Exception {
        World world = world(storage);
        return world.open(world.freshName());
    }

    /** A world for the running method alone, closed after it. */
    protected final World freshWorld(Storage storage) throws Exception {
        World world = World.of(storage);
        fresh.add(world);
        return world;
    }

    /** Closes what the method opened, and forgets faults it left armed in the shared worlds. */
    @AfterMethod(alwaysRun = true)
    public final void closeFreshWorlds() {
        shared.values().forEach(world -> world.store().reset());
        closeAll(fresh);
    }

    /** Closes the worlds of the class. */
    @AfterClass(alwaysRun = true)
    public final void closeSharedWorlds() {
        closeAll(new ArrayList<>(shared.values()));
        shared.clear();
    }

    private static void closeAll(List<World> worlds) {
        RuntimeException first = null;
        for (World world : worlds) {
            try {
                world.close();
            } catch (RuntimeException e) {
                first = first == null ? e : first;
            }
        }
        worlds.clear();
        if (first != null) {
            throw first;
        }
    }
}
