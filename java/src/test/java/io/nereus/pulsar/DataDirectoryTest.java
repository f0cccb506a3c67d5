package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.UUID;
import org.apache.pulsar.metadata.api.MetadataStore;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.testng.annotations.Test;

@SuppressWarnings("try") // MetadataStore.close() may be interrupted, which is the test's failure
public class DataDirectoryTest {

    private static MetadataStoreExtended store() throws Exception {
        return MetadataStoreExtended.create("memory:" + UUID.randomUUID(), MetadataStoreConfig.builder().build());
    }

    @Test
    public void aPlainPathIsTakenAsItIs() throws Exception {
        try (MetadataStore store = store()) {
            assertThat(DataDirectory.resolve("data/nereus", store)).isEqualTo(Path.of("data/nereus").toAbsolutePath());
            assertThat(store.exists(DataDirectory.ID_PATH).get()).isFalse();
        }
    }

    @Test
    public void brokersOfOneStoreAgreeOnTheirDirectory() throws Exception {
        try (MetadataStore store = store(); MetadataStore other = store()) {
            Path first = DataDirectory.resolve("/d/{clusterId}/n", store);
            assertThat(first.toString()).startsWith("/d/").endsWith("/n").doesNotContain("{");
            assertThat(DataDirectory.resolve("/d/{clusterId}/n", store)).isEqualTo(first);
            assertThat(DataDirectory.resolve("/d/{clusterId}/n", other)).isNotEqualTo(first);
        }
    }
}
