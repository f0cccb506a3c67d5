package io.nereus.pulsar.bridge;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.metadata.api.MetadataStore;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/** Metadata stores for tests: a real one in memory, and ones that misbehave. */
final class Stores {

    private Stores() {
    }

    /** Says what a method answers. */
    interface Behaviour {
        Object answer(String method, Object[] args) throws Throwable;
    }

    /** Pulsar's own store in memory. */
    static MetadataStoreExtended memory() throws Exception {
        return MetadataStoreExtended.create("memory:local", MetadataStoreConfig.builder().build());
    }

    /** A store that answers what {@code behaviour} says. */
    static MetadataStore of(Behaviour behaviour) {
        return (MetadataStore) Proxy.newProxyInstance(Stores.class.getClassLoader(),
                new Class<?>[] {MetadataStore.class},
                (proxy, method, args) -> behaviour.answer(method.getName(), args));
    }

    /** A store that never answers. */
    static MetadataStore silent() {
        return of((method, args) -> new CompletableFuture<>());
    }

    /** A store that hands its calls on after {@code before} had a look at them. */
    static MetadataStore watched(MetadataStore real, Behaviour before) {
        return (MetadataStore) Proxy.newProxyInstance(Stores.class.getClassLoader(),
                new Class<?>[] {MetadataStore.class}, (proxy, method, args) -> {
                    Object instead = before.answer(method.getName(), args);
                    if (instead != null) {
                        return instead;
                    }
                    try {
                        return method.invoke(real, args);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }
}
