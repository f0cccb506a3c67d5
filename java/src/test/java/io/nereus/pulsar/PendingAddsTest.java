package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.nereus.pulsar.bridge.NativeErrors;
import io.nereus.pulsar.bridge.NativeException;
import io.nereus.pulsar.bridge.NativeStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerAlreadyClosedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerFencedException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerInterceptException;
import org.apache.bookkeeper.mledger.ManagedLedgerException.ManagedLedgerTerminatedException;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.intercept.ManagedLedgerInterceptor;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** The append path over a stream whose answers the test gives, on an executor that the test turns. */
public class PendingAddsTest {

    private static final int LIMIT = 100;

    private final List<String> events = new ArrayList<>();
    private final List<ManagedLedgerException> failures = new ArrayList<>();
    private final List<ByteBuf> buffers = new ArrayList<>();
    private final Queue<Runnable> tasks = new ArrayDeque<>();
    private final List<NativeStream.AppendCallback> submitted = new ArrayList<>();
    private int answer;
    private int resumeAnswer;
    private NativeStream stream;
    private LedgerLifecycle lifecycle;
    private PendingAdds adds;

    @BeforeMethod
    public void fresh() {
        events.clear();
        failures.clear();
        buffers.clear();
        tasks.clear();
        submitted.clear();
        answer = NativeErrors.OK;
        resumeAnswer = NativeErrors.OK;
        stream = mock(NativeStream.class);
        when(stream.append(any(), anyInt(), any())).thenAnswer(call -> {
            if (answer == NativeErrors.OK) {
                submitted.add(call.getArgument(2));
            }
            return answer;
        });
        when(stream.resume()).thenAnswer(call -> resumeAnswer);
        lifecycle = new LedgerLifecycle("t", false);
        adds = over(null);
    }

    private PendingAdds over(ManagedLedgerInterceptor interceptor) {
        return new PendingAdds("t", stream, lifecycle, new LedgerStats(Durations.UNHEARD), tasks::add, interceptor,
            LIMIT, new PendingAdds.Listener() {
                @Override
                public Position committed(long offset, int storedBytes, long appendMillis) {
                    events.add("committed " + offset + " of " + storedBytes);
                    return PositionFactory.create(1, offset);
                }

                @Override
                public void completed() {
                    events.add("wake");
                }

                @Override
                public void fenced() {
                    lifecycle.fence();
                }
            });
    }

    @AfterMethod
    public void everyBufferIsReleasedExactlyOnce() {
        for (ByteBuf buffer : buffers) {
            assertThat(buffer.refCnt()).isEqualTo(1);
            buffer.release();
        }
        assertThat(adds.size()).isZero();
    }

    private void add(String name) {
        add(name, Unpooled.copiedBuffer(name, StandardCharsets.UTF_8));
    }

    private void add(String name, ByteBuf buffer) {
        buffers.add(buffer);
        adds.add(buffer, 1, new AddEntryCallback() {
            @Override
            public void addComplete(Position position, ByteBuf data, Object ctx) {
                events.add("complete " + ctx + " at " + position.getEntryId());
            }

            @Override
            public void addFailed(ManagedLedgerException exception, Object ctx) {
                failures.add(exception);
                events.add("failed " + ctx + " " + exception.getClass().getSimpleName());
            }
        }, name);
    }

    private void runTasks() {
        Runnable task;
        while ((task = tasks.poll()) != null) {
            task.run();
        }
    }

    @Test
    public void theLastConfirmedEntryMovesBeforeTheCallbackAndWaitersAreWokenAfterIt() {
        add("a");
        submitted.get(0).appended(7, 1);
        assertThat(events).containsExactly("committed 7 of 1", "complete a at 7", "wake");
    }

    @Test
    public void appendsCompleteInCallOrder() {
        add("a");
        add("b");
        submitted.get(1).appended(1, 1);
        assertThat(events).isEmpty();
        submitted.get(0).appended(0, 1);
        assertThat(events).containsExactly("committed 0 of 1", "complete a at 0", "wake", "committed 1 of 1",
            "complete b at 1", "wake");
    }

    @Test
    public void aFailureFailsEverythingBehindItInOrderUntilTheLedgerIsResumed() {
        add("a");
        add("b");
        submitted.get(0).failed(new NativeException(NativeErrors.IO, "disk"));
        add("c");
        submitted.get(1).failed(new NativeException(NativeErrors.SUSPENDED, "behind"));
        runTasks();
        assertThat(events).containsExactly("failed a ManagedLedgerException",
            "failed b ManagedLedgerAlreadyClosedException", "failed c ManagedLedgerAlreadyClosedException");
        adds.resume();
        add("d");
        submitted.get(2).appended(0, 1);
        assertThat(events).endsWith("committed 0 of 1", "complete d at 0", "wake");
    }

    @Test
    public void aRefusalOfTheStreamStopsWhatFollowsToo() {
        answer = NativeErrors.UNAVAILABLE;
        add("a");
        answer = NativeErrors.OK;
        add("b");
        runTasks();
        assertThat(submitted).isEmpty();
        assertThat(failures).hasSize(2);
        assertThat(failures.get(1)).isInstanceOf(ManagedLedgerAlreadyClosedException.class);
    }

    @Test
    public void aRefusedAppendDoesNotOvertakeOneUnderWay() {
        add("a");
        answer = NativeErrors.UNAVAILABLE;
        add("b");
        runTasks();
        assertThat(events).isEmpty();
        submitted.get(0).appended(0, 1);
        assertThat(events).containsExactly("committed 0 of 1", "complete a at 0", "wake",
            "failed b ManagedLedgerException");
    }

    @Test
    public void aResumeWaitsUntilEveryEarlierFailureWasReported() {
        add("a");
        add("b");
        submitted.get(0).failed(new NativeException(NativeErrors.IO, "disk"));
        adds.resume();
        assertThat(lifecycle.state()).isEqualTo(LedgerState.WRITE_FAILED);
        submitted.get(1).failed(new NativeException(NativeErrors.SUSPENDED, "behind"));
        assertThat(lifecycle.state()).isEqualTo(LedgerState.OPEN);
    }

    @Test
    public void l05_aFencedAppendClosesTheLedgerForGood() {
        add("a");
        submitted.get(0).failed(new NativeException(NativeErrors.FENCED, "taken"));
        adds.resume();
        add("b");
        runTasks();
        assertThat(failures).hasSize(2).allMatch(ManagedLedgerFencedException.class::isInstance);
        assertThat(lifecycle.state()).isEqualTo(LedgerState.FENCED);
    }

    @Test
    public void aTerminatedLedgerSaysSo() {
        lifecycle.beginTerminate();
        add("a");
        lifecycle.endTerminate(true);
        add("b");
        runTasks();
        assertThat(failures).hasSize(2).allMatch(ManagedLedgerTerminatedException.class::isInstance);
    }

    @Test
    public void anEntryAboveTheLimitTakesNoPlaceAndStopsNobody() {
        add("big", Unpooled.wrappedBuffer(new byte[LIMIT + 1]));
        add("ok", Unpooled.wrappedBuffer(new byte[LIMIT]));
        runTasks();
        submitted.get(0).appended(0, 1);
        assertThat(events).containsExactly("failed big ManagedLedgerException", "committed 0 of 100",
            "complete ok at 0", "wake");
        assertThat(failures.get(0)).hasMessageContaining("101").hasMessageContaining("100");
    }

    @Test
    public void closingFailsWhatTheStreamLeftUnanswered() {
        add("a");
        adds.failAll(new ManagedLedgerAlreadyClosedException("closed"));
        submitted.get(0).appended(0, 1);
        assertThat(events).containsExactly("failed a ManagedLedgerAlreadyClosedException");
    }

    @Test
    public void aCallbackThatThrowsDoesNotStopTheOthers() {
        ByteBuf buffer = Unpooled.copiedBuffer(new byte[3]);
        buffers.add(buffer);
        adds.add(buffer, 1, new AddEntryCallback() {
            @Override
            public void addComplete(Position position, ByteBuf data, Object ctx) {
                throw new IllegalStateException("of the test");
            }

            @Override
            public void addFailed(ManagedLedgerException exception, Object ctx) {
                throw new IllegalStateException("of the test");
            }
        }, null);
        add("b");
        submitted.get(0).appended(0, 1);
        submitted.get(1).appended(1, 1);
        assertThat(events).endsWith("complete b at 1", "wake");
    }

    /** Counts like an index interceptor: up before an append, down after a failed one. */
    private static class Counter implements ManagedLedgerInterceptor {
        private int index;

        @Override
        public void beforeAddEntry(AddEntryOperation op, int numberOfMessages) {
            index += numberOfMessages;
        }

        @Override
        public void afterFailedAddEntry(int numberOfMessages) {
            index -= numberOfMessages;
        }

        @Override
        public void onManagedLedgerPropertiesInitialize(Map<String, String> propertiesMap) {
        }

        @Override
        public CompletableFuture<Void> onManagedLedgerLastLedgerInitialize(String name, LastEntryHandle handle) {
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public void onUpdateManagedLedgerInfo(Map<String, String> propertiesMap) {
        }
    }

    @Test
    public void theInterceptorHearsOnceOfEachFailure() {
        Counter counter = new Counter();
        adds = over(counter);
        add("a");
        add("b");
        answer = NativeErrors.UNAVAILABLE;
        add("c");
        assertThat(counter.index).as("a refusal is taken back at once").isEqualTo(2);
        submitted.get(0).failed(new NativeException(NativeErrors.IO, "disk"));
        submitted.get(1).failed(new NativeException(NativeErrors.SUSPENDED, "behind"));
        add("d");
        runTasks();
        assertThat(counter.index).isZero();
        assertThat(failures).hasSize(4);
    }

    @Test
    public void anInterceptorThatThrowsFailsItsAppendInOrderAndNoOther() {
        adds = over(new Counter() {
            private int calls;

            @Override
            public void beforeAddEntry(AddEntryOperation op, int numberOfMessages) {
                super.beforeAddEntry(op, numberOfMessages);
                if (++calls == 2) {
                    throw new IllegalStateException("of the test");
                }
            }
        });
        add("a");
        add("b");
        add("c");
        runTasks();
        submitted.get(1).appended(1, 1);
        submitted.get(0).appended(0, 1);
        assertThat(events).containsExactly("committed 0 of 1", "complete a at 0", "wake",
            "failed b ManagedLedgerInterceptException", "committed 1 of 1", "complete c at 1", "wake");
    }

    @Test
    public void theInterceptorsBytesAreStoredAndHandedBack() {
        adds = over(new Counter() {
            @Override
            public void beforeAddEntry(AddEntryOperation op, int numberOfMessages) {
                op.setData(Unpooled.wrappedBuffer(Unpooled.wrappedBuffer(new byte[4]), op.getData()));
            }
        });
        add("a");
        submitted.get(0).appended(0, 1);
        assertThat(events).contains("committed 0 of 5");
    }

    @Test
    public void aPayloadProcessorThatThrowsHoldsBackWhatFollowsUntilItIsLifted() {
        adds = over(new Counter() {
            private int calls;

            @Override
            public PayloadProcessorHandle processPayloadBeforeLedgerWrite(Object ctx, ByteBuf data) {
                if (++calls == 1) {
                    throw new IllegalStateException("of the test");
                }
                return null;
            }
        });
        add("a");
        add("b");
        runTasks();
        assertThat(failures).hasSize(2).allMatch(ManagedLedgerInterceptException.class::isInstance);
        adds.forgetPayloadProcessorFailure();
        add("c");
        submitted.get(0).appended(0, 1);
        assertThat(events).endsWith("committed 0 of 1", "complete c at 0", "wake");
    }

    @Test
    public void aPayloadProcessorsBytesAreStoredAndItsBuffersReleased() {
        ByteBuf processed = Unpooled.wrappedBuffer(new byte[9]);
        adds = over(new Counter() {
            @Override
            public PayloadProcessorHandle processPayloadBeforeLedgerWrite(Object ctx, ByteBuf data) {
                data.release(); // other bytes are answered, so these are consumed
                ByteBuf answered = processed.retain();
                return new PayloadProcessorHandle() {
                    @Override
                    public ByteBuf getProcessedPayload() {
                        return answered;
                    }

                    @Override
                    public void release() {
                        answered.release();
                    }
                };
            }
        });
        add("a");
        assertThat(processed.refCnt()).isZero();
        submitted.get(0).appended(0, 1);
        assertThat(events).contains("committed 0 of 9");
    }
}
