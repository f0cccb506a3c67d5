package io.nereus.pulsar;

import static org.mockito.Mockito.mock;
import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertSame;
import static org.testng.Assert.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.impl.ManagedCursorContainer;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerImpl;
import org.mockito.invocation.Invocation;
import org.testng.annotations.Test;

/**
 * Nothing of stock's ledger, of which no constructor has run, is ever used behind its type. Runs on every release that is
 * cast to as well: what must be overridden is asked of the release.
 */
public class CastableLedgerTest {

    /** The classes of the broker that cast; the second one is gone in Pulsar 5. */
    private static final List<String> HOLDERS = List.of("PersistentReplicator",
        "PersistentStickyKeyDispatcherMultipleConsumersClassic");
    private static final String PACKAGE = "org/apache/pulsar/broker/service/persistent/";
    private static final String STOCK_LEDGER = ManagedLedgerImpl.class.getName().replace('.', '/');

    private static String signature(Method method) {
        return method.getName() + MethodType.methodType(method.getReturnType(), method.getParameterTypes()).descriptorString();
    }

    private static List<String> overridden() {
        return Arrays.stream(CastableLedger.class.getDeclaredMethods()).map(CastableLedgerTest::signature).toList();
    }

    private static List<Method> methodsOfTheInterface() {
        return Arrays.stream(ManagedLedger.class.getMethods()).filter(method -> !Modifier.isStatic(method.getModifiers())).toList();
    }

    /** By return type too: that is what a call goes by, and stock's class returns more special types in places. */
    @Test
    public void everyMethodOfPulsarsLedgerIsOverridden() {
        List<String> overridden = overridden();
        List<String> missing = methodsOfTheInterface().stream().map(CastableLedgerTest::signature)
            .filter(method -> !overridden.contains(method)).toList();
        assertEquals(missing, List.of());
    }

    @Test
    public void everyOverrideOfStocksClassIsOverriddenAgain() {
        List<String> overridden = overridden();
        List<String> missing = new ArrayList<>();
        for (Method method : ManagedLedgerImpl.class.getDeclaredMethods()) {
            boolean ofInterface = methodsOfTheInterface().stream().anyMatch(each -> each.getName().equals(method.getName())
                && Arrays.equals(each.getParameterTypes(), method.getParameterTypes()));
            if (ofInterface && !overridden.contains(signature(method))) {
                missing.add(method.getReturnType().getSimpleName() + " " + method.getName());
            }
        }
        // From Pulsar 4.1 on, with a type that 4.0 does not have. Only stock's own code calls it by that type.
        missing.remove("ActiveManagedCursorContainer getActiveCursors");
        assertEquals(missing, List.of());
    }

    @Test
    public void whateverTheBrokerCallsOnALedgerThatItCastIsOverridden() throws Exception {
        List<String> overridden = overridden();
        List<String> missing = new ArrayList<>(calls());
        missing.removeAll(overridden);
        assertEquals(missing, List.of());
    }

    private static List<String> calls() throws IOException {
        List<String> calls = new ArrayList<>();
        for (String holder : HOLDERS) {
            try (InputStream file = ManagedLedger.class.getClassLoader().getResourceAsStream(PACKAGE + holder + ".class")) {
                if (file == null) {
                    continue;
                }
                new ClassReader(file.readAllBytes()).accept(new ClassVisitor(Opcodes.ASM9) {
                    @Override
                    public MethodVisitor visitMethod(int access, String name, String type, String generic, String[] thrown) {
                        return new MethodVisitor(Opcodes.ASM9) {
                            @Override
                            public void visitMethodInsn(int opcode, String owner, String called, String with, boolean onInterface) {
                                if (owner.equals(STOCK_LEDGER)) {
                                    calls.add(called + with);
                                }
                            }
                        };
                    }
                }, ClassReader.SKIP_DEBUG);
            }
        }
        return calls;
    }

    /** Each call arrives once, as the same method with the same arguments, and its answer comes back. */
    @Test
    public void everyCallIsTheLedgers() throws Exception {
        List<Invocation> calls = new ArrayList<>();
        Map<Class<?>, Object> answers = answers();
        NereusManagedLedger ledger = mock(NereusManagedLedger.class, call -> {
            calls.add((Invocation) call);
            return answerOf(answers, call.getMethod().getReturnType());
        });
        CastableLedger castable = CastableLedger.of(ledger);
        for (Method method : methodsOfTheInterface()) {
            calls.clear();
            Object[] arguments = Arrays.stream(method.getParameterTypes()).map(type -> answerOf(answers, type)).toArray();
            Object answer = method.invoke(castable, arguments);
            assertEquals(calls.size(), 1, signature(method));
            assertEquals(calls.get(0).getMethod().getName(), method.getName());
            assertEquals(calls.get(0).getMethod().getParameterTypes(), method.getParameterTypes(), method.getName());
            assertEquals(calls.get(0).getRawArguments(), arguments, signature(method));
            assertEquals(answer, answerOf(answers, method.getReturnType()), signature(method));
        }
    }

    private static Map<Class<?>, Object> answers() {
        Map<Class<?>, Object> answers = new HashMap<>();
        answers.put(void.class, null);
        answers.put(boolean.class, true);
        answers.put(int.class, 7);
        answers.put(long.class, 9L);
        answers.put(String.class, "text");
        answers.put(byte[].class, new byte[3]);
        answers.put(Object.class, new Object());
        answers.put(Optional.class, Optional.of(5));
        answers.put(NavigableMap.class, new TreeMap<>());
        answers.put(CompletableFuture.class, new CompletableFuture<>());
        answers.put(Iterable.class, mock(ManagedCursorContainer.class));
        return answers;
    }

    private static Object answerOf(Map<Class<?>, Object> answers, Class<?> type) {
        if (!answers.containsKey(type)) {
            answers.put(type, type.isEnum() ? type.getEnumConstants()[1] : Modifier.isFinal(type.getModifiers()) ? null : mock(type));
        }
        return answers.get(type);
    }

    @Test
    public void itComparesByIdentityAsTheLedgerDoes() throws Exception {
        NereusManagedLedger ledger = mock(NereusManagedLedger.class);
        CastableLedger castable = CastableLedger.of(ledger);
        assertTrue(castable.equals(castable));
        assertFalse(castable.equals(ledger));
        assertFalse(castable.equals(CastableLedger.of(ledger)));
        assertEquals(castable.hashCode(), System.identityHashCode(castable));
        assertSame(ManagedLedgerImpl.class.cast(castable), castable);
    }
}
