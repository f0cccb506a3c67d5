package io.nereus.suite;

import java.lang.instrument.Instrumentation;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;
import org.apache.bookkeeper.client.AsyncCallback.OpenCallback;
import org.apache.bookkeeper.client.BookKeeper;
import org.testng.ITestNGListener;

/**
 * TestNG listener that lets the mock of bookies of an older release serve a newer one, so that stock's tests run there.
 *
 * <p>Pulsar 4.2 opens ledgers through a method that takes {@code keepUpdateMetadata} as well, and publishes no mock that knows
 * it. A client that has no manager of ledgers is a mock, and gets the call without that argument. Real clients are untouched.
 */
public final class MockRepair implements ITestNGListener {
    private static final String CLIENT = "org.apache.bookkeeper.client.BookKeeper";

    static {
        Instrumentation instrumentation = ByteBuddyAgent.install();
        new AgentBuilder.Default()
            .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
            .with(new FailLoudly(CLIENT))
            .disableClassFormatChanges()
            .type(ElementMatchers.named(CLIENT))
            .transform((builder, type, loader, module, domain) -> builder.visit(Advice.to(Open.class)
                .on(ElementMatchers.named("asyncOpenLedger").and(ElementMatchers.takesArguments(6)))))
            .installOn(instrumentation);
    }

    /**
     * Inlined at the beginning of the method; it must stay free of references to this package. Its signature must not name the
     * client: reading it would load the class while it is being loaded.
     */
    static final class Open {
        private Open() {
        }

        /** Whether the call was passed on, and the method is to be skipped. */
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(@Advice.This Object client, @Advice.FieldValue("ledgerManager") Object ledgerManager,
                @Advice.Argument(0) long ledger, @Advice.Argument(1) BookKeeper.DigestType digest,
                @Advice.Argument(2) byte[] password, @Advice.Argument(3) OpenCallback callback,
                @Advice.Argument(4) Object context) {
            if (ledgerManager != null) {
                return false;
            }
            ((BookKeeper) client).asyncOpenLedger(ledger, digest, password, callback, context);
            return true;
        }
    }
}
