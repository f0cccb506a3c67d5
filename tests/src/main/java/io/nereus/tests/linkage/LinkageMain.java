package io.nereus.tests.linkage;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Says whether the jar fits the Pulsar of its own class path. Runs in a process of its own, with the class path and the
 * Java of a broker.
 */
public final class LinkageMain {

    private LinkageMain() {
    }

    /**
     * Writes what does not fit, a line each, and a summary; ends with 0 only if all fits.
     *
     * @param args the Nereus jar
     */
    public static void main(String[] args) throws Exception {
        Linkage linkage = Linkage.of(Path.of(args[0]));
        List<String> problems = new ArrayList<>(linkage.problems());
        problems.addAll(InheritedDefaults.unexplained(linkage.classes()));
        problems.addAll(CompatCheck.problems());
        problems.forEach(System.out::println);
        System.out.println("linkage: " + linkage.classes().size() + " classes, " + linkage.references()
            + " uses of members, " + problems.size() + " problems");
        System.exit(problems.isEmpty() ? 0 : 1);
    }
}
