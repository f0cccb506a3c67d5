package io.nereus.pulsar.bridge;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertTrue;

import org.testng.annotations.DataProvider;
import org.testng.annotations.Test;

/** What only a JVM of its own can show: how it ends, what it checks, what it leaks. */
public class ForkedJvmTest {

    private static final String[] CRASHES = {"A fatal error has been detected", "SIGSEGV", "SIGABRT", "LEAK:"};

    @DataProvider
    public static Object[][] jvms() {
        return new Object[][] {
            {"plain", new String[] {}},
            {"-Xcheck:jni", new String[] {"-Xcheck:jni"}},
            {"Netty without Unsafe", new String[] {"-Dio.netty.noUnsafe=true"}},
            {"unpooled heap buffers", new String[] {"-Dpulsar.allocator.pooled=false"}},
        };
    }

    @Test(dataProvider = "jvms")
    public void aJvmThatClosedItsEngineEndsByItselfAndLeaksNothing(String name, String[] options) throws Exception {
        Forked jvm = paranoid();
        for (String option : options) {
            jvm.option(option);
        }
        Forked.Result result = jvm.run("work");
        result.assertSays("worked, live blobs: 0");
        result.assertSilentAbout(CRASHES);
        result.assertSilentAbout("FATAL ERROR in native method", "NativeCalls.");
        assertEquals(result.exit(), 0, result.output());
    }

    @Test
    public void theLeakDetectorOfThatTestFindsALeak() throws Exception {
        paranoid().run("work-and-leak").assertSays("LEAK:");
    }

    @Test
    public void aJvmThatLeavesItsEngineOpenEndsByItself() throws Exception {
        Forked.Result result = new Forked().run("leave-open");
        result.assertSays("main returns");
        result.assertSilentAbout(CRASHES);
        assertEquals(result.exit(), 0, result.output());
    }

    @Test(invocationCount = 3)
    public void aJvmThatExitsUnderLoadEndsWithItsOwnCode() throws Exception {
        Forked.Result result = new Forked().run("exit-under-load");
        result.assertSays("exiting");
        result.assertSilentAbout(CRASHES);
        assertEquals(result.exit(), 7, result.output());
    }

    @Test
    public void everythingWorksInAChildClassLoader() throws Exception {
        Forked.Result result = new Forked().run("child-loader", "work");
        result.assertSays("worked, live blobs: 0");
        assertEquals(result.exit(), 0, result.output());
    }

    @Test
    public void l06_aMetadataStoreThatNeverAnswersEndsTheOpenInTime() throws Exception {
        Forked.Result result = new Forked().environment("NEREUS_TEST_HOOKS", "1")
                .environment("NEREUS_TEST_METADATA_MILLIS", "300").run("silent-store");
        result.assertSays("did not answer", "opened afterwards, live blobs: 0");
        assertTrue(result.exit() == 0, result.output());
    }

    @Test
    public void aTopicWhoseMetadataNeverAnswerFailsInTimeAndBlocksNoOtherAndOpensOnceTheyDo_case_074()
            throws Exception {
        Forked.Result result = new Forked().environment("NEREUS_TEST_HOOKS", "1")
                .environment("NEREUS_TEST_METADATA_MILLIS", "3000").run("hung-topic"); // the store answers some calls
        result.assertSays("did not answer", "opened afterwards, live blobs: 0");
        assertTrue(result.exit() == 0, result.output());
    }

    private static Forked paranoid() {
        return new Forked().option("-Dio.netty.leakDetection.level=paranoid")
                .option("-Dpulsar.allocator.leak_detection=Paranoid");
    }
}
