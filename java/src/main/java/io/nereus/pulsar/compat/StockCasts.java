package io.nereus.pulsar.compat;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which classes of this broker cast every ledger to stock's class: the replicator of Pulsar 4.0.12, 4.0.13, 4.2.3 and 4.2.4,
 * and the classic Key_Shared dispatcher of 4.x. Told by the class file and not by the version, which a vendor's build may
 * number otherwise: a class that casts names the class it casts to in its constant pool, and one that does not has no use
 * for it. Only these two are looked at, because others name it to ask whether a ledger is one, and go another way then.
 */
public final class StockCasts {

    private static final Logger log = LoggerFactory.getLogger(StockCasts.class);

    private static final String PACKAGE = "org.apache.pulsar.broker.service.persistent.";
    private static final Set<String> SUSPECTS = Set.of(PACKAGE + "PersistentReplicator",
        PACKAGE + "PersistentStickyKeyDispatcherMultipleConsumersClassic");
    private static final String STOCK_LEDGER = "org/apache/bookkeeper/mledger/impl/ManagedLedgerImpl";

    private static final ClassValue<Boolean> CASTS = new ClassValue<>() {
        @Override
        protected Boolean computeValue(Class<?> type) {
            return SUSPECTS.contains(type.getName()) && look(type);
        }
    };

    private StockCasts() {
    }

    /** Whether {@code type} is a class of the broker that casts ledgers; looked up once for each class. */
    public static boolean in(Class<?> type) {
        return CASTS.get(type);
    }

    /** Of a class that cannot be read, nothing is known and nothing changed. */
    private static boolean look(Class<?> type) {
        try (InputStream file = type.getResourceAsStream(type.getSimpleName() + ".class")) {
            return file != null && names(file, STOCK_LEDGER);
        } catch (IOException e) {
            log.warn("Cannot tell whether {} of this broker casts ledgers to stock's class; taken for one that does not", type, e);
            return false;
        }
    }

    /**
     * Whether the constant pool of a class file has {@code text} as an entry. Reads no further than the pool, whose size a
     * class file limits, and keeps one entry at a time.
     *
     * @throws IOException if this is no class file
     */
    static boolean names(InputStream classFile, String text) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(classFile));
        if (in.readInt() != 0xCAFEBABE) {
            throw new IOException("not a class file");
        }
        in.skipNBytes(4); // its version
        int count = in.readUnsignedShort();
        for (int i = 1; i < count; i++) {
            int tag = in.readUnsignedByte();
            switch (tag) {
                case 1 -> { // text
                    if (in.readUTF().equals(text)) {
                        return true;
                    }
                }
                case 5, 6 -> { // long, double
                    in.skipNBytes(8);
                    i++; // these count twice
                }
                case 7, 8, 16, 19, 20 -> in.skipNBytes(2); // class, string, method type, module, package
                case 15 -> in.skipNBytes(3); // method handle
                case 3, 4, 9, 10, 11, 12, 17, 18 -> in.skipNBytes(4); // int, float, members and their types, dynamic
                default -> throw new IOException("constant " + i + " of a class file has the unknown tag " + tag);
            }
        }
        return false;
    }
}
