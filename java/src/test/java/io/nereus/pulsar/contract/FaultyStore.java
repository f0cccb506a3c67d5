package io.nereus.pulsar.contract;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import org.apache.pulsar.metadata.api.MetadataStoreException;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/**
 * A metadata store that fails, delays or loses the answer of the calls a test names.
 *
 * <p>An armed fault hits the first matching call and is spent, but for {@link #failEvery}; faults armed earlier are asked
 * first. What goes through {@link #direct()} meets no fault and is not recorded. Thread-safe. A proxy, so that it serves every version of the
 * interface.
 */
public final class FaultyStore {

    /** What a call does. */
    public enum Operation { GET, CHILDREN, EXISTS, PUT, DELETE }

    /**
     * One call of a broker.
     *
     * @param operation what it does
     * @param path      where
     */
    public record Call(Operation operation, String path) {
    }

    private enum Side { BEFORE, AFTER, DELAY }

    private record Fault(Predicate<Call> which, Side side, MetadataStoreException exception,
                         CompletableFuture<Void> until, boolean once) {
    }

    private final MetadataStoreExtended direct;
    private final List<Fault> armed = new ArrayList<>();
    private final List<Call> calls = new CopyOnWriteArrayList<>();

    FaultyStore(MetadataStoreExtended direct) {
        this.direct = direct;
    }

    /** The store behind, without faults. */
    public MetadataStoreExtended direct() {
        return direct;
    }

    /** The next matching call fails with {@code exception} and has no effect. */
    public void failNext(Predicate<Call> which, MetadataStoreException exception) {
        arm(new Fault(which, Side.BEFORE, exception, null, true));
    }

    /** Every matching call fails with {@code exception} and has no effect, until {@link #reset()}. */
    public void failEvery(Predicate<Call> which, MetadataStoreException exception) {
        arm(new Fault(which, Side.BEFORE, exception, null, false));
    }

    /** The next matching call takes effect and is answered with {@code exception}. */
    public void loseAnswerOfNext(Predicate<Call> which, MetadataStoreException exception) {
        arm(new Fault(which, Side.AFTER, exception, null, true));
    }

    /** The next matching call is carried out once {@code until} completes, and fails if that fails. */
    public void delayNext(Predicate<Call> which, CompletableFuture<Void> until) {
        arm(new Fault(which, Side.DELAY, null, until, true));
    }

    /** Forgets faults that were not met and the calls recorded so far. */
    public void reset() {
        synchronized (armed) {
            armed.clear();
        }
        calls.clear();
    }

    /** Whether every armed fault was met and spent. */
    public boolean faultsMet() {
        synchronized (armed) {
            return armed.isEmpty();
        }
    }

    /** The calls since the last {@link #reset()}, in their order. */
    public List<Call> calls() {
        return List.copyOf(calls);
    }

    /** Calls of this operation under (or at) {@code path}. */
    public static Predicate<Call> calls(Operation operation, String path) {
        return call -> call.operation() == operation && call.path().startsWith(path);
    }

    /** Reads of {@code path} and below. */
    public static Predicate<Call> gets(String path) {
        return calls(Operation.GET, path);
    }

    /** Writes of {@code path} and below. */
    public static Predicate<Call> puts(String path) {
        return calls(Operation.PUT, path);
    }

    /** Deletions of {@code path} and below. */
    public static Predicate<Call> deletes(String path) {
        return calls(Operation.DELETE, path);
    }

    private void arm(Fault fault) {
        synchronized (armed) {
            armed.add(fault);
        }
    }

    private Fault take(Call call) {
        synchronized (armed) {
            for (Iterator<Fault> each = armed.iterator(); each.hasNext();) {
                Fault fault = each.next();
                if (fault.which().test(call)) {
                    if (fault.once()) {
                        each.remove();
                    }
                    return fault;
                }
            }
        }
        return null;
    }

    /** What one broker process sees of the store; once {@code killed} it reaches nothing any more. */
    MetadataStoreExtended view(AtomicBoolean killed) {
        return (MetadataStoreExtended) Proxy.newProxyInstance(getClass().getClassLoader(),
            new Class<?>[] {MetadataStoreExtended.class}, (proxy, method, arguments) -> {
                if (method.getDeclaringClass() == Object.class || method.getName().equals("close")) {
                    return method.getName().equals("close") ? null : method.invoke(this, arguments);
                }
                Operation operation = operation(method);
                if (operation == null) {
                    return invoke(method, arguments);
                }
                return answer(new Call(operation, (String) arguments[0]), method, arguments, killed);
            });
    }

    private CompletableFuture<?> answer(Call call, Method method, Object[] arguments, AtomicBoolean killed)
            throws Throwable {
        if (killed.get()) {
            return CompletableFuture.failedFuture(new MetadataStoreException("the process of this caller was killed"));
        }
        calls.add(call);
        Fault fault = take(call);
        if (fault == null) {
            return (CompletableFuture<?>) invoke(method, arguments);
        }
        return switch (fault.side()) {
            case BEFORE -> CompletableFuture.failedFuture(fault.exception());
            case AFTER -> ((CompletableFuture<?>) invoke(method, arguments)).handle((done, failure) -> null)
                .thenCompose(ignored -> CompletableFuture.failedFuture(fault.exception()));
            case DELAY -> fault.until().thenCompose(ignored -> (CompletableFuture<?>) invokeUnchecked(method, arguments));
        };
    }

    private static Operation operation(Method method) {
        return switch (method.getName()) {
            case "get" -> Operation.GET;
            case "getChildren", "getChildrenFromStore" -> Operation.CHILDREN;
            case "exists" -> Operation.EXISTS;
            case "put" -> Operation.PUT;
            case "delete", "deleteIfExists", "deleteRecursive" -> Operation.DELETE;
            default -> null;
        };
    }

    private Object invoke(Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(direct, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    private Object invokeUnchecked(Method method, Object[] arguments) {
        try {
            return invoke(method, arguments);
        } catch (Throwable e) {
            return CompletableFuture.failedFuture(e);
        }
    }
}
