package io.nereus.pulsar.bridge;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertSame;
import static org.testng.Assert.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.testng.annotations.Test;

/** Ids are given once and operations taken once, whatever waits and whoever takes. */
public class OperationTableTest {

    private static final class Idle extends PendingOperation {
        Idle() {
            super(Runnable::run);
        }

        @Override
        void succeeded(long first, long second, long third) {
            throw new AssertionError("nothing runs here");
        }

        @Override
        void failed(NativeException cause) {
            throw new AssertionError("nothing runs here");
        }

        @Override
        String what() {
            return "idle";
        }
    }

    @Test
    public void operationsThatWaitForRoundsOfIdsKeepTheirOwn() {
        OperationTable table = new OperationTable();
        List<PendingOperation> waiting = new ArrayList<>();
        List<Long> theirs = new ArrayList<>();
        Set<Long> ids = new HashSet<>();
        for (int i = 0; i < 100_000; i++) {
            PendingOperation operation = new Idle();
            long id = table.put(operation);
            assertTrue(id > 0 && ids.add(id), "id " + id);
            if (i % 1000 < 5) {
                waiting.add(operation);
                theirs.add(id);
            } else {
                assertSame(table.take(id), operation);
                assertNull(table.take(id), "taken twice");
            }
        }
        assertEquals(table.size(), waiting.size());
        for (int i = 0; i < waiting.size(); i += 2) {
            assertSame(table.take(theirs.get(i)), waiting.get(i));
        }
        Set<PendingOperation> left = new HashSet<>();
        table.takeAll(left::add);
        assertEquals(left.size(), waiting.size() / 2);
        assertEquals(table.size(), 0);
        assertNull(table.take(7));
        assertNull(table.take(-1));
    }

    @Test
    public void ofTwoWhoTakeOneOperationOneGetsIt() throws Exception {
        OperationTable table = new OperationTable();
        int rounds = 20_000;
        AtomicLong offered = new AtomicLong();
        AtomicInteger taken = new AtomicInteger();
        List<Thread> takers = new ArrayList<>();
        for (int t = 0; t < 2; t++) {
            Thread taker = new Thread(() -> {
                long next = 1;
                while (next <= rounds) {
                    if (table.take(next) != null) {
                        taken.incrementAndGet();
                    }
                    if (offered.get() >= next) {
                        next++;
                    }
                }
            });
            taker.start();
            takers.add(taker);
        }
        for (int i = 0; i < rounds; i++) {
            offered.set(table.put(new Idle()));
        }
        for (Thread taker : takers) {
            taker.join();
        }
        table.takeAll(left -> taken.incrementAndGet());
        assertEquals(taken.get(), rounds);
    }
}
