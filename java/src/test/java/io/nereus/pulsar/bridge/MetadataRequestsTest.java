package io.nereus.pulsar.bridge;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.RejectedExecutionException;
import org.apache.pulsar.metadata.api.GetResult;
import org.apache.pulsar.metadata.api.MetadataStore;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.apache.pulsar.metadata.api.Stat;
import org.testng.annotations.Test;

/** Requests of the native side to the broker's metadata store. */
public class MetadataRequestsTest {

    private static final int GET = 1;
    private static final int PUT = 2;
    private static final int DELETE = 3;
    private static final int CHILDREN = 4;

    /** Not a record: Gradle 4 cannot scan test classes that are. */
    private static final class Answer {
        private final long id;
        private final int status;
        private final long version;
        private final byte[] value;

        Answer(long id, int status, long version, byte[] value) {
            this.id = id;
            this.status = status;
            this.version = version;
            this.value = value;
        }

        String text() {
            return new String(value, StandardCharsets.UTF_8);
        }
    }

    private final List<Answer> answers = new ArrayList<>();

    @Test
    public void aStoreThatAnswers() throws Exception {
        MetadataStore store = Stores.of((method, args) -> switch (method) {
            case "get" -> CompletableFuture.completedFuture(args[0].equals("/there")
                    ? Optional.of(new GetResult(new byte[] {7}, stat(4))) : Optional.empty());
            case "put" -> CompletableFuture.completedFuture(
                    stat(args[2].equals(Optional.of(-1L)) ? 0 : args[2].equals(Optional.empty()) ? 1 : 2));
            case "getChildrenFromStore" -> CompletableFuture.completedFuture(List.of("a", "b"));
            default -> CompletableFuture.completedFuture(null);
        });
        assertAnswer(ask(store, GET, "/there", -2), MetadataRequests.DONE, 4);
        assertEquals(answers.get(0).value, new byte[] {7});
        assertAnswer(ask(store, GET, "/absent", -2), MetadataRequests.NOT_FOUND, 0);
        assertAnswer(ask(store, PUT, "/p", -1), MetadataRequests.DONE, 0);
        assertAnswer(ask(store, PUT, "/p", -2), MetadataRequests.DONE, 1);
        assertAnswer(ask(store, PUT, "/p", 9), MetadataRequests.DONE, 2);
        assertAnswer(ask(store, DELETE, "/p", 9), MetadataRequests.DONE, 0);
        Answer children = ask(store, CHILDREN, "/p", -2);
        WireReader in = new WireReader("test", children.value);
        assertEquals(in.list(4, in::string), List.of("a", "b"));
    }

    @Test
    public void aStoreThatFails() {
        assertAnswer(failing(new MetadataStoreException.BadVersionException("no")), MetadataRequests.BAD_VERSION, 0);
        assertAnswer(failing(new CompletionException(new MetadataStoreException.NotFoundException("no"))),
                MetadataRequests.NOT_FOUND, 0);
        Answer other = failing(new MetadataStoreException("the session expired"));
        assertAnswer(other, MetadataRequests.FAILED, 0);
        assertTrue(other.text().contains("/path") && other.text().contains("the session expired"), other.text());
    }

    @Test
    public void l06_aStoreThatIsClosedLeavesAWriteUnknown() {
        Answer thrown = ask(Stores.of((method, args) -> {
            throw new IllegalStateException("closed");
        }), PUT, "/path", 3);
        assertAnswer(thrown, MetadataRequests.FAILED, 0);
        assertAnswer(failing(new MetadataStoreException.AlreadyClosedException()), MetadataRequests.FAILED, 0);
    }

    @Test
    public void whatCertainlyWasNotAskedIsRefused() {
        assertAnswer(ask(null, PUT, "/path", 3), MetadataRequests.REFUSED, 0);
        assertAnswer(ask(Stores.of((method, args) -> null), 99, "/path", 3), MetadataRequests.REFUSED, 0);
        MetadataRequests closing = new MetadataRequests(() -> null, this::record, task -> {
            throw new RejectedExecutionException("shut down");
        });
        closing.submit(5, new byte[0]);
        assertAnswer(last(), MetadataRequests.REFUSED, 0);
        MetadataRequests damaged = new MetadataRequests(() -> null, this::record, Runnable::run);
        damaged.submit(6, new byte[] {1, 2});
        assertAnswer(last(), MetadataRequests.REFUSED, 0);
    }

    @Test
    public void anAnswerThatComesLateIsDeliveredThenAndOnce() {
        CompletableFuture<Optional<GetResult>> late = new CompletableFuture<>();
        MetadataStore store = Stores.of((method, args) -> late);
        int before = answers.size();
        new MetadataRequests(() -> store, this::record, Runnable::run).submit(8, request(GET, "/late", -2));
        assertEquals(answers.size(), before);
        late.complete(Optional.empty());
        late.complete(Optional.empty());
        assertEquals(answers.size(), before + 1);
        assertAnswer(last(), MetadataRequests.NOT_FOUND, 0);
    }

    private Answer failing(Throwable failure) {
        return ask(Stores.of((method, args) -> CompletableFuture.failedFuture(failure)), PUT, "/path", 3);
    }

    private Answer ask(MetadataStore store, int op, String path, long version) {
        int before = answers.size();
        new MetadataRequests(() -> store, this::record, Runnable::run).submit(before, request(op, path, version));
        assertEquals(answers.size(), before + 1, "every request is answered once");
        assertEquals(last().id, before);
        return last();
    }

    private static byte[] request(int op, String path, long version) {
        return new WireWriter().u8(op).string(path).i64(version).bytes(new byte[] {1}).finish();
    }

    private void record(long id, int status, long version, byte[] value) {
        answers.add(new Answer(id, status, version, value));
    }

    private Answer last() {
        return answers.get(answers.size() - 1);
    }

    private static void assertAnswer(Answer answer, int status, long version) {
        assertEquals(answer.status, status, answer.text());
        assertEquals(answer.version, version);
    }

    private static Stat stat(long version) {
        return new Stat("/p", version, 0, 0, false, false);
    }
}
