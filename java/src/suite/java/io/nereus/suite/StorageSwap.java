package io.nereus.suite;

import java.lang.instrument.Instrumentation;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;
import org.testng.ITestNGListener;

/**
 * TestNG listener that makes Nereus the default storage of every broker configuration created in this JVM.
 *
 * <p>Owns nothing. Promises that each {@code ServiceConfiguration} leaves its constructor with our storage class; whatever a
 * test sets afterwards wins, as it does over stock's default. Works by advice on the constructor because no system
 * property reaches a {@code ServiceConfiguration} and many test bases build one without any hook. The compaction service is
 * set here too: Pulsar's test bases decide whether to use a mocked one before our storage is initialized and could replace it.
 * Where a test base mocks the ledgers too (its brokers never start and no storage is initialized), its mock stays.
 *
 * <p>The {@code nereus*} settings come from system properties of the same names. The data directory's has {@code {clusterId}} in
 * it, so that brokers over one metadata store share a directory and clusters in one JVM do not.
 */
public final class StorageSwap implements ITestNGListener {
    private static final String CONFIGURATION = "org.apache.pulsar.broker.ServiceConfiguration";
    private static final String MOCKED = "org.apache.pulsar.broker.testcontext.PulsarTestContext$NonStartableCustomBuilder";

    static {
        Instrumentation instrumentation = ByteBuddyAgent.install();
        new AgentBuilder.Default()
            .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
            .with(new FailLoudly(CONFIGURATION, MOCKED))
            .disableClassFormatChanges()
            .type(ElementMatchers.named(CONFIGURATION))
            .transform((builder, type, loader, module, domain) ->
                builder.visit(Advice.to(AfterConstructor.class).on(ElementMatchers.isConstructor())))
            .type(ElementMatchers.named(MOCKED))
            .transform((builder, type, loader, module, domain) ->
                builder.visit(Advice.to(BeforeMocking.class).on(ElementMatchers.named("initializePulsarServices"))))
            .installOn(instrumentation);
    }

    /** Inlined at the end of the constructor; it must stay free of references to this package. */
    static final class AfterConstructor {
        private AfterConstructor() {
        }

        @Advice.OnMethodExit
        static void exit(
                @Advice.FieldValue(value = "managedLedgerStorageClassName", readOnly = false) String storage,
                @Advice.FieldValue(value = "compactionServiceFactoryClassName", readOnly = false) String compaction) {
            storage = "io.nereus.pulsar.NereusManagedLedgerStorage";
            compaction = "io.nereus.pulsar.plugin.NereusCompactionServiceFactory";
        }
    }

    /** Inlined at the beginning of the set-up of mocks; the broker's configuration is a field of the builder given to it. */
    static final class BeforeMocking {
        private BeforeMocking() {
        }

        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(1) Object builder) throws ReflectiveOperationException {
            Class<?> type = builder.getClass();
            while (!type.getSimpleName().equals("Builder")) {
                type = type.getSuperclass();
            }
            java.lang.reflect.Field field = type.getDeclaredField("config");
            field.setAccessible(true);
            Object configuration = field.get(builder);
            configuration.getClass().getMethod("setCompactionServiceFactoryClassName", String.class)
                .invoke(configuration, "org.apache.pulsar.compaction.PulsarCompactionServiceFactory");
        }
    }
}
