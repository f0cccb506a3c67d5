package io.nereus.tests.demo;

import io.nereus.tests.history.HistoryWriter;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * The client process of the demonstration. It is led by lines on its standard input and answers each with one line on
 * its standard output, marked by {@link #ANSWER}, because the JVM itself may say something there too:
 *
 * <pre>
 *   (start)   ->  flowing         everything is set up, receipts and ack receipts come in everywhere
 *   finish    ->  produced        after a restart of the broker: traffic flows again, then everything sent has a receipt
 *   drain     ->  drained         every subscription consumed and acknowledged everything
 *   read      ->  read ...        everything was read back
 * </pre>
 *
 * <p>It never asks whether there is a broker: reconnecting is the client library's work. Ends with 0 after {@code read},
 * with 1 and a stack trace on standard error when something is missing.
 */
public final class DemoClient {

    /** What an answer begins with. */
    static final String ANSWER = "client: ";

    /** Receipts of each ordinary producer and subscription that count as traffic. */
    private static final int FLOW = 100;

    private DemoClient() { }

    /** @param args service URL, admin URL, history file, seed */
    public static void main(String[] args) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (HistoryWriter history = HistoryWriter.open(Path.of(args[2]));
             Workload workload = new Workload(Plan.full(), args[0], args[1], history, Long.parseLong(args[3]))) {
            workload.setUp();
            workload.awaitFlow(FLOW);
            answer("flowing");
            expect(commands, "finish");
            workload.awaitFlow(FLOW);
            workload.finishProducing();
            answer("produced");
            expect(commands, "drain");
            workload.drainSubscriptions();
            answer("drained");
            expect(commands, "read");
            answer("read " + workload.readBack());
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);     // threads of the client library that still wait for the broker must not hold the process
        }
    }

    private static void answer(String text) {
        System.out.println(ANSWER + text);
    }

    private static void expect(BufferedReader commands, String wanted) throws IOException {
        String command = commands.readLine();
        if (!wanted.equals(command)) {
            throw new IOException("expected the command " + wanted + ", was told " + command);
        }
    }
}
