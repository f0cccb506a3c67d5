package io.nereus.pulsar.bridge;

import static io.nereus.pulsar.bridge.Engines.failure;
import static io.nereus.pulsar.bridge.Engines.get;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertNotEquals;
import static org.testng.Assert.assertNotNull;
import static org.testng.Assert.assertNull;
import static org.testng.Assert.assertSame;
import static org.testng.Assert.assertTrue;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.CompositeByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.util.ReferenceCountUtil;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.pulsar.common.allocator.PulsarByteBufAllocator;
import org.apache.pulsar.metadata.api.MetadataStore;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** The border as the facade uses it, over the real library. */
public class NativeEngineTest {

    private static final String LEDGER = "tenant/ns/persistent/topic";

    private ExecutorService executor;
    private Thread executorThread;
    private MetadataStore store;
    private Path directory;

    @BeforeMethod
    public void setUp() throws Exception {
        executor = Executors.newSingleThreadExecutor();
        executorThread = executor.submit(Thread::currentThread).get();
        store = Stores.memory();
        directory = Engines.directory("engine");
    }

    @AfterMethod(alwaysRun = true)
    public void tearDown() throws Exception {
        executor.shutdown();
        assertTrue(executor.awaitTermination(30, TimeUnit.SECONDS));
        store.close();
        Engines.delete(directory);
        assertEquals(StreamCalls.answeredTwice(), 0);
        assertEquals(NativeCalls.liveBlobs(), 0, "blobs that nobody fetched");
    }

    @Test
    public void everyKindOfBufferArrivesUnchangedAndUntouched() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        NativeStream stream = open(engine).stream();
        List<ByteBuf> buffers = buffers();
        List<byte[]> expected = new ArrayList<>();
        List<CompletableFuture<Long>> appends = new ArrayList<>();
        for (ByteBuf buffer : buffers) {
            int reader = buffer.readerIndex();
            byte[] bytes = new byte[buffer.readableBytes()];
            buffer.getBytes(reader, bytes);
            expected.add(bytes);
            appends.add(StreamCalls.append(stream, buffer));
            assertEquals(buffer.readerIndex(), reader);
            assertEquals(buffer.refCnt(), 1);
            buffer.release();
        }
        for (int i = 0; i < appends.size(); i++) {
            assertEquals(get(appends.get(i)), Long.valueOf(i));
        }
        for (int start = 0; start < expected.size(); start++) {
            List<byte[]> read = get(StreamCalls.read(stream, start, 100, Long.MAX_VALUE));
            assertEquals(read.size(), expected.size() - start);
            for (int i = 0; i < read.size(); i++) {
                assertEquals(read.get(i), expected.get(start + i));
            }
        }
        assertEquals(get(StreamCalls.read(stream, expected.size(), 10, 100)).size(), 0);
        assertEquals(get(StreamCalls.read(stream, 1, 10, 1)).size(), 1, "at least one entry, however large");
        get(engine.release());
    }

    @Test
    public void outcomesComeInOrderOnTheExecutorOnly() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        NativeStream stream = open(engine).stream();
        int count = 2000;
        ConcurrentLinkedQueue<Long> offsets = new ConcurrentLinkedQueue<>();
        AtomicBoolean elsewhere = new AtomicBoolean();
        Semaphore done = new Semaphore(0);
        ByteBuf entry = Unpooled.directBuffer().writeBytes(new byte[100]);
        for (int i = 0; i < count; i++) {
            int code = stream.append(entry, 1, new NativeStream.AppendCallback() {
                @Override
                public void appended(long offset, long appendMillis) {
                    elsewhere.compareAndSet(false, Thread.currentThread() != executorThread || appendMillis <= 0);
                    offsets.add(offset);
                    done.release();
                }

                @Override
                public void failed(NativeException e) {
                    elsewhere.set(true);
                    done.release();
                }
            });
            assertEquals(code, NativeErrors.OK);
        }
        entry.release();
        assertTrue(done.tryAcquire(count, 60, TimeUnit.SECONDS));
        assertFalse(elsewhere.get());
        long next = 0;
        for (long offset : offsets) {
            assertEquals(offset, next++);
        }
        assertEquals(stream.state().end(), count);
        get(engine.release());
    }

    @Test
    public void callsOfAStreamAnswerWhatTheyPromise() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        OpenedLedger opened = open(engine);
        assertEquals(opened.description().properties(), Map.of("k", "v"));
        assertEquals(opened.description().spanBits(), 16);
        NativeStream stream = opened.stream();
        for (int i = 0; i < 10; i++) {
            get(StreamCalls.append(stream, Unpooled.wrappedBuffer(new byte[] {(byte) i})));
        }
        assertEquals(get(stream.trim(4)), Long.valueOf(4));
        assertEquals(failure(StreamCalls.read(stream, 3, 1, 1)).code(), NativeErrors.OFFSET_TRIMMED);
        StreamState state = stream.state();
        assertEquals(state.trim(), 4);
        assertEquals(state.end(), 10);
        assertEquals(state.entries(), 6);
        assertFalse(state.terminated() || state.suspended());
        assertEquals(stream.resume(), NativeErrors.OK);
        get(stream.setProperties(Map.of("other", "x")));

        AckPage page = new AckPage(0, new byte[0], Map.of(5, new long[] {-1L, 1L}));
        CursorUpdate create = new CursorUpdate("sub", true, false, 4, Map.of("p", 7L), Map.of("c", "d"), List.of(page));
        get(stream.persistCursor(create));
        assertEquals(failure(stream.persistCursor(create)).code(), NativeErrors.ALREADY_EXISTS);
        CursorUpdate unknown = new CursorUpdate("nobody", false, false, 4, null, null, List.of());
        assertEquals(failure(stream.persistCursor(unknown)).code(), NativeErrors.NOT_FOUND);
        LedgerDescription description = get(engine.describeLedger(LEDGER, executor));
        assertEquals(description.properties(), Map.of("other", "x"));
        CursorState cursor = description.cursors().get(0);
        assertEquals(cursor.name(), "sub");
        assertEquals(cursor.markDeleteEnd(), 4);
        assertEquals(cursor.positionProperties(), Map.of("p", 7L));
        assertEquals(cursor.cursorProperties(), Map.of("c", "d"));
        assertEquals(cursor.pages().get(0).batches().get(5), new long[] {-1L, 1L});
        get(stream.deleteCursor("sub"));
        assertEquals(failure(stream.deleteCursor("sub")).code(), NativeErrors.NOT_FOUND);

        assertEquals(get(stream.terminate()), Long.valueOf(10));
        NativeException terminated = failure(StreamCalls.append(stream, Unpooled.EMPTY_BUFFER));
        assertEquals(terminated.code(), NativeErrors.TERMINATED);
        assertEquals(get(stream.truncate()), Long.valueOf(10));
        get(stream.close());
        get(engine.deleteLedger(LEDGER, executor));
        assertEquals(failure(engine.describeLedger(LEDGER, executor)).code(), NativeErrors.NOT_FOUND);
        assertEquals(failure(engine.deleteLedger(LEDGER, executor)).code(), NativeErrors.NOT_FOUND);
        assertEquals(failure(engine.openReadOnly(LEDGER, executor)).code(), NativeErrors.NOT_FOUND);
        get(engine.release());
    }

    @Test
    public void theStateOfAnEngineSaysWhatItHoldsAndDid() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        NativeStream stream = open(engine).stream();
        get(StreamCalls.append(stream, Unpooled.wrappedBuffer(new byte[100])));
        EngineState state = get(engine.state(executor));
        assertEquals(state.poison(), "");
        assertTrue(state.segments() >= 1 && state.bytes() > 0, state.toString());
        assertEquals(state.oldest().holder(), EngineState.Holder.CHECKPOINT, "nothing was checkpointed yet");
        assertTrue(state.work().syncs() >= 1 && state.work().frames() >= 1, state.toString());
        assertTrue(state.checkpoints().replayBytes() > 0 && state.checkpoints().ageMillis() >= 0, state.toString());
        assertFalse(state.memory().isEmpty());
        assertTrue(state.memory().stream().allMatch(account -> account.used() <= account.limit()), state.toString());
        get(engine.release());
        assertEquals(failure(engine.state(executor)).code(), NativeErrors.CLOSED);
    }

    @Test
    public void anEntryAboveTheLimitIsRefusedSayingSo() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        NativeStream stream = open(engine).stream();
        ByteBuf large = Unpooled.directBuffer(Engines.MAX_ENTRY + 1).writeZero(Engines.MAX_ENTRY + 1);
        NativeException refused = failure(StreamCalls.append(stream, large));
        large.release();
        assertEquals(refused.code(), NativeErrors.INVALID);
        assertTrue(refused.getMessage().contains(Integer.toString(Engines.MAX_ENTRY)), refused.getMessage());
        assertEquals(get(StreamCalls.append(stream, Unpooled.EMPTY_BUFFER)), Long.valueOf(0));
        get(engine.release());
    }

    @Test
    public void staleHandlesAnswerClosed() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        NativeStream stream = open(engine).stream();
        get(StreamCalls.append(stream, Unpooled.wrappedBuffer(new byte[] {1})));
        CompletableFuture<Void> closed = stream.close();
        get(closed);
        assertSame(stream.close(), closed);
        assertEquals(failure(StreamCalls.append(stream, Unpooled.EMPTY_BUFFER)).code(), NativeErrors.CLOSED);
        assertEquals(failure(StreamCalls.read(stream, 0, 1, 1)).code(), NativeErrors.CLOSED);
        assertEquals(failure(stream.trim(1)).code(), NativeErrors.CLOSED);
        assertEquals(failure(stream.setProperties(Map.of())).code(), NativeErrors.CLOSED);
        assertEquals(stream.resume(), NativeErrors.CLOSED);
        assertEquals(stream.state().end(), 1, "the last known state stays readable");
        NativeStream again = open(engine).stream();
        assertEquals(failure(StreamCalls.read(stream, 0, 1, 1)).code(), NativeErrors.CLOSED);
        assertEquals(get(StreamCalls.read(again, 0, 1, 1)).size(), 1);
        get(engine.release());
        assertEquals(failure(StreamCalls.read(again, 0, 1, 1)).code(), NativeErrors.CLOSED);
        assertEquals(failure(engine.describeLedger(LEDGER, executor)).code(), NativeErrors.CLOSED);
        for (long handle : new long[] {0, -1, 1, Long.MAX_VALUE, Long.MIN_VALUE}) {
            assertEquals(NativeCalls.terminate(handle, 1), NativeErrors.CLOSED);
            assertEquals(NativeCalls.append(handle, 1, 0, 0, 1), NativeErrors.CLOSED);
            assertEquals(NativeCalls.openEngine(handle << 40, 1), NativeErrors.CLOSED);
            assertEquals(NativeCalls.poll(handle << 40, 8, 1, 0), -1);
            NativeCalls.destroyEngine(handle << 40);
            NativeCalls.freeBlob(-handle - 1);
        }
        assertEquals(NativeCalls.copyOut(-1, 8, 0), -NativeErrors.CLOSED);
    }

    @Test
    public void aPanicBecomesInternalAndTheNextCallWorks() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        NativeStream stream = open(engine).stream();
        assertEquals(NativeCalls.crashForTest(1), NativeErrors.INTERNAL,
                "needs NEREUS_TEST_HOOKS=1 in the environment");
        String message = NativeCalls.refusal(NativeErrors.INTERNAL);
        assertTrue(message.contains("a panic on purpose"), message);
        assertNull(NativeCalls.refusal(NativeErrors.INTERNAL), "a message is told once");
        assertEquals(get(StreamCalls.append(stream, Unpooled.EMPTY_BUFFER)), Long.valueOf(0));
        get(engine.release());
    }

    @Test
    public void impossibleArgumentsAreRefused() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        NativeStream stream = open(engine).stream();
        assertEquals(failure(StreamCalls.read(stream, -1, 1, 1)).code(), NativeErrors.INVALID);
        assertEquals(failure(StreamCalls.read(stream, 0, -1, 1)).code(), NativeErrors.INVALID);
        assertEquals(failure(StreamCalls.read(stream, 0, 1, -1)).code(), NativeErrors.INVALID);
        assertEquals(failure(stream.trim(-1)).code(), NativeErrors.INVALID);
        int code = stream.append(Unpooled.EMPTY_BUFFER, 0, null);
        assertEquals(code, NativeErrors.INVALID);
        get(engine.release());
    }

    @Test
    public void sharersOfADirectoryShareOneEngineAndCloseOnlyTheirStreams() throws Exception {
        NativeEngine first = Engines.open(directory, store);
        Map<String, String> settings = Engines.settings(directory);
        settings.put(EngineSettings.BROKER_ID, "another broker");
        NativeEngine second = get(NativeEngine.acquire(new EngineSettings(settings), store));
        assertNotEquals(first, second);
        NativeStream mine = open(first).stream();
        NativeStream theirs = get(second.openLedger("tenant/ns/persistent/other", true, Map.of(), executor)).stream();
        get(first.release());
        get(first.release());
        assertEquals(failure(StreamCalls.append(mine, Unpooled.EMPTY_BUFFER)).code(), NativeErrors.CLOSED);
        assertEquals(get(StreamCalls.append(theirs, Unpooled.EMPTY_BUFFER)), Long.valueOf(0));
        get(second.release());
        NativeEngine third = Engines.open(directory, store);
        get(third.release());
    }

    @Test
    public void otherSettingsForAnOpenDirectoryAreRefusedByName() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        Map<String, String> settings = Engines.settings(directory);
        settings.put("segmentBytes", Long.toString(64L << 20));
        NativeException refused = failure(NativeEngine.acquire(new EngineSettings(settings), store));
        assertEquals(refused.code(), NativeErrors.INVALID);
        assertTrue(refused.getMessage().contains("segmentBytes") && refused.getMessage().contains("67108864"),
                refused.getMessage());
        get(engine.release());
    }

    @Test
    public void anOpenThatFailsCanBeTriedAgain() throws Exception {
        Map<String, String> settings = Engines.settings(directory);
        settings.put("maxEntryBytes", "many");
        NativeException refused = failure(NativeEngine.acquire(new EngineSettings(settings), store));
        assertEquals(refused.code(), NativeErrors.INVALID);
        assertTrue(refused.getMessage().contains("maxEntryBytes=many"), refused.getMessage());
        get(Engines.open(directory, store).release());
        settings.remove(EngineSettings.DATA_DIRECTORY);
        assertEquals(failure(NativeEngine.acquire(new EngineSettings(settings), store)).code(), NativeErrors.INVALID);
    }

    @Test
    public void aMetadataStoreThatFailsEndsInATypedErrorAndNothingHangs() throws Exception {
        MetadataStore failing = Stores.of((method, args) ->
                CompletableFuture.failedFuture(new MetadataStoreException("the session expired")));
        NativeException refused = failure(NativeEngine.acquire(new EngineSettings(Engines.settings(directory)),
                failing));
        assertTrue(refused.getMessage().contains("the session expired"), refused.toString());
        get(Engines.open(directory, store).release());
    }

    @Test
    public void aMetadataStoreThatAnswersLateIsWaitedFor() throws Exception {
        ConcurrentLinkedQueue<Runnable> held = new ConcurrentLinkedQueue<>();
        AtomicBoolean holding = new AtomicBoolean(true);
        CompletableFuture<Void> asked = new CompletableFuture<>();
        MetadataStore late = Stores.watched(store, (method, args) -> {
            if (!method.equals("get") || !holding.get()) {
                return null;
            }
            CompletableFuture<Object> answer = new CompletableFuture<>();
            held.add(() -> store.get((String) args[0]).thenAccept(answer::complete));
            asked.complete(null);
            return answer;
        });
        CompletableFuture<NativeEngine> opening = NativeEngine.acquire(
                new EngineSettings(Engines.settings(directory)), late);
        get(asked);
        assertFalse(opening.isDone());
        holding.set(false);
        held.forEach(Runnable::run);
        get(get(opening).release());
    }

    @Test
    public void answersNobodyWaitsForAreIgnored() throws Exception {
        long engine = NativeCalls.createEngine(Messages.settings(Engines.settings(directory)));
        for (long request = -1; request < 3; request++) {
            NativeCalls.answer(engine, request, 0, 1, new byte[] {1});
            NativeCalls.answer(engine, request, 77, 1, null);
        }
        NativeCalls.destroyEngine(engine);
        NativeCalls.answer(engine, 1, 0, 1, new byte[0]);
        NativeCalls.destroyEngine(engine);
    }

    @Test
    public void l01_l06_appendsEndOnceAndTrulyWhenTheEngineIsReleasedUnderLoad() throws Exception {
        long committed = 0;
        for (int round = 0; round < 5; round++) {
            NativeEngine engine = Engines.open(directory, store);
            NativeStream stream = open(engine).stream();
            ConcurrentLinkedQueue<CompletableFuture<Long>> appends = new ConcurrentLinkedQueue<>();
            ConcurrentLinkedQueue<CompletableFuture<List<byte[]>>> reads = new ConcurrentLinkedQueue<>();
            CountDownLatch running = new CountDownLatch(2);
            List<Thread> callers = new ArrayList<>();
            for (int caller = 0; caller < 2; caller++) {
                Thread thread = new Thread(() -> {
                    for (int i = 0; i < 2000; i++) {
                        appends.add(StreamCalls.append(stream, Unpooled.EMPTY_BUFFER));
                        reads.add(StreamCalls.read(stream, i, 10, 1000));
                        if (i == 50) {
                            running.countDown();
                        }
                    }
                });
                callers.add(thread);
                thread.start();
            }
            running.await();
            CompletableFuture<Void> released = engine.release();
            for (Thread caller : callers) {
                caller.join();
            }
            get(released);
            for (CompletableFuture<List<byte[]>> read : reads) {
                outcome(read);
            }
            Map<Integer, Long> outcomes = new HashMap<>();
            for (CompletableFuture<Long> append : appends) {
                outcomes.merge(outcome(append), 1L, Long::sum);
            }
            // Only what the sweep met before the native side answered may be unknown, and only that may be either way.
            assertTrue(Set.of(NativeErrors.OK, NativeErrors.CLOSED, NativeErrors.UNKNOWN)
                    .containsAll(outcomes.keySet()), outcomes.toString());
            committed += outcomes.get(NativeErrors.OK);
            NativeEngine again = Engines.open(directory, store);
            long end = open(again).description().state().end();
            get(again.release());
            assertTrue(end >= committed && end <= committed + outcomes.getOrDefault(NativeErrors.UNKNOWN, 0L),
                    "end " + end + ", committed " + committed + ", outcomes of the last round " + outcomes);
            committed = end;
        }
    }

    @Test
    public void releaseDoesNotNeedTheExecutorsOfTheLedgers() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        ExecutorService gone = Executors.newSingleThreadExecutor();
        NativeStream stream = get(engine.openLedger(LEDGER, true, Map.of(), gone)).stream();
        gone.shutdown();
        CompletableFuture<Long> append = StreamCalls.append(stream, Unpooled.EMPTY_BUFFER);
        assertEquals(get(append), Long.valueOf(0), "answered although the executor refuses");
        get(engine.release());
    }

    @Test
    public void aLedgerOpenedWhileItsShareIsReleasedDoesNotStayOpen() throws Exception {
        NativeEngine engine = Engines.open(directory, store);
        CompletableFuture<OpenedLedger> opening = engine.openLedger(LEDGER, true, Map.of(), executor);
        CompletableFuture<Void> released = engine.release();
        try {
            OpenedLedger opened = get(opening);
            assertNotNull(opened.stream());
        } catch (NativeException e) {
            assertEquals(e.code(), NativeErrors.CLOSED, e.toString());
        }
        get(released);
    }

    private static int outcome(CompletableFuture<?> operation) throws Exception {
        try {
            get(operation);
            return NativeErrors.OK;
        } catch (NativeException e) {
            return e.code();
        }
    }

    private OpenedLedger open(NativeEngine engine) throws Exception {
        return get(engine.openLedger(LEDGER, true, Map.of("k", "v"), executor));
    }

    private static List<ByteBuf> buffers() {
        Random random = new Random(7);
        List<ByteBuf> buffers = new ArrayList<>();
        buffers.add(filled(PulsarByteBufAllocator.DEFAULT.directBuffer(), 1000, random));
        buffers.add(filled(Unpooled.buffer(), 1000, random));
        buffers.add(filled(PulsarByteBufAllocator.DEFAULT.directBuffer(), 1000, random).skipBytes(13));
        buffers.add(Unpooled.EMPTY_BUFFER.retainedDuplicate());
        buffers.add(composite(random, true, 2));
        buffers.add(composite(random, true, NativeMemory.MAX_PARTS));
        buffers.add(composite(random, true, NativeMemory.MAX_PARTS + 1));
        buffers.add(composite(random, false, 3));
        buffers.add(composite(random, true, 3).skipBytes(17));
        buffers.add(filled(PulsarByteBufAllocator.DEFAULT.directBuffer(), 3_000_000, random));
        buffers.add(filled(PulsarByteBufAllocator.DEFAULT.directBuffer(), 1000, random).asReadOnly());
        for (int i = 0; i < buffers.size(); i++) {
            // The empty buffer is a constant without a count.
            if (buffers.get(i).refCnt() != 1) {
                ReferenceCountUtil.release(buffers.set(i, PulsarByteBufAllocator.DEFAULT.directBuffer()));
            }
        }
        return buffers;
    }

    private static ByteBuf filled(ByteBuf buffer, int length, Random random) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return buffer.writeBytes(bytes);
    }

    private static ByteBuf composite(Random random, boolean direct, int parts) {
        CompositeByteBuf composite = Unpooled.compositeBuffer(Integer.MAX_VALUE);
        for (int i = 0; i < parts; i++) {
            ByteBuf part = direct ? PulsarByteBufAllocator.DEFAULT.directBuffer() : Unpooled.buffer();
            composite.addComponent(true, filled(part, 10 + i, random));
        }
        return composite;
    }
}
