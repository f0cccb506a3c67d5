package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;

import io.nereus.pulsar.bridge.Forked;
import org.testng.annotations.Test;

/** Memory is back where it was once all topics are closed: that of Netty to the byte, and the engine's by account. */
public class LeakTest {

    @Test
    public void directAndNativeMemoryAreBackAtTheirStartAfterAllTopicsClose() throws Exception {
        Forked.Result result = new Forked()
            // unpooled: what Netty counts are the buffers that live, not the chunks that a pool keeps
            .option("-Dpulsar.allocator.pooled=false").option("-Dpulsar.allocator.leak_detection=Paranoid")
            .option("-Dio.netty.leakDetection.level=paranoid")
            .runMain(LeakMain.class);
        assertThat(result.output()).contains("all memory is back").doesNotContain("LEAK:");
        assertThat(result.exit()).as(result.output()).isZero();
    }
}
