package io.nereus.pulsar.bridge;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Consumer;

/**
 * The operations that wait for their outcome, by id.
 *
 * <p>Promises: an id is given once; an operation is taken out by one caller only, whoever that is. Thread-safe, without a lock:
 * an operation costs two atomic writes here, as long as the place of its id is free. One that waits for a whole round of ids keeps
 * its place, and the next one to come there goes into a map.
 */
final class OperationTable {

    /** More than are under way in a busy broker, and little beside everything else that is per engine. */
    private static final int PLACES = 1 << 14;
    /** References that share a cache line, at most: neighbours in time are kept that far apart, as several threads write them. */
    private static final int APART = 16;

    private final AtomicReferenceArray<PendingOperation> places = new AtomicReferenceArray<>(PLACES);
    private final ConcurrentHashMap<Long, PendingOperation> others = new ConcurrentHashMap<>();
    private final AtomicLong ids = new AtomicLong();

    private static int placeOf(long id) {
        int round = (int) (id & PLACES - 1);
        return round * APART & PLACES - 1 | round / (PLACES / APART);
    }

    /** Gives an operation its id, above 0, and keeps it. */
    long put(PendingOperation operation) {
        long id = ids.incrementAndGet();
        operation.id(id);
        if (!places.compareAndSet(placeOf(id), null, operation)) {
            others.put(id, operation);
        }
        return id;
    }

    /** Takes an operation out; null if somebody else has. */
    PendingOperation take(long id) {
        int place = placeOf(id);
        PendingOperation there = places.get(place);
        if (there != null && there.id() == id) {
            return places.compareAndSet(place, there, null) ? there : null;
        }
        return others.remove(id);
    }

    /** Takes out every operation that is there, and those that come meanwhile or not. */
    void takeAll(Consumer<PendingOperation> taker) {
        for (int place = 0; place < PLACES; place++) {
            PendingOperation there = places.getAndSet(place, null);
            if (there != null) {
                taker.accept(there);
            }
        }
        for (Long id : others.keySet()) {
            PendingOperation there = others.remove(id);
            if (there != null) {
                taker.accept(there);
            }
        }
    }

    /** How many there are, about: of those that come and go meanwhile some are counted. */
    int size() {
        int size = others.size();
        for (int place = 0; place < PLACES; place++) {
            if (places.get(place) != null) {
                size++;
            }
        }
        return size;
    }
}
