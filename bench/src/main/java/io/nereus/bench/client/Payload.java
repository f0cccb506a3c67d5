package io.nereus.bench.client;

import java.nio.ByteBuffer;
import java.util.Random;

/** Messages of 1 KiB that do not compress; the first eight bytes may hold a time. */
final class Payload {

    static final int BYTES = 1024;

    private static final byte[] NOISE = new byte[BYTES];

    static {
        new Random(1).nextBytes(NOISE);
    }

    private Payload() {
    }

    /** Always the same array: who sends it must not change it. */
    static byte[] plain() {
        return NOISE;
    }

    static byte[] at(long nanos) {
        byte[] bytes = NOISE.clone();
        ByteBuffer.wrap(bytes).putLong(nanos);
        return bytes;
    }

    static long timeOf(byte[] bytes) {
        return ByteBuffer.wrap(bytes).getLong();
    }
}
