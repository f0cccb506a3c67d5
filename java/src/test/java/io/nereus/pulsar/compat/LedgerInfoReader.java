package io.nereus.pulsar.compat;

/**
 * Reads Pulsar's {@code LedgerInfo}, whose class has another name in Pulsar 4.2 and later. A test that is to run on all
 * releases hands over the element as it comes out of the map or future, without a variable or a lambda of that class.
 */
public final class LedgerInfoReader {

    private LedgerInfoReader() {
    }

    /** @param info a LedgerInfo; null is answered with null */
    public static LedgerDetails read(Object info) {
        return info == null ? null
            : new LedgerDetails(get(info, "getLedgerId"), get(info, "getEntries"), get(info, "getSize"), get(info, "getTimestamp"));
    }

    private static long get(Object info, String getter) {
        try {
            return (long) info.getClass().getMethod(getter).invoke(info);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(info.getClass() + " has no " + getter, e);
        }
    }
}
