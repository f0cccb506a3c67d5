package io.nereus.tests.e2e;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;

import io.nereus.tests.broker.Installation;
import io.nereus.tests.linkage.LinkageMain;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.testng.annotations.Test;

/** The one jar on the class path of the release that this run is about, in a JVM of its own. */
public class LinkageTest {

    @Test
    public void everyClassLinksAndEveryMethodThatPulsarAsksForIsThere() throws Exception {
        Installation installation = Installation.built();
        Path checks = Path.of(LinkageMain.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        Process process = new ProcessBuilder(List.of(installation.java().toString(), "-Xmx256m", "-XX:TieredStopAtLevel=1",
                "--enable-native-access=ALL-UNNAMED", "-cp", installation.classPath() + ":" + checks,
                LinkageMain.class.getName(), installation.jar().toString())).redirectErrorStream(true).start();
        process.getOutputStream().close();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the check still runs:\n" + said);
        assertEquals(process.exitValue(), 0, said);
        assertTrue(said.matches("(?s).*linkage: [1-9][0-9]+ classes, [1-9][0-9]+ uses of members, 0 problems\\s*"), said);
    }
}
