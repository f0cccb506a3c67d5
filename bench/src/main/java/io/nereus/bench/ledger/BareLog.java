package io.nereus.bench.ledger;

import io.netty.buffer.ByteBuf;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;

/**
 * The least a group-commit log can do, called from Java: one thread takes everything queued, writes it with one call over
 * blocks that were written before, syncs, answers. Length and CRC32C before each entry; no streams, nothing reads it again.
 * The same as the engine's own bench has in Rust ({@code native/core/benches/engine/bare.rs}).
 */
final class BareLog implements ClosedLoop.Target, AutoCloseable {

    private static final int FILE_BYTES = 128 << 20;
    private static final int BLOCK = 4096;
    private static final int HEADER = 8;

    private final FileChannel file;
    private final Thread writer = new Thread(this::write, "bare-log");
    private final CRC32C checksum = new CRC32C();
    private final Object lock = new Object();
    /** What waits for the writer, below the lock. */
    private ByteBuffer queued = ByteBuffer.allocateDirect(8 << 20);
    private List<ClosedLoop.Answer> answers = new ArrayList<>();
    private boolean closed;
    private long syncs;

    BareLog(Path path) throws IOException {
        file = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE,
            StandardOpenOption.DELETE_ON_CLOSE);
        ByteBuffer step = ByteBuffer.allocateDirect(1 << 20);
        for (int at = 0; at < FILE_BYTES; at += step.capacity()) {
            step.clear();
            file.write(step, at);
        }
        file.force(true);
        writer.setDaemon(true);
        writer.start();
    }

    @Override
    public void append(int slot, ByteBuf entry, ClosedLoop.Answer answered) {
        int length = entry.readableBytes();
        synchronized (lock) {
            int at = queued.position();
            ByteBuffer bytes = queued.slice(at + HEADER, length);
            entry.getBytes(entry.readerIndex(), bytes);
            checksum.reset();
            checksum.update(bytes.flip());
            queued.putInt(length).putInt((int) checksum.getValue()).position(at + HEADER + length);
            answers.add(answered);
            lock.notifyAll();
        }
    }

    private void write() {
        ByteBuffer group = ByteBuffer.allocateDirect(queued.capacity());
        List<ClosedLoop.Answer> grouped = new ArrayList<>();
        long position = 0;
        try {
            while (true) {
                synchronized (lock) {
                    while (answers.isEmpty()) {
                        if (closed) {
                            return;
                        }
                        lock.wait();
                    }
                    ByteBuffer filled = queued;
                    queued = group.clear();
                    group = filled;
                    List<ClosedLoop.Answer> full = answers;
                    answers = grouped;
                    grouped = full;
                }
                group.limit((group.position() + BLOCK - 1) / BLOCK * BLOCK).position(0);   // whole blocks: nothing is read
                if (position + group.remaining() > FILE_BYTES) {
                    position = 0;
                }
                position += file.write(group, position);
                file.force(false);
                syncs++;
                grouped.forEach(answer -> answer.complete(null));
                grouped.clear();
            }
        } catch (IOException | InterruptedException e) {
            grouped.forEach(answer -> answer.complete(e));
        }
    }

    /** Syncs so far; exact once nothing is under way. */
    long syncs() {
        return syncs;
    }

    @Override
    public void close() throws IOException {
        synchronized (lock) {
            closed = true;
            lock.notifyAll();
        }
        try {
            writer.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        file.close();
    }
}
