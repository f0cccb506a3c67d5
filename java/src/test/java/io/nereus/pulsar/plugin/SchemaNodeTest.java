package io.nereus.pulsar.plugin;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nereus.pulsar.plugin.SchemaNode.CorruptException;
import io.nereus.pulsar.plugin.SchemaNode.TooLargeException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;
import org.testng.annotations.Test;

/** The bytes of a schema node: what was written is read, and nothing else is. */
public class SchemaNodeTest {
    private static final String ID = "tenant/ns/topic";

    @Test
    public void whatWasEncodedIsDecoded() throws Exception {
        Random random = new Random(7);
        SchemaNode node = SchemaNode.empty(ID);
        for (int length : new int[] {0, 1, 17, 4096, 70_000}) {
            byte[] version = new byte[length];
            random.nextBytes(version);
            node = node.with(version);
            assertThat(SchemaNode.decode(ID, node.encode())).isEqualTo(node);
        }
        assertThat(node.versions()).hasSize(5);
        assertThat(SchemaNode.decode(ID, SchemaNode.empty(ID).encode())).isEqualTo(SchemaNode.empty(ID));
    }

    @Test
    public void everyFlippedBitIsFound() throws Exception {
        byte[] bytes = node("first", "second").encode();
        for (int bit = 0; bit < bytes.length * 8; bit++) {
            byte[] damaged = bytes.clone();
            damaged[bit / 8] ^= (byte) (1 << (bit % 8));
            assertThatThrownBy(() -> SchemaNode.decode(ID, damaged)).as("bit %d", bit)
                .isInstanceOf(CorruptException.class);
        }
    }

    @Test
    public void everyTruncationIsFound() throws Exception {
        byte[] bytes = node("first", "second").encode();
        for (int length = 0; length < bytes.length; length++) {
            byte[] cut = Arrays.copyOf(bytes, length);
            assertThatThrownBy(() -> SchemaNode.decode(ID, cut)).as("length %d", length)
                .isInstanceOf(CorruptException.class);
        }
    }

    @Test
    public void aNodeOfAnotherSchemaIsRefused() throws Exception {
        byte[] bytes = node("first").encode();
        assertThatThrownBy(() -> SchemaNode.decode("tenant/ns/other", bytes)).isInstanceOf(CorruptException.class)
            .hasMessageContaining(ID);
    }

    @Test
    public void versionsThatDoNotFitAreRefused() {
        byte[] noise = new byte[SchemaNode.MAX_NODE_BYTES];
        new Random(11).nextBytes(noise);
        assertThatThrownBy(() -> SchemaNode.empty(ID).with(noise).encode()).isInstanceOf(TooLargeException.class)
            .hasMessageContaining(String.valueOf(SchemaNode.MAX_NODE_BYTES));
        assertThatThrownBy(() -> SchemaNode.empty(ID).with(new byte[SchemaNode.MAX_BODY_BYTES]).encode())
            .isInstanceOf(TooLargeException.class).hasMessageContaining(String.valueOf(SchemaNode.MAX_BODY_BYTES));
    }

    @Test
    public void similarVersionsShareTheirSpace() throws Exception {
        SchemaNode node = SchemaNode.empty(ID);
        byte[] schema = new byte[20_000];
        new Random(13).nextBytes(schema);
        for (int version = 0; version < 100; version++) {
            byte[] next = schema.clone();
            next[version] ^= 1;
            node = node.with(next);
        }
        assertThat(node.encode().length).isLessThan(100_000);
    }

    private static SchemaNode node(String... versions) {
        SchemaNode node = SchemaNode.empty(ID);
        for (String version : versions) {
            node = node.with(version.getBytes(StandardCharsets.UTF_8));
        }
        return node;
    }
}
