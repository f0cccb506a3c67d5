package io.nereus.tests.linkage;

import io.nereus.pulsar.compat.CursorContainer;
import io.nereus.pulsar.compat.LedgerDetails;
import io.nereus.pulsar.compat.LedgerInfos;
import io.nereus.pulsar.compat.MessagePositions;
import io.nereus.pulsar.compat.NoEntryCacheManager;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.ManagedCursorContainer;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerMBeanImpl;

/** Calls what looks Pulsar's classes up by name or stands on one of them, which no check of references can see. */
final class CompatCheck {

    private static final String MESSAGE_POSITION = "org.apache.pulsar.compaction.TopicCompactionService$MessagePosition";

    /** A check of one class of {@code compat}; it throws when this Pulsar does not fit. */
    private interface Check {
        void run() throws ReflectiveOperationException;
    }

    private CompatCheck() {
    }

    /** What does not work, a line each. */
    static List<String> problems() {
        List<String> problems = new ArrayList<>();
        run("LedgerInfos", CompatCheck::ledgerInfos, problems);
        run("CursorContainer", CompatCheck::cursorContainer, problems);
        run("MessagePositions", CompatCheck::messagePositions, problems);
        run("NoEntryCacheManager", CompatCheck::entryCacheManager, problems);
        run("LedgerBean", CompatCheck::ledgerBean, problems);
        return problems;
    }

    private static void run(String name, Check check, List<String> problems) {
        try {
            check.run();
        } catch (InvocationTargetException e) {
            problems.add(name + ": " + e.getCause());
        } catch (ReflectiveOperationException | RuntimeException | LinkageError | AssertionError e) {
            problems.add(name + ": " + e);
        }
    }

    private static void ledgerInfos() throws ReflectiveOperationException {
        Object open = LedgerInfos.of(new LedgerDetails(7, 3, 300, 0));
        expect(7L, call(open, "getLedgerId"));
        expect(3L, call(open, "getEntries"));
        expect(300L, call(open, "getSize"));
        expect(0L, call(open, "getTimestamp"));
        expect(true, call(open, "hasTimestamp"));
        expect(9L, call(LedgerInfos.of(new LedgerDetails(7, 3, 300, 9)), "getTimestamp"));
    }

    private static void cursorContainer() {
        CursorContainer container = new CursorContainer();
        expect(true, container.isEmpty());
        ManagedCursor slow = cursor("slow");
        ManagedCursor fast = cursor("fast");
        container.add(slow, PositionFactory.create(1, 1));
        container.add(fast, PositionFactory.create(1, 5));
        expect(slow, container.slowest());
        expect(true, container.hasDurable());
        expect(fast, container.get("fast"));
        expect(false, container.moved(fast, PositionFactory.create(1, 6)));
        expect(true, container.moved(slow, PositionFactory.create(1, 9)));
        expect(fast, container.slowest());
        expect(true, container.asPulsar() instanceof ManagedCursorContainer);
        expect(true, container.remove("fast"));
        expect(false, container.remove("fast"));
        expect(false, container.isEmpty());
    }

    private static void messagePositions() {
        boolean known = true;
        try {
            Class.forName(MESSAGE_POSITION);
        } catch (ClassNotFoundException releaseBefore42) {
            known = false;
        }
        try {
            expect(MESSAGE_POSITION, MessagePositions.earliest().getClass().getName());
        } catch (UnsupportedOperationException refused) {
            expect(false, known);
        }
    }

    /** Every method that this Pulsar's interface has can be called; the two that would make a cache refuse. */
    private static void entryCacheManager() throws ReflectiveOperationException {
        NoEntryCacheManager manager = new NoEntryCacheManager(10, 0.5);
        manager.updateCacheSizeAndThreshold(20);
        manager.updateCacheEvictionWatermark(0.7);
        expect(20L, manager.getMaxSize());
        expect(0.7, manager.getCacheEvictionWatermark());
        for (Method method : manager.getClass().getInterfaces()[0].getMethods()) {
            if (method.getParameterCount() == 0) {
                method.invoke(manager);
            }
        }
    }

    /** Whatever stock's bean has in this Pulsar can be called on ours, which has no stock ledger inside. */
    private static void ledgerBean() throws ReflectiveOperationException {
        Object stats = make("io.nereus.pulsar.LedgerStats", new Object[1]);
        Object bean = make("io.nereus.pulsar.LedgerBean", "any", stats, (LongSupplier) () -> 1, (LongSupplier) () -> 1);
        for (Method method : ManagedLedgerMBeanImpl.class.getDeclaredMethods()) {
            if (Modifier.isPublic(method.getModifiers())) {
                method.invoke(bean, Arrays.stream(method.getParameterTypes()).map(CompatCheck::any).toArray());
            }
        }
    }

    /** An object of a class with one constructor. */
    private static Object make(String className, Object... arguments) throws ReflectiveOperationException {
        Constructor<?> constructor = Class.forName(className).getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        return constructor.newInstance(arguments);
    }

    private static Object any(Class<?> type) {
        if (type == String.class) {
            return "any";
        }
        if (type == TimeUnit.class) {
            return TimeUnit.SECONDS;
        }
        if (type == long.class) {
            return 1L;
        }
        if (type == int.class) {
            return 1;
        }
        return null;
    }

    private static ManagedCursor cursor(String name) {
        return (ManagedCursor) Proxy.newProxyInstance(CompatCheck.class.getClassLoader(), new Class<?>[] {ManagedCursor.class},
            (proxy, method, arguments) -> switch (method.getName()) {
                case "getName", "toString" -> name;
                case "isDurable" -> true;
                case "hashCode" -> name.hashCode();
                case "equals" -> proxy == arguments[0];
                default -> throw new UnsupportedOperationException(method.toString());
            });
    }

    private static Object call(Object target, String method) throws ReflectiveOperationException {
        return target.getClass().getMethod(method).invoke(target);
    }

    private static void expect(Object expected, Object actual) {
        if (!expected.equals(actual)) {
            throw new AssertionError("expected " + expected + ", got " + actual);
        }
    }
}
