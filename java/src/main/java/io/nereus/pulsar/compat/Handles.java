package io.nereus.pulsar.compat;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/**
 * Finds, once per class, methods whose owner differs between Pulsar releases. A handle in a constant costs a caller no more
 * than a plain call. Whatever is missing ends the loading of the class that asked, naming it.
 */
final class Handles {

    private static final MethodHandles.Lookup LOOKUP = MethodHandles.publicLookup();

    private Handles() {
    }

    /** Returns the class of that name, or null if this Pulsar does not have it. */
    static Class<?> find(String name) {
        try {
            return Class.forName(name, false, Handles.class.getClassLoader());
        } catch (ClassNotFoundException absent) {
            return null;
        }
    }

    /** Returns the class of that name, which this Pulsar must have. */
    static Class<?> require(String name) {
        Class<?> found = find(name);
        if (found == null) {
            throw unknown(name, null);
        }
        return found;
    }

    /** Returns a handle on the constructor without arguments; it is called as {@code ()called}. */
    static MethodHandle constructor(Class<?> owner, Class<?> called) {
        try {
            return LOOKUP.findConstructor(owner, MethodType.methodType(void.class)).asType(MethodType.methodType(called));
        } catch (ReflectiveOperationException e) {
            throw unknown(owner.getName() + "()", e);
        }
    }

    /** Returns a handle on a static method without arguments; it is called as {@code ()Object}. */
    static MethodHandle factory(Class<?> owner, String name, Class<?> made) {
        try {
            return LOOKUP.findStatic(owner, name, MethodType.methodType(made)).asType(MethodType.methodType(Object.class));
        } catch (ReflectiveOperationException e) {
            throw unknown(owner.getName() + "." + name + "()", e);
        }
    }

    /**
     * Returns a handle on an instance method.
     *
     * @param owner  class or interface that has it
     * @param exact  return and parameter types as Pulsar declares them, without the receiver
     * @param called types with which it is called, the receiver first
     */
    static MethodHandle method(Class<?> owner, String name, MethodType exact, MethodType called) {
        try {
            return LOOKUP.findVirtual(owner, name, exact).asType(called);
        } catch (ReflectiveOperationException e) {
            throw unknown(owner.getName() + "." + name + exact, e);
        }
    }

    /** Returns what a call through a handle threw, as something that need not be declared: none of the methods here does. */
    static RuntimeException unchecked(Throwable thrown) {
        if (thrown instanceof Error error) {
            throw error;
        }
        return thrown instanceof RuntimeException exception ? exception : new IllegalStateException(thrown);
    }

    private static IllegalStateException unknown(String what, Throwable cause) {
        return new IllegalStateException("Nereus does not know this release of Pulsar: it has no " + what, cause);
    }
}
