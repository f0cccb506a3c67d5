package io.nereus.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/**
 * What the command line asks for; the script's help describes it.
 *
 * @param scale   how much
 * @param parts   which measurements
 * @param profile whether to profile them
 * @param keep    whether data and logs stay
 * @param command the command line, for the plot
 */
record Options(Scale scale, Set<Part> parts, boolean profile, boolean keep, String command) {

    /** A group of measurements that can be asked for by name. */
    enum Part {
        APPEND, ACKS, CURVE, OPEN, PUBLISH, TAIL, RATE, BATCH, CATCHUP, RESTART
    }

    static Options of(String[] arguments) {
        Scale scale = Scale.full();
        Set<Part> parts = EnumSet.allOf(Part.class);
        boolean profile = false;
        boolean keep = false;
        int rounds = 0;
        List<String> words = new ArrayList<>(Arrays.asList(arguments));
        while (!words.isEmpty()) {
            String word = words.remove(0);
            switch (word) {
                case "--quick" -> scale = Scale.quick();
                case "--smoke" -> scale = Scale.smoke();
                case "--profile" -> profile = true;
                case "--keep" -> keep = true;
                case "--rounds" -> rounds = rounds(value(word, words));
                case "--only" -> parts = parts(value(word, words));
                default -> throw new IllegalArgumentException("unknown argument " + word + "; see --help");
            }
        }
        if (profile) {
            scale = scale.forProfile();
        }
        return new Options(rounds == 0 ? scale : scale.withRounds(rounds), parts, profile, keep,
            ("scripts/bench " + String.join(" ", arguments)).strip());
    }

    private static String value(String option, List<String> words) {
        if (words.isEmpty()) {
            throw new IllegalArgumentException(option + " needs a value; see --help");
        }
        return words.remove(0);
    }

    private static int rounds(String value) {
        if (!value.matches("[1-9][0-9]?")) {
            throw new IllegalArgumentException("--rounds is a number from 1 to 99, not " + value);
        }
        return Integer.parseInt(value);
    }

    private static Set<Part> parts(String names) {
        Set<Part> parts = EnumSet.noneOf(Part.class);
        for (String name : names.split(",")) {
            Part part = Arrays.stream(Part.values()).filter(one -> one.name().equals(name.toUpperCase(Locale.ROOT))).findFirst()
                .orElseThrow(() -> new IllegalArgumentException("no measurement is called " + name + "; there are "
                    + Arrays.toString(Part.values()).toLowerCase(Locale.ROOT)));
            parts.add(part);
        }
        return parts;
    }

    boolean any(Part... wanted) {
        return Arrays.stream(wanted).anyMatch(parts::contains);
    }
}
