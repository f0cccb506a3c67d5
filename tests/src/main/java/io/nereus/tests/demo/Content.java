package io.nereus.tests.demo;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.SplittableRandom;

/** Message contents: a function of producer and sequence, so that none has to be remembered; and their hashes. */
final class Content {

    private static final int HASH_BYTES = 12;

    private Content() { }

    /**
     * Content that no other message shares and that compresses to about half.
     *
     * @param size bytes, at least 1
     */
    static byte[] of(String producer, long sequence, int size) {
        SplittableRandom random = new SplittableRandom(producer.hashCode() * 31L + sequence);
        byte[] content = new byte[size];
        int at = 0;
        while (at < size) {
            long word = random.nextLong();
            for (int copies = 1 + random.nextInt(3); copies > 0; copies--) {
                for (int i = 0; i < 8 && at < size; i++) {
                    content[at++] = (byte) (word >>> (8 * i));
                }
            }
        }
        return content;
    }

    /** A size in [min, max], small ones more often than large ones; a function of its arguments. */
    static int size(String producer, long sequence, int min, int max) {
        SplittableRandom random = new SplittableRandom(producer.hashCode() * 17L - sequence);
        double share = random.nextDouble();
        return min + (int) Math.round((max - min) * share * share * share);
    }

    static String hash(byte[] content) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(content);
            return HexFormat.of().formatHex(digest, 0, HASH_BYTES);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException("every Java platform has SHA-256", impossible);
        }
    }

    /** A number in [0, 100) that belongs to the message; decides which messages are acknowledged at once. */
    static int percentile(String producer, long sequence) {
        byte[] name = (producer + sequence).getBytes(StandardCharsets.UTF_8);
        return new SplittableRandom(Arrays.hashCode(name)).nextInt(100);
    }
}
