package io.nereus.bench;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import org.testng.annotations.Test;

/** A side that answers before it syncs must not be compared with one that does not. */
public class SyncCheckTest {

    @Test
    public void asManySyncsAsTheAnswersNeedAreAccepted() {
        assertThatCode(() -> SyncCheck.require("append", Side.STOCK, 1000, 100, 10, 3)).doesNotThrowAnyException();
    }

    @Test
    public void moreAnswersThanTheSyncsCanCoverAreRefused() {
        assertThatThrownBy(() -> SyncCheck.require("append", Side.STOCK, 1001, 100, 10, 3))
            .isInstanceOf(IOException.class).hasMessageContaining("append, stock").hasMessageContaining("does not sync");
    }

    @Test
    public void noSyncAtAllIsRefused() {
        assertThatThrownBy(() -> SyncCheck.require("append", Side.NEREUS, 1, 1000, 0, 3))
            .isInstanceOf(IOException.class).hasMessageContaining("after 0 syncs");
    }

    @Test
    public void syncsThatReachNoDiskAreRefused() {
        assertThatThrownBy(() -> SyncCheck.require("append", Side.NEREUS, 10, 10, 10, 0))
            .isInstanceOf(IOException.class).hasMessageContaining("no disk");
    }
}
