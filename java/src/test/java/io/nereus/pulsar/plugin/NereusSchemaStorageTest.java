package io.nereus.pulsar.plugin;

import static java.util.concurrent.CompletableFuture.completedFuture;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.RETURNS_DEEP_STUBS;
import static org.mockito.Mockito.doReturn;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.spy;
import static org.mockito.Mockito.times;
import static org.mockito.Mockito.verify;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.commons.lang3.tuple.Pair;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.service.schema.SchemaRegistryService;
import org.apache.pulsar.broker.service.schema.exceptions.IncompatibleSchemaException;
import org.apache.pulsar.broker.service.schema.exceptions.SchemaException;
import org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy;
import org.apache.pulsar.common.protocol.schema.SchemaData;
import org.apache.pulsar.common.protocol.schema.SchemaVersion;
import org.apache.pulsar.common.protocol.schema.StoredSchema;
import org.apache.pulsar.common.schema.LongSchemaVersion;
import org.apache.pulsar.common.schema.SchemaType;
import org.apache.pulsar.metadata.api.GetResult;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.MetadataStoreException.BadVersionException;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.testng.annotations.AfterMethod;
import org.testng.annotations.BeforeMethod;
import org.testng.annotations.Test;

/** Schema storage over a real in-memory metadata store. */
public class NereusSchemaStorageTest {
    private static final String ID = "tenant/ns/topic";
    private static final String PATH = "/nereus/schemas/tenant%2Fns%2Ftopic";
    private static final byte[] NO_HASH = {};

    private MetadataStoreExtended store;
    private NereusSchemaStorage storage;

    @BeforeMethod
    public void open() throws Exception {
        store = MetadataStoreExtended.create("memory:" + UUID.randomUUID(), MetadataStoreConfig.builder().build());
        storage = new NereusSchemaStorage(store);
        storage.start();
    }

    @AfterMethod(alwaysRun = true)
    public void close() throws Exception {
        storage.close();
        store.close();
    }

    @Test
    public void versionsCountFromZeroAndStayReadable() throws Exception {
        for (long version = 0; version < 3; version++) {
            assertThat(await(storage.put(ID, bytes("v" + version), NO_HASH))).isEqualTo(new LongSchemaVersion(version));
        }
        assertThat(text(await(storage.get(ID, SchemaVersion.Latest)))).isEqualTo("v2");
        assertThat(text(await(storage.get(ID, new LongSchemaVersion(0))))).isEqualTo("v0");
        assertThat(texts(storage, ID)).containsExactly("v0", "v1", "v2");
        assertThat(storage.versionFromBytes(new LongSchemaVersion(2).bytes())).isEqualTo(new LongSchemaVersion(2));
        assertThat(storage.versionFromBytes(new byte[64])).isEqualTo(new LongSchemaVersion(0));
    }

    @Test
    public void versionsSurviveTheStorageObject() throws Exception {
        await(storage.put(ID, bytes("v0"), NO_HASH));
        NereusSchemaStorage other = new NereusSchemaStorage(store);
        assertThat(texts(other, ID)).containsExactly("v0");
        assertThat(await(other.put(ID, bytes("v1"), NO_HASH))).isEqualTo(new LongSchemaVersion(1));
        assertThat(text(await(storage.get(ID, new LongSchemaVersion(1))))).isEqualTo("v1");
    }

    @Test
    public void whatIsAbsentIsNullNotAnError() throws Exception {
        assertThat(await(storage.get(ID, SchemaVersion.Latest))).isNull();
        assertThat(await(storage.get(ID, new LongSchemaVersion(0)))).isNull();
        assertThat(await(storage.getAll(ID))).isEmpty();
        await(storage.put(ID, bytes("v0"), NO_HASH));
        assertThat(await(storage.get(ID, new LongSchemaVersion(1)))).isNull();
        assertThat(await(storage.get(ID, new LongSchemaVersion(-1)))).isNull();
        assertThat(await(storage.get("tenant/ns/topic2", SchemaVersion.Latest))).isNull();
    }

    @Test
    public void aNullPairStoresNothing() throws Exception {
        await(storage.put(ID, bytes("v0"), NO_HASH));
        assertThat(await(storage.put(ID, present -> completedFuture(null)))).isNull();
        assertThat(texts(storage, ID)).containsExactly("v0");
    }

    @Test
    public void aDecisionThatFailsStoresNothing() throws Exception {
        Throwable failure = failureOf(storage.put(ID, present -> CompletableFuture.failedFuture(
            new IncompatibleSchemaException("no"))));
        assertThat(failure).isInstanceOf(IncompatibleSchemaException.class);
        assertThat(await(storage.getAll(ID))).isEmpty();
    }

    @Test
    public void concurrentPutsOfTwoBrokersLoseNothing() throws Exception {
        NereusSchemaStorage[] brokers = {storage, new NereusSchemaStorage(store)};
        List<CompletableFuture<SchemaVersion>> puts = new ArrayList<>();
        Set<String> expected = new TreeSet<>();
        for (int i = 0; i < 40; i++) {
            String value = "value" + i;
            expected.add(value);
            puts.add(CompletableFuture.supplyAsync(() -> value)
                .thenCompose(ignored -> brokers[value.hashCode() & 1].put(ID, bytes(value), NO_HASH)));
        }
        Set<Long> versions = new TreeSet<>();
        for (CompletableFuture<SchemaVersion> put : puts) {
            versions.add(((LongSchemaVersion) await(put)).getVersion());
        }
        assertThat(versions).as("each put has a version of its own").hasSize(40).contains(0L, 39L);
        assertThat(texts(storage, ID)).containsExactlyInAnyOrderElementsOf(expected);
    }

    @Test
    public void ofManyBrokersThatAddTheSameSchemaOneAddsIt() throws Exception {
        List<CompletableFuture<SchemaVersion>> puts = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            NereusSchemaStorage broker = new NereusSchemaStorage(store);
            puts.add(CompletableFuture.supplyAsync(() -> broker).thenCompose(b -> b.put(ID, present -> present.thenApply(
                list -> list.isEmpty() ? Pair.of(bytes("same"), NO_HASH) : null))));
        }
        int added = 0;
        for (CompletableFuture<SchemaVersion> put : puts) {
            added += await(put) == null ? 0 : 1;
        }
        assertThat(added).isEqualTo(1);
        assertThat(texts(storage, ID)).containsExactly("same");
    }

    @Test
    public void aLostUpdateIsDecidedAgainOnTheFreshList() throws Exception {
        AtomicBoolean overtaken = new AtomicBoolean();
        List<Integer> seen = new ArrayList<>();
        SchemaVersion version = await(storage.put(ID, present -> present.thenCompose(list -> {
            seen.add(list.size());
            Pair<byte[], byte[]> mine = Pair.of(bytes("mine"), NO_HASH);
            return overtaken.getAndSet(true) ? completedFuture(mine)
                : new NereusSchemaStorage(store).put(ID, bytes("theirs"), NO_HASH).thenApply(ignored -> mine);
        })));
        assertThat(seen).containsExactly(0, 1);
        assertThat(version).isEqualTo(new LongSchemaVersion(1));
        assertThat(texts(storage, ID)).containsExactly("theirs", "mine");
    }

    @Test
    public void updatesThatAreAlwaysLostEndInAnError() throws Exception {
        MetadataStoreExtended losing = spy(store);
        doReturn(CompletableFuture.failedFuture(new BadVersionException("lost"))).when(losing).put(any(), any(), any());
        Throwable failure = failureOf(new NereusSchemaStorage(losing, 3).put(ID, bytes("v0"), NO_HASH));
        assertThat(failure).isInstanceOf(SchemaException.class).hasMessageContaining(ID).hasMessageContaining("3 attempts");
        verify(losing, times(3)).put(any(), any(), any());
    }

    @Test
    public void aTombstoneIsOneMoreVersion() throws Exception {
        await(storage.put(ID, bytes("v0"), NO_HASH));
        assertThat(await(storage.put(ID, bytes("tombstone"), NO_HASH))).isEqualTo(new LongSchemaVersion(1));
        assertThat(texts(storage, ID)).containsExactly("v0", "tombstone");
    }

    @Test
    public void deleteRemovesEveryVersionAndVersionsStartAgain() throws Exception {
        await(storage.put(ID, bytes("old0"), NO_HASH));
        await(storage.put(ID, bytes("old1"), NO_HASH));
        assertThat(await(storage.delete(ID))).isNotNull();
        assertThat(await(storage.getAll(ID))).isEmpty();
        assertThat(await(storage.put(ID, bytes("new0"), NO_HASH))).isEqualTo(new LongSchemaVersion(0));
        assertThat(texts(storage, ID)).containsExactly("new0");
    }

    @Test
    public void deleteOfWhatIsAbsentAnswersNull() throws Exception {
        assertThat(await(storage.delete(ID))).isNull();
        assertThat(await(storage.delete(ID, true))).isNull();
    }

    @Test
    public void ofTwoConcurrentDeletesNoneFails() throws Exception {
        await(storage.put(ID, bytes("v0"), NO_HASH));
        CompletableFuture<SchemaVersion> first = storage.delete(ID, true);
        CompletableFuture<SchemaVersion> second = new NereusSchemaStorage(store).delete(ID, true);
        await(first);
        await(second);
        assertThat(await(storage.getAll(ID))).isEmpty();
    }

    @Test
    public void aDamagedNodeIsAnErrorNeverEmptyAndIsNotOverwritten() throws Exception {
        await(storage.put(ID, bytes("v0"), NO_HASH));
        byte[] damaged = damageNode();
        for (CompletableFuture<?> call : List.of(storage.get(ID, SchemaVersion.Latest), storage.getAll(ID),
                storage.get(ID, new LongSchemaVersion(0)), storage.put(ID, bytes("v1"), NO_HASH))) {
            Throwable failure = failureOf(call);
            assertThat(failure).isInstanceOf(SchemaException.class).hasMessageContaining(ID).hasMessageContaining(PATH);
            assertThat(((SchemaException) failure).isRecoverable()).isTrue();
        }
        assertThat(node().orElseThrow().getValue()).isEqualTo(damaged);
    }

    @Test
    public void theBrokerDoesNotCleanUpADamagedSchema() throws Exception {
        await(storage.put(ID, bytes("v0"), NO_HASH));
        byte[] damaged = damageNode();
        SchemaRegistryService registry =
            SchemaRegistryService.create(storage, Set.of(), mock(PulsarService.class, RETURNS_DEEP_STUBS));
        try {
            SchemaData schema = SchemaData.builder().type(SchemaType.STRING).data(NO_HASH).user("user").build();
            assertThat(failureOf(registry.putSchemaIfAbsent(ID, schema, SchemaCompatibilityStrategy.FULL))).isNotNull();
            assertThat(failureOf(registry.trimDeletedSchemaAndGetList(ID))).isNotNull();
            assertThat(node().orElseThrow().getValue()).isEqualTo(damaged);
        } finally {
            registry.close();
        }
    }

    @Test
    public void aDamagedNodeCanBeDeleted() throws Exception {
        await(storage.put(ID, bytes("v0"), NO_HASH));
        damageNode();
        await(storage.delete(ID, true));
        assertThat(await(storage.put(ID, bytes("new"), NO_HASH))).isEqualTo(new LongSchemaVersion(0));
    }

    @Test
    public void aVersionThatDoesNotFitIsRefusedAndChangesNothing() throws Exception {
        await(storage.put(ID, bytes("v0"), NO_HASH));
        byte[] noise = new byte[SchemaNode.MAX_NODE_BYTES];
        new Random(5).nextBytes(noise);
        Throwable failure = failureOf(storage.put(ID, noise, NO_HASH));
        assertThat(failure).as("of the type that clients do not retry").isInstanceOf(IncompatibleSchemaException.class)
            .hasMessageContaining(ID).hasMessageContaining(String.valueOf(SchemaNode.MAX_NODE_BYTES));
        assertThat(texts(storage, ID)).containsExactly("v0");
    }

    @Test
    public void idsThatLookLikePathsDoNotMeet() throws Exception {
        await(storage.put("t/c/n", bytes("short"), NO_HASH));
        await(storage.put("t/c/n/x", bytes("long"), NO_HASH));
        await(storage.delete("t/c/n", true));
        assertThat(texts(storage, "t/c/n/x")).containsExactly("long");
    }

    private byte[] damageNode() throws Exception {
        GetResult before = node().orElseThrow();
        byte[] damaged = before.getValue().clone();
        damaged[damaged.length / 2] ^= 1;
        store.put(PATH, damaged, Optional.of(before.getStat().getVersion())).get();
        return damaged;
    }

    private Optional<GetResult> node() throws Exception {
        return store.get(PATH).get();
    }

    private static List<String> texts(NereusSchemaStorage storage, String id) throws Exception {
        List<String> texts = new ArrayList<>();
        long version = 0;
        for (CompletableFuture<StoredSchema> schema : await(storage.getAll(id))) {
            assertThat(await(schema).version).isEqualTo(new LongSchemaVersion(version++));
            texts.add(text(await(schema)));
        }
        return texts;
    }

    private static String text(StoredSchema schema) {
        return new String(schema.data, StandardCharsets.UTF_8);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static <T> T await(CompletableFuture<T> future) throws Exception {
        return future.get(30, TimeUnit.SECONDS);
    }

    private static Throwable failureOf(CompletableFuture<?> future) {
        Throwable thrown = catchThrowable(() -> await(future));
        assertThat(thrown).as("a failed future").isInstanceOf(ExecutionException.class);
        return thrown.getCause();
    }
}
