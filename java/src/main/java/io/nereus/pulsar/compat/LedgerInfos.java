package io.nereus.pulsar.compat;

import static java.lang.invoke.MethodType.methodType;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * Makes Pulsar's {@code LedgerInfo}: protobuf with a builder in Pulsar 4.0, a mutable class under another name from 4.2 on.
 *
 * <p>No class of the jar may name either type, not even in a generic signature. Hence {@code Object}, and raw types in the
 * methods of the ledger that hand these out.
 */
public final class LedgerInfos {

    private static final String PROTOBUF = "org.apache.bookkeeper.mledger.proto.MLDataFormats$ManagedLedgerInfo$LedgerInfo";
    private static final String MUTABLE = "org.apache.bookkeeper.mledger.proto.ManagedLedgerInfo$LedgerInfo";

    private static final MethodHandle START;
    private static final MethodHandle LEDGER_ID;
    private static final MethodHandle ENTRIES;
    private static final MethodHandle SIZE;
    private static final MethodHandle TIMESTAMP;
    private static final MethodHandle FINISH;

    static {
        boolean builder = Handles.find(PROTOBUF) != null;
        Class<?> info = Handles.require(builder ? PROTOBUF : MUTABLE);
        Class<?> target = builder ? Handles.require(PROTOBUF + "$Builder") : info;
        START = builder ? Handles.factory(info, "newBuilder", target) : Handles.constructor(info, Object.class);
        LEDGER_ID = setter(target, "setLedgerId");
        ENTRIES = setter(target, "setEntries");
        SIZE = setter(target, "setSize");
        TIMESTAMP = setter(target, "setTimestamp");
        FINISH = builder
            ? Handles.method(target, "build", methodType(info), methodType(Object.class, Object.class))
            : MethodHandles.identity(Object.class);
    }

    private LedgerInfos() {
    }

    /** Makes the {@code LedgerInfo} of one virtual ledger. The time is always set, also 0: the broker asks whether it is. */
    public static Object of(LedgerDetails details) {
        try {
            Object made = START.invokeExact();
            made = LEDGER_ID.invokeExact(made, details.ledgerId());
            made = ENTRIES.invokeExact(made, details.entries());
            made = SIZE.invokeExact(made, details.bytes());
            made = TIMESTAMP.invokeExact(made, details.closedMillis());
            return FINISH.invokeExact(made);
        } catch (Throwable e) {
            throw Handles.unchecked(e);
        }
    }

    /** Makes those of many ledgers, by ledger id: a fresh map that the caller may keep. */
    public static NavigableMap<Long, Object> of(NavigableMap<Long, LedgerDetails> details) {
        NavigableMap<Long, Object> infos = new TreeMap<>();
        for (Map.Entry<Long, LedgerDetails> entry : details.entrySet()) {
            infos.put(entry.getKey(), of(entry.getValue()));
        }
        return infos;
    }

    private static MethodHandle setter(Class<?> owner, String name) {
        return Handles.method(owner, name, methodType(owner, long.class), methodType(Object.class, Object.class, long.class));
    }
}
