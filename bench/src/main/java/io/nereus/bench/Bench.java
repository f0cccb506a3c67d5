package io.nereus.bench;

import io.nereus.bench.Options.Part;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** Leads a run: which measurements, in which order, and what becomes of the figures. */
public final class Bench {

    private static final long DISK_BYTES = 1L << 30;

    private final Options options;
    private final Path output;
    private final Site site;
    private final Scoreboard board = new Scoreboard();
    private final Profiler profiler;

    private Bench(Path output, Options options) throws IOException {
        this.options = options;
        this.output = output;
        site = Site.of(output.resolve("work"));
        profiler = options.profile() ? Profiler.into(output.resolve("profiles")) : Profiler.OFF;
    }

    /** Arguments: the directory for everything, the commit, then the options of scripts/bench. */
    public static void main(String[] args) throws Exception {
        Options options;
        try {
            options = Options.of(Stream.of(args).skip(2).toArray(String[]::new));
        } catch (IllegalArgumentException e) {
            System.err.println("error: " + e.getMessage());
            System.exit(2);
            return;
        }
        int status = 1;
        try {
            new Bench(Path.of(args[0]).toAbsolutePath(), options).run(args[1]);
            status = 0;
        } catch (IOException | RuntimeException e) {
            System.err.println("error: " + e.getMessage());
        }
        System.exit(status);   // ends what is left of the processes
    }

    private void run(String commit) throws IOException, InterruptedException {
        check();
        String machine = Machine.description();
        double disk = DiskLimit.megabytesPerSecond(site.directory(), DISK_BYTES);
        board.say("%s; commit %s; the disk takes %,.0f MB/s sequentially (1 MiB writes, fdatasync every 8 MiB)", machine,
            commit, disk);
        if (options.any(Part.APPEND, Part.ACKS, Part.CURVE)) {
            ledgers();
        }
        if (options.any(Part.OPEN)) {
            for (int round = 0; round < options.scale().openRounds(); round++) {
                Site place = site.in("open");
                try (LedgerLevel level = new LedgerLevel(place, options.scale(), board, profiler)) {
                    level.open(round);
                }
                clean(place);
            }
        }
        if (options.any(Part.PUBLISH, Part.TAIL, Part.RATE, Part.BATCH, Part.CATCHUP)) {
            brokers();
        }
        if (options.any(Part.RESTART)) {
            Site place = site.in("restart");
            try (RestartLevel level = new RestartLevel(place, options.scale(), board)) {
                level.restart(Side.STOCK);
                level.restart(Side.NEREUS);
            }
            clean(place);
        }
        report(machine, commit, disk);
    }

    private void check() throws IOException {
        clean(site);
        Files.createDirectories(site.directory());
        if (options.any(Part.CATCHUP) && !Machine.canDropCaches()) {
            throw new IOException("cold reads need the page cache dropped, which needs root; run as root, or leave catchup out "
                + "with --only");
        }
        long free = Files.getFileStore(site.directory()).getUsableSpace();
        if (free < options.scale().diskBytes()) {
            throw new IOException("%d GiB are free below %s, this run wants %d GiB".formatted(free >> 30, site.directory(),
                options.scale().diskBytes() >> 30));
        }
    }

    private void ledgers() throws IOException, InterruptedException {
        Site place = site.in("ledger");
        try (LedgerLevel level = new LedgerLevel(place, options.scale(), board, profiler)) {
            if (options.any(Part.APPEND)) {
                level.append();
            }
            if (options.any(Part.ACKS)) {
                level.acks();
            }
            if (options.any(Part.CURVE)) {
                level.curve();
            }
        }
        clean(place);
    }

    private void brokers() throws IOException, InterruptedException {
        Site place = site.in("broker");
        try (BrokerLevel level = new BrokerLevel(place, options.scale(), board, profiler)) {
            if (options.any(Part.CATCHUP)) {
                level.fill();
            }
            for (int round = 0; round < options.scale().rounds(); round++) {
                for (Side side : Side.order(round)) {
                    if (options.any(Part.PUBLISH)) {
                        level.publish(side);
                    }
                    if (options.any(Part.TAIL)) {
                        level.tail(side);
                    }
                    if (options.any(Part.RATE)) {
                        level.rate(side);
                    }
                    if (options.any(Part.BATCH)) {
                        level.batch(side);
                    }
                }
            }
            for (int round = 0; options.any(Part.CATCHUP) && round < options.scale().readRounds(); round++) {
                for (Side side : Side.order(round)) {
                    level.catchUp(side);
                }
            }
        }
        clean(place);
    }

    private void clean(Site place) throws IOException {
        if (!Files.exists(place.directory()) || options.keep() && !place.equals(site)) {
            return;
        }
        try (Stream<Path> files = Files.walk(place.directory())) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(file);
            }
        }
    }

    private void report(String machine, String commit, double disk) throws IOException {
        List<Scoreboard.Result> results = board.results();
        Results.writeJson(output.resolve("results.json"), results);
        String remark = options.profile() ? ", profiled: its figures are not to be compared" : "";
        Plot.write(output.resolve("results.png"), results, List.of(machine,
            "commit %s, %s%s; sequential limit of the disk %,.0f MB/s".formatted(commit, options.command(), remark, disk)));
        Results.print(results);
        results.stream().filter(result -> result.metric() == Metric.BATCHED).forEach(result -> board.say(
            "64 KiB batches: nereus takes %.0f %% and stock %.0f %% of what the disk takes sequentially (payload only; whatever "
            + "else is written is not counted)", result.nereus() * 100 / disk, result.stock() * 100 / disk));
        board.say("results.json, results.png and samples.txt are in %s%s", output, remark);
        Files.write(output.resolve("samples.txt"), board.lines());
        System.out.println(Results.summary(results));
    }
}
