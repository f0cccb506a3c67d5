package io.nereus.pulsar.plugin;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32C;
import java.util.zip.DataFormatException;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/**
 * All versions of one schema as one metadata node: version n is element n of {@link #versions}.
 *
 * <p>Bytes (big-endian): {@code i32} magic, {@code u8} format = 1, {@code i32} length of the body, the body deflated,
 * {@code i32} CRC32C of everything before it. Body: {@code i32} length and UTF-8 of the schema id, {@code i32} count, then each
 * version as {@code i32} length and bytes. The id inside finds a node that was copied to a wrong path.
 *
 * <p>The body is deflated because versions of one schema resemble each other, and the node must fit into a metadata store.
 *
 * @param id       the schema id
 * @param versions the stored bytes of each version, oldest first
 */
record SchemaNode(String id, List<byte[]> versions) {
    /** What every metadata store takes: ZooKeeper refuses requests of 1 MiB. */
    static final int MAX_NODE_BYTES = 1_000_000;
    /** Bounds the memory that decoding may take. */
    static final int MAX_BODY_BYTES = 16 << 20;

    private static final int MAGIC = 0x4e534348; // "NSCH"
    private static final byte FORMAT = 1;
    private static final int HEADER_BYTES = 4 + 1 + 4;
    private static final int CHECKSUM_BYTES = 4;

    /** The stored bytes are not a schema node, or not the one asked for. */
    static final class CorruptException extends Exception {
        private static final long serialVersionUID = 1L;

        CorruptException(String message) {
            super(message);
        }
    }

    /** The versions do not fit into one node. */
    static final class TooLargeException extends Exception {
        private static final long serialVersionUID = 1L;

        TooLargeException(String message) {
            super(message);
        }
    }

    static SchemaNode empty(String id) {
        return new SchemaNode(id, List.of());
    }

    /** Returns a node with {@code value} as its newest version. */
    SchemaNode with(byte[] value) {
        List<byte[]> longer = new ArrayList<>(versions);
        longer.add(value);
        return new SchemaNode(id, longer);
    }

    byte[] encode() throws TooLargeException {
        byte[] name = id.getBytes(StandardCharsets.UTF_8);
        long bodyBytes = 4L + name.length + 4L;
        for (byte[] version : versions) {
            bodyBytes += 4L + version.length;
        }
        if (bodyBytes > MAX_BODY_BYTES) {
            throw new TooLargeException(versions.size() + " versions of together " + bodyBytes + " bytes, at most "
                + MAX_BODY_BYTES + " are allowed");
        }
        ByteBuffer body = ByteBuffer.allocate((int) bodyBytes);
        body.putInt(name.length).put(name).putInt(versions.size());
        for (byte[] version : versions) {
            body.putInt(version.length).put(version);
        }
        byte[] deflated = deflate(body.array());
        int nodeBytes = HEADER_BYTES + deflated.length + CHECKSUM_BYTES;
        if (nodeBytes > MAX_NODE_BYTES) {
            throw new TooLargeException(versions.size() + " versions need a metadata node of " + nodeBytes
                + " bytes, at most " + MAX_NODE_BYTES + " are allowed");
        }
        ByteBuffer node = ByteBuffer.allocate(nodeBytes);
        node.putInt(MAGIC).put(FORMAT).putInt((int) bodyBytes).put(deflated);
        return node.putInt(checksum(node.array())).array();
    }

    static SchemaNode decode(String id, byte[] bytes) throws CorruptException {
        check(bytes.length >= HEADER_BYTES + CHECKSUM_BYTES, "it has only " + bytes.length + " bytes");
        ByteBuffer node = ByteBuffer.wrap(bytes);
        check(node.getInt() == MAGIC, "it does not begin like a schema node");
        byte format = node.get();
        check(format == FORMAT, "its format is " + format + ", this version reads " + FORMAT);
        check(node.getInt(bytes.length - CHECKSUM_BYTES) == checksum(bytes), "its checksum is wrong");
        int bodyBytes = node.getInt();
        check(bodyBytes >= 0 && bodyBytes <= MAX_BODY_BYTES, "its body claims " + bodyBytes + " bytes");
        ByteBuffer body = inflate(bytes, bodyBytes);
        String storedId = new String(readBytes(body), StandardCharsets.UTF_8);
        check(storedId.equals(id), "it holds the schema of " + storedId);
        check(body.remaining() >= 4, "it ends inside a field");
        int count = body.getInt();
        check(count >= 0 && count <= body.remaining() / 4, "it claims " + count + " versions");
        List<byte[]> versions = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            versions.add(readBytes(body));
        }
        check(!body.hasRemaining(), "it has bytes after its last version");
        return new SchemaNode(id, versions);
    }

    private static byte[] readBytes(ByteBuffer body) throws CorruptException {
        check(body.remaining() >= 4, "it ends inside a field");
        int length = body.getInt();
        check(length >= 0 && length <= body.remaining(), "a field claims " + length + " bytes");
        byte[] bytes = new byte[length];
        body.get(bytes);
        return bytes;
    }

    private static int checksum(byte[] node) {
        CRC32C crc = new CRC32C();
        crc.update(node, 0, node.length - CHECKSUM_BYTES);
        return (int) crc.getValue();
    }

    private static byte[] deflate(byte[] body) {
        Deflater deflater = new Deflater();
        try {
            deflater.setInput(body);
            deflater.finish();
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            byte[] chunk = new byte[8192];
            while (!deflater.finished()) {
                out.write(chunk, 0, deflater.deflate(chunk));
            }
            return out.toByteArray();
        } finally {
            deflater.end();
        }
    }

    private static ByteBuffer inflate(byte[] node, int bodyBytes) throws CorruptException {
        Inflater inflater = new Inflater();
        try {
            inflater.setInput(node, HEADER_BYTES, node.length - HEADER_BYTES - CHECKSUM_BYTES);
            byte[] body = new byte[bodyBytes + 1]; // one byte of room shows a body that is longer than claimed
            int length = 0;
            int more;
            do {
                more = inflater.inflate(body, length, body.length - length);
                length += more;
            } while (more > 0);
            check(inflater.finished() && inflater.getRemaining() == 0 && length == bodyBytes,
                "its body is not the claimed " + bodyBytes + " bytes");
            return ByteBuffer.wrap(body, 0, length);
        } catch (DataFormatException e) {
            throw new CorruptException("its body cannot be inflated: " + e.getMessage());
        } finally {
            inflater.end();
        }
    }

    private static void check(boolean holds, String otherwise) throws CorruptException {
        if (!holds) {
            throw new CorruptException(otherwise);
        }
    }

    /** Compares the versions byte by byte, which a record's generated method would not. */
    @Override
    public boolean equals(Object other) {
        if (!(other instanceof SchemaNode node) || !node.id.equals(id) || node.versions.size() != versions.size()) {
            return false;
        }
        for (int i = 0; i < versions.size(); i++) {
            if (!Arrays.equals(versions.get(i), node.versions.get(i))) {
                return false;
            }
        }
        return true;
    }

    @Override
    public int hashCode() {
        return 31 * id.hashCode() + versions.size();
    }

    @Override
    public String toString() {
        return "SchemaNode[" + id + ", " + versions.size() + " versions]";
    }
}
