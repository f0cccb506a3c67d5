package io.nereus.pulsar.bridge;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/** Writes one message of the border: big-endian numbers, length-prefixed strings, bytes, lists and maps. */
final class WireWriter {

    /** Largest message in bytes; the native side has the same bound. */
    static final int MAX_MESSAGE = 256 * 1024 * 1024;

    private byte[] out = new byte[256];
    private int length;

    WireWriter u8(int value) {
        ensure(1);
        out[length++] = (byte) value;
        return this;
    }

    WireWriter bool(boolean value) {
        return u8(value ? 1 : 0);
    }

    WireWriter i32(int value) {
        ensure(Integer.BYTES);
        for (int shift = Integer.SIZE - Byte.SIZE; shift >= 0; shift -= Byte.SIZE) {
            out[length++] = (byte) (value >>> shift);
        }
        return this;
    }

    WireWriter i64(long value) {
        return i32((int) (value >>> Integer.SIZE)).i32((int) value);
    }

    WireWriter bytes(byte[] value) {
        i32(value.length);
        ensure(value.length);
        System.arraycopy(value, 0, out, length, value.length);
        length += value.length;
        return this;
    }

    WireWriter string(String value) {
        return bytes(value.getBytes(StandardCharsets.UTF_8));
    }

    WireWriter stringMap(Map<String, String> map) {
        i32(map.size());
        map.forEach((key, value) -> string(key).string(value));
        return this;
    }

    WireWriter numberMap(Map<String, Long> map) {
        i32(map.size());
        map.forEach((key, value) -> string(key).i64(value));
        return this;
    }

    byte[] finish() {
        return Arrays.copyOf(out, length);
    }

    private void ensure(int more) {
        if (more > MAX_MESSAGE - length) {
            throw new IllegalArgumentException("a message to the native side exceeds " + MAX_MESSAGE + " bytes");
        }
        if (length + more > out.length) {
            out = Arrays.copyOf(out, (int) Math.min(MAX_MESSAGE, Math.max(2L * out.length, length + (long) more)));
        }
    }
}
