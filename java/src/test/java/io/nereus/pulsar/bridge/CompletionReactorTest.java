package io.nereus.pulsar.bridge;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.testng.annotations.BeforeClass;
import org.testng.annotations.Test;

/** Delivery: each operation exactly once, on its executor, whatever happens around it. */
public class CompletionReactorTest {

    private static final int WORDS = 6;

    @BeforeClass
    public void load() throws Exception {
        NativeLibrary.load(null);
    }

    /** A native side that completes what it is told to. */
    private static final class FakeSource implements CompletionReactor.Source {
        private final ConcurrentLinkedQueue<long[]> records = new ConcurrentLinkedQueue<>();
        private volatile boolean destroyed;

        void complete(long op, long code, long a) {
            records.add(new long[] {0, op, code, a, 0, 0});
        }

        @Override
        public int poll(NativeMemory.Fixed room, int capacityRecords, long parkNanos) {
            boolean last = destroyed; // read first: what was completed before still comes out
            int count = 0;
            for (long[] record; count < capacityRecords && (record = records.poll()) != null; count++) {
                for (int word = 0; word < WORDS; word++) {
                    room.buffer.putLong((count * WORDS + word) * Long.BYTES, record[word]);
                }
            }
            if (count == 0 && parkNanos > 0) {
                Thread.yield();
            }
            return count == 0 && last ? -1 : count;
        }
    }

    /** Counts its outcomes. */
    private static class Counted extends PendingOperation {
        final AtomicInteger outcomes = new AtomicInteger();
        final CountDownLatch ended = new CountDownLatch(1);
        private final int lostCode;
        volatile int code = -1;
        volatile Thread thread;

        Counted(Executor executor, int lostCode) {
            super(executor);
            this.lostCode = lostCode;
        }

        @Override
        void succeeded(long first, long second, long third) {
            end(NativeErrors.OK);
        }

        @Override
        void failed(NativeException cause) {
            end(cause.code());
        }

        void end(int outcome) {
            code = outcome;
            thread = Thread.currentThread();
            outcomes.incrementAndGet();
            ended.countDown();
        }

        @Override
        String what() {
            return "test operation";
        }

        @Override
        int lostCode() {
            return lostCode;
        }

        void await() throws InterruptedException {
            assertTrue(ended.await(30, TimeUnit.SECONDS), "an operation was never answered");
        }
    }

    @Test
    public void everyOperationEndsExactlyOnceUnderAConcurrentStop() throws Exception {
        for (int round = 0; round < 20; round++) {
            FakeSource source = new FakeSource();
            CompletionReactor reactor = reactor(source, Runnable::run);
            ConcurrentLinkedQueue<Counted> accepted = new ConcurrentLinkedQueue<>();
            AtomicInteger refused = new AtomicInteger();
            CountDownLatch running = new CountDownLatch(3);
            List<Thread> callers = new ArrayList<>();
            for (int caller = 0; caller < 3; caller++) {
                Thread thread = new Thread(() -> {
                    running.countDown();
                    for (int i = 0; i < 2000; i++) {
                        Counted operation = new Counted(Runnable::run, NativeErrors.UNKNOWN);
                        long id = reactor.register(operation);
                        if (id == CompletionReactor.REFUSED) {
                            refused.incrementAndGet();
                            assertEquals(operation.outcomes.get(), 0);
                            continue;
                        }
                        accepted.add(operation);
                        if (id != CompletionReactor.SWEPT) {
                            source.complete(id, NativeErrors.OK, 1);
                        }
                    }
                });
                callers.add(thread);
                thread.start();
            }
            running.await();
            reactor.stop();
            for (Thread caller : callers) {
                caller.join();
            }
            source.destroyed = true;
            assertTrue(reactor.join(30_000));
            for (Counted operation : accepted) {
                operation.await();
                assertEquals(operation.outcomes.get(), 1);
            }
            assertEquals(accepted.size() + refused.get(), 6000);
            assertEquals(reactor.pending(), 0);
        }
    }

    @Test
    public void l06_theSweepLeavesAnAppendUnknownAndTheRestClosed() throws Exception {
        FakeSource source = new FakeSource();
        CompletionReactor reactor = reactor(source, Runnable::run);
        Counted append = new Counted(Runnable::run, NativeErrors.UNKNOWN);
        Counted read = new Counted(Runnable::run, NativeErrors.CLOSED);
        long appendId = reactor.register(append);
        reactor.register(read);
        reactor.stop();
        assertEquals(append.code, NativeErrors.UNKNOWN);
        assertEquals(read.code, NativeErrors.CLOSED);
        // The native side answers after all: nobody hears it twice.
        source.complete(appendId, NativeErrors.OK, 5);
        source.destroyed = true;
        assertTrue(reactor.join(30_000));
        assertEquals(append.outcomes.get(), 1);
        Counted late = new Counted(Runnable::run, NativeErrors.CLOSED);
        reactor.submit(late, op -> {
            throw new AssertionError("a closed reactor must not call the native side");
        });
        assertEquals(late.code, NativeErrors.CLOSED);
    }

    @Test
    public void anExecutorThatRefusesLosesNothing() throws Exception {
        FakeSource source = new FakeSource();
        ConcurrentLinkedQueue<Runnable> fallback = new ConcurrentLinkedQueue<>();
        CompletionReactor reactor = reactor(source, fallback::add);
        Counted operation = new Counted(task -> {
            throw new RejectedExecutionException("shut down");
        }, NativeErrors.CLOSED);
        reactor.submit(operation, op -> {
            source.complete(op, NativeErrors.OK, 1);
            return NativeErrors.OK;
        });
        source.destroyed = true;
        assertTrue(reactor.join(30_000));
        assertEquals(operation.outcomes.get(), 0, "never on the reactor's thread");
        assertEquals(fallback.size(), 1);
        fallback.remove().run();
        assertEquals(operation.code, NativeErrors.OK);
    }

    @Test
    public void executorsGetWhatArrivesTogetherInTheOrderOfItsArrival() throws Exception {
        FakeSource source = new FakeSource();
        CompletionReactor reactor = new CompletionReactor("test-reactor", source, new NoListener(), Runnable::run);
        List<String> tasks = new ArrayList<>(); // written by the reactor's thread, read after it
        Executor first = task -> run("first", task, tasks);
        Executor second = task -> run("second", task, tasks);
        Executor third = task -> run("third", task, tasks);
        List<Counted> operations = new ArrayList<>();
        for (Executor executor : List.of(first, second, first, third, second, first)) {
            Counted operation = new Counted(executor, NativeErrors.CLOSED);
            operations.add(operation);
            source.complete(reactor.register(operation), NativeErrors.OK, 1);
        }
        source.destroyed = true;
        reactor.start();
        assertTrue(reactor.join(30_000));
        assertEquals(tasks, List.of("first", "second", "third"), "one task each");
        for (Counted operation : operations) {
            assertEquals(operation.outcomes.get(), 1);
        }
    }

    private static void run(String name, Runnable task, List<String> tasks) {
        tasks.add(name);
        task.run();
    }

    @Test
    public void aReceiverThatThrowsStopsNobodyElse() throws Exception {
        FakeSource source = new FakeSource();
        CompletionReactor reactor = reactor(source, Runnable::run);
        Counted throwing = new Counted(Runnable::run, NativeErrors.CLOSED) {
            @Override
            void succeeded(long first, long second, long third) {
                super.succeeded(first, second, third);
                throw new IllegalStateException("a defect of the receiver");
            }
        };
        Counted behind = new Counted(Runnable::run, NativeErrors.CLOSED);
        long first = reactor.register(throwing);
        long second = reactor.register(behind);
        source.complete(first, NativeErrors.OK, 1);
        source.complete(first, NativeErrors.OK, 1);
        source.complete(4711, NativeErrors.OK, 1);
        source.complete(second, NativeErrors.OK, 1);
        behind.await();
        assertEquals(throwing.outcomes.get(), 1);
        assertEquals(behind.code, NativeErrors.OK);
        source.destroyed = true;
        assertTrue(reactor.join(30_000));
    }

    @Test
    public void aRefusedCallFailsItsOperationOnceAndACallThatThrowsToo() throws Exception {
        FakeSource source = new FakeSource();
        CompletionReactor reactor = reactor(source, Runnable::run);
        Counted refused = new Counted(Runnable::run, NativeErrors.CLOSED);
        reactor.submit(refused, op -> NativeErrors.TERMINATED);
        assertEquals(refused.code, NativeErrors.TERMINATED);
        Counted thrown = new Counted(Runnable::run, NativeErrors.CLOSED);
        reactor.submit(thrown, op -> {
            throw new IllegalStateException("x");
        });
        assertEquals(thrown.code, NativeErrors.INTERNAL);
        assertEquals(reactor.pending(), 0);
        source.destroyed = true;
        assertTrue(reactor.join(30_000));
    }

    @Test
    public void whenTheSourceDiesEverythingPendingFails() throws Exception {
        CountDownLatch registered = new CountDownLatch(1);
        CompletionReactor reactor = new CompletionReactor("test-reactor", (records, capacity, park) -> {
            try {
                registered.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            throw new IllegalStateException("the source died");
        }, new NoListener(), Runnable::run);
        reactor.start();
        Counted operation = new Counted(Runnable::run, NativeErrors.UNKNOWN);
        reactor.register(operation);
        registered.countDown();
        operation.await();
        assertEquals(operation.code, NativeErrors.UNKNOWN);
        assertTrue(reactor.join(30_000));
    }

    private static CompletionReactor reactor(FakeSource source, Executor fallback) {
        CompletionReactor reactor = new CompletionReactor("test-reactor", source, new NoListener(), fallback);
        reactor.start();
        return reactor;
    }

    private static final class NoListener implements CompletionReactor.Listener {
        @Override
        public void metadataRequest(long requestId, byte[] request) {
            throw new AssertionError("no request expected");
        }

        @Override
        public void logEvent(int level, long dropped, byte[] event) {
            throw new AssertionError("no event expected");
        }
    }
}
