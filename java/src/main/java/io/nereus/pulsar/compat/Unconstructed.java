package io.nereus.pulsar.compat;

import java.lang.reflect.Constructor;

/**
 * Makes objects without running any constructor of their class: all their fields are null, zero or false. It is what
 * deserialization does, through the entry that the JDK keeps for serialization libraries (module {@code jdk.unsupported});
 * by reflection, because a compiler warns of every mention of it.
 */
public final class Unconstructed {

    private static final String FACTORY = "sun.reflect.ReflectionFactory";

    private Unconstructed() {
    }

    /**
     * Makes one object of {@code type}. Not cheap: a class is made for each call.
     *
     * @throws ReflectiveOperationException if this Java does not have that entry
     */
    public static <T> T make(Class<T> type) throws ReflectiveOperationException {
        Class<?> factory = Class.forName(FACTORY);
        Object entry = factory.getMethod("getReflectionFactory").invoke(null);
        Constructor<?> constructor = (Constructor<?>) factory
            .getMethod("newConstructorForSerialization", Class.class, Constructor.class)
            .invoke(entry, type, Object.class.getConstructor());
        return type.cast(constructor.newInstance());
    }
}
