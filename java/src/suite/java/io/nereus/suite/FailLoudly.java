package io.nereus.suite;

import java.util.Set;
import net.bytebuddy.agent.builder.AgentBuilder;

/** Ends the JVM when a class could not be changed: a test of something else than it says would pass in silence. */
final class FailLoudly extends AgentBuilder.Listener.Adapter {
    private final Set<String> types;

    FailLoudly(String... types) {
        this.types = Set.of(types);
    }

    @Override
    public void onError(String type, ClassLoader loader, net.bytebuddy.utility.JavaModule module, boolean loaded,
            Throwable cause) {
        if (types.contains(type)) {
            cause.printStackTrace();
            Runtime.getRuntime().halt(3);
        }
    }
}
