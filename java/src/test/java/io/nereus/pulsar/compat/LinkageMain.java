package io.nereus.pulsar.compat;

import java.nio.file.Path;

/** tmp */
public final class LinkageMain {
    private LinkageMain() {
    }
    /** tmp */
    public static void main(String[] args) throws Exception {
        Linkage linkage = Linkage.of(Path.of(args[0]));
        linkage.problems().forEach(System.out::println);
        System.out.println(linkage.classes() + " classes, " + linkage.references() + " references, " + linkage.problems().size() + " problems");
    }
}
