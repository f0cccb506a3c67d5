package io.nereus.bench;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

/**
 * Every process that this run started. They are ended by their ids when the run ends, however it ends; a stopped one
 * (SIGSTOP) dies of SIGKILL too.
 */
final class Children {

    private static final List<ProcessHandle> STARTED = new CopyOnWriteArrayList<>();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(Children::killAll, "bench-children"));
    }

    private Children() {
    }

    static void add(ProcessHandle process) {
        STARTED.add(process);
    }

    /** SIGSTOP: not one instruction of it runs until {@link #resume}. */
    static void pause(long pid) throws IOException, InterruptedException {
        signal("-STOP", pid);
    }

    static void resume(long pid) throws IOException, InterruptedException {
        signal("-CONT", pid);
    }

    private static void signal(String signal, long pid) throws IOException, InterruptedException {
        Process kill = new ProcessBuilder("kill", signal, Long.toString(pid)).start();
        if (!kill.waitFor(10, TimeUnit.SECONDS) || kill.exitValue() != 0) {
            throw new IOException("kill " + signal + " " + pid + " failed");
        }
    }

    private static void killAll() {
        STARTED.forEach(ProcessHandle::destroyForcibly);
    }
}
