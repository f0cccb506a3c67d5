package io.nereus.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** The worker's end of {@code Worker}: reads commands from standard input until it ends, answers on standard output. */
public final class WorkerMain {

    /** Does what a command says. */
    public interface Duty {
        /** @param words the command, split at its spaces */
        Figures run(String[] words) throws Exception;

        /** Gives back everything. */
        void close() throws Exception;
    }

    private WorkerMain() {
    }

    /** What is measured begins now. */
    public static void begin() {
        System.out.println("@begin");
    }

    /** What is measured is over. */
    public static void end() {
        System.out.println("@end");
    }

    /** Works until there are no more commands, then ends the JVM: what it used may have left threads. */
    public static void serve(Duty duty) {
        int status = 0;
        try (BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line; (line = commands.readLine()) != null; ) {
                try {
                    System.out.println("@done " + duty.run(line.split(" ")));
                } catch (Exception e) {
                    e.printStackTrace();
                    System.out.println("@failed " + e.toString().replace('\n', ' '));
                }
            }
            duty.close();
        } catch (Exception e) {
            e.printStackTrace();
            status = 1;
        }
        System.exit(status);
    }
}
