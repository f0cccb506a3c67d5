package io.nereus.tests.history;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The distinct findings of one kind, and a bounded number of lines that explain them. Single-threaded. */
final class Findings {

    private static final int LINES = 25;

    private final String kind;
    private final Set<Object> found = new HashSet<>();
    private final List<String> lines = new ArrayList<>();

    Findings(String kind) {
        this.kind = kind;
    }

    /** Counts {@code what} once, however often it is found. */
    void add(Object what, String explanation) {
        if (found.add(what) && lines.size() < LINES) {
            lines.add(kind + ": " + explanation);
        }
    }

    long count() {
        return found.size();
    }

    List<String> lines() {
        List<String> all = new ArrayList<>(lines);
        if (found.size() > lines.size()) {
            all.add(kind + ": and " + (found.size() - lines.size()) + " more");
        }
        return all;
    }
}
