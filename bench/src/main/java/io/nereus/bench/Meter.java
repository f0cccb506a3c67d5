package io.nereus.bench;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What processes used between the beginning and the end of one measurement; profiles them meanwhile if that is wanted. */
final class Meter implements Worker.Window {

    private final String label;
    private final Profiler profiler;
    private final Map<String, Long> pids = new LinkedHashMap<>();
    private final Map<String, Double> cpu = new LinkedHashMap<>();
    private final Map<String, Long> written = new LinkedHashMap<>();
    private final List<Profiler.Recording> recordings = new ArrayList<>();
    private long flushes;
    private long sleeps;

    /** @param label names the profiles */
    Meter(String label, Profiler profiler) {
        this.label = label;
        this.profiler = profiler;
    }

    /** Watches a process too; one that is not a JVM of ours is not to be given. */
    Meter watch(String process, long pid) {
        pids.put(process, pid);
        return this;
    }

    @Override
    public void begins() throws IOException, InterruptedException {
        for (Map.Entry<String, Long> one : pids.entrySet()) {
            recordings.add(profiler.start(one.getValue(), label + "-" + one.getKey()));
        }
        flushes = -Proc.diskFlushes();
        for (Map.Entry<String, Long> one : pids.entrySet()) {
            cpu.put(one.getKey(), -Proc.cpuSeconds(one.getValue()));
            written.put(one.getKey(), -Proc.writtenBytes(one.getValue()));
            sleeps -= Proc.sleeps(one.getValue());
        }
    }

    @Override
    public void ends() throws IOException, InterruptedException {
        flushes += Proc.diskFlushes();
        for (Map.Entry<String, Long> one : pids.entrySet()) {
            cpu.merge(one.getKey(), Proc.cpuSeconds(one.getValue()), Double::sum);
            written.merge(one.getKey(), Proc.writtenBytes(one.getValue()), Long::sum);
            sleeps += Proc.sleeps(one.getValue());
        }
        for (Profiler.Recording recording : recordings) {
            recording.stop();
        }
    }

    /** CPU seconds of one process in the measured time. */
    double cpuSeconds(String process) {
        return cpu.getOrDefault(process, 0.0);
    }

    /** CPU seconds of all watched processes. */
    double cpuSeconds() {
        return cpu.values().stream().mapToDouble(Double::doubleValue).sum();
    }

    /** Bytes that all watched processes caused to be written to disks. */
    long writtenBytes() {
        return written.values().stream().mapToLong(Long::longValue).sum();
    }

    /** Wake-ups of all threads of the watched processes. */
    long wakeUps() {
        return sleeps;
    }

    /** Flushes of all disks in the measured time, by the kernel's count. */
    long diskFlushes() {
        return flushes;
    }
}
