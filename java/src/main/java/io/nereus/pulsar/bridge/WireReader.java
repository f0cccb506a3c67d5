package io.nereus.pulsar.bridge;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads one message of the border. Every length is checked against what is left before anything is allocated; a message
 * that does not hold what it announces fails with {@code INTERNAL}.
 */
final class WireReader {

    private final String what;
    private final ByteBuffer in;

    /** A reader of {@code message}; {@code what} names it in errors. */
    WireReader(String what, byte[] message) {
        this.what = what;
        this.in = ByteBuffer.wrap(message);
    }

    /** Reads one item of a list. */
    interface Item<T> {
        T read() throws NativeException;
    }

    int u8() throws NativeException {
        try {
            return in.get() & 0xFF;
        } catch (BufferUnderflowException e) {
            throw malformed("it ends inside a number");
        }
    }

    boolean bool() throws NativeException {
        int value = u8();
        if (value > 1) {
            throw malformed(value + " is not a boolean");
        }
        return value == 1;
    }

    int i32() throws NativeException {
        try {
            return in.getInt();
        } catch (BufferUnderflowException e) {
            throw malformed("it ends inside a number");
        }
    }

    long i64() throws NativeException {
        try {
            return in.getLong();
        } catch (BufferUnderflowException e) {
            throw malformed("it ends inside a number");
        }
    }

    byte[] bytes() throws NativeException {
        byte[] value = new byte[count(1)];
        in.get(value);
        return value;
    }

    String string() throws NativeException {
        return new String(bytes(), StandardCharsets.UTF_8);
    }

    /** Number of items that follow, each of at least {@code least} bytes. */
    int count(int least) throws NativeException {
        int count = i32();
        if (count < 0 || count > in.remaining() / least) {
            throw malformed("it announces " + count + " items and has room for " + in.remaining() / least);
        }
        return count;
    }

    <T> List<T> list(int least, Item<T> item) throws NativeException {
        int count = count(least);
        List<T> list = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            list.add(item.read());
        }
        return list;
    }

    Map<String, String> stringMap() throws NativeException {
        int count = count(2 * Integer.BYTES);
        Map<String, String> map = new HashMap<>();
        for (int i = 0; i < count; i++) {
            map.put(string(), string());
        }
        return map;
    }

    Map<String, Long> numberMap() throws NativeException {
        int count = count(Integer.BYTES + Long.BYTES);
        Map<String, Long> map = new HashMap<>();
        for (int i = 0; i < count; i++) {
            map.put(string(), i64());
        }
        return map;
    }

    /** The message must end here. */
    void finish() throws NativeException {
        if (in.hasRemaining()) {
            throw malformed(in.remaining() + " bytes follow its end");
        }
    }

    private NativeException malformed(String detail) {
        return new NativeException(NativeErrors.INTERNAL, "the " + what + " from the native side is malformed: "
                + detail);
    }
}
