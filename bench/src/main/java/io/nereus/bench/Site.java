package io.nereus.bench;

import io.nereus.tests.broker.Installation;
import java.io.IOException;
import java.nio.file.Path;

/**
 * What all processes of a run share.
 *
 * @param installation the stock broker's class path and the Nereus jar
 * @param own          class path of the workers: the benches' classes, the jar, the broker's jars
 * @param directory    where everything that is measured lies: one file system for both sides
 */
record Site(Installation installation, String own, Path directory) {

    /** The build of this checkout, measured in {@code directory}. */
    static Site of(Path directory) throws IOException {
        Installation installation = Installation.built();
        return new Site(installation, System.getProperty("java.class.path") + ":" + installation.classPath(),
            directory.toAbsolutePath());
    }

    Site in(String place) {
        return new Site(installation, own, directory.resolve(place));
    }
}
