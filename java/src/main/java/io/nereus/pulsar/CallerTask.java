package io.nereus.pulsar;

import io.netty.util.concurrent.EventExecutor;
import io.netty.util.internal.ThreadExecutorMap;
import java.util.concurrent.RejectedExecutionException;

/**
 * Work that must not be answered before the task that asks for it has ended.
 *
 * <p>The broker's handler of a seek by time asks for a search on its connection's event loop, and only then says what is to
 * happen in the end. A search that is answered in between has consumers disconnected from another thread, so that their
 * notice is queued behind the success of the seek: the client seeks again and hears that its consumer is not found. Stock
 * searches recent entries in the caller's thread, where that order cannot arise.
 */
final class CallerTask {

    private CallerTask() {
    }

    /**
     * Runs {@code work} when the current task of the event loop that this thread belongs to has ended; at once in any other
     * thread, and where the loop takes no tasks any more. Must not be waited for in the same task.
     */
    static void after(Runnable work) {
        EventExecutor loop = ThreadExecutorMap.currentExecutor();
        if (loop == null) {
            work.run();
            return;
        }
        try {
            loop.execute(work);
        } catch (RejectedExecutionException ended) {
            work.run();
        }
    }
}
