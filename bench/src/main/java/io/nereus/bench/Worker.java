package io.nereus.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * A process that makes load when it is told to, seen from the one that leads. It answers {@code @begin} when what it
 * measures begins, {@code @end} when that is over, and at last {@code @done} with figures or {@code @failed}.
 */
final class Worker implements AutoCloseable {

    /** Hears where a measurement begins and ends, while it goes on. */
    interface Window {
        /** Nobody listens. */
        Window NONE = new Window() {
            @Override
            public void begins() {
            }

            @Override
            public void ends() {
            }
        };

        void begins() throws IOException, InterruptedException;

        void ends() throws IOException, InterruptedException;
    }

    private static final String GONE = "@gone";

    private final JavaProcess process;
    private final PrintStream commands;
    private final BlockingQueue<String> answers = new LinkedBlockingQueue<>();

    Worker(String name, Path directory, String classPath, List<String> jvm, Class<?> main) throws IOException {
        process = JavaProcess.speaker(name, directory, classPath, jvm, List.of(main.getName()));
        commands = new PrintStream(process.process().getOutputStream(), true, StandardCharsets.UTF_8);
        Thread reader = new Thread(this::collect, name + "-answers");
        reader.setDaemon(true);
        reader.start();
    }

    private void collect() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.process().getInputStream(),
                StandardCharsets.UTF_8))) {
            lines.lines().filter(line -> line.startsWith("@")).forEach(answers::add);
        } catch (IOException | java.io.UncheckedIOException ended) {
            // what matters is said below
        }
        answers.add(GONE);
    }

    long pid() {
        return process.pid();
    }

    /**
     * Gives a command and waits for its end.
     *
     * @param seconds after which it counts as hung
     * @return the figures
     */
    Figures ask(String command, int seconds, Window window) throws IOException, InterruptedException {
        commands.println(command);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (true) {
            String answer = answers.poll(Math.max(0, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
            if (answer == null) {
                throw process.failed("'" + command + "' did not end within " + seconds + " s");
            } else if (answer.equals("@begin")) {
                window.begins();
            } else if (answer.equals("@end")) {
                window.ends();
            } else if (answer.startsWith("@done")) {
                return Figures.of(answer.substring("@done".length()));
            } else {
                throw process.failed("'" + command + "': " + answer);
            }
        }
    }

    Figures ask(String command, int seconds) throws IOException, InterruptedException {
        return ask(command, seconds, Window.NONE);
    }

    @Override
    public void close() {
        commands.close();   // the end of its input is the end of its work
        process.process().onExit().completeOnTimeout(null, 20, TimeUnit.SECONDS).join();
        process.close();
    }
}
