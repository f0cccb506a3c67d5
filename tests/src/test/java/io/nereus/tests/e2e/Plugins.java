package io.nereus.tests.e2e;

import io.nereus.tests.broker.Installation;
import io.nereus.tests.plugin.MaskingPayloadProcessor;
import io.nereus.tests.plugin.RecordingBrokerInterceptor;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/** Packs the tests' plug-ins as an operator gets them: a jar beside the broker's, and a NAR in a directory. */
final class Plugins {

    private static final String INTERCEPTOR = "recording";

    private final Installation built = Installation.built();
    private final Path jar;
    private final Path interceptors;

    /**
     * @param directory where to pack; the caller removes it after the broker
     */
    Plugins(Path directory) throws IOException {
        jar = directory.resolve("plugins.jar");
        pack(jar, Map.of(), MaskingPayloadProcessor.class);
        interceptors = Files.createDirectories(directory.resolve("interceptors"));
        String definition = "name: " + INTERCEPTOR + "\ndescription: records\ninterceptorClass: "
                + RecordingBrokerInterceptor.class.getName() + "\n";
        pack(interceptors.resolve("recording.nar"), Map.of("META-INF/services/broker_interceptor.yml", definition,
                "META-INF/bundled-dependencies/", ""), RecordingBrokerInterceptor.class);
    }

    /** The broker with the jar beside its own. */
    Installation installed() {
        return new Installation(built.java(), built.brokerClassPath() + ":" + jar, built.jar());
    }

    /** Whether {@link #settings} name the interceptor: from Pulsar 5 on it would need jakarta.servlet to be compiled. */
    boolean intercepts() {
        return built.brokerClassPath().contains("pulsar-broker-4.");
    }

    /** Lines of broker.conf that use what is packed. */
    Map<String, String> settings() {
        Map<String, String> lines = new HashMap<>();
        lines.put("brokerEntryPayloadProcessors", MaskingPayloadProcessor.class.getName());
        if (intercepts()) {
            lines.putAll(Map.of("brokerInterceptors", INTERCEPTOR, "brokerInterceptorsDirectory", interceptors.toString(),
                    "narExtractionDirectory", interceptors.getParent().toString()));
        }
        return lines;
    }

    /** A zip of {@code texts} by path, and of {@code type} with the classes inside it. */
    private static void pack(Path file, Map<String, String> texts, Class<?> type) throws IOException {
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(file))) {
            for (Map.Entry<String, String> text : texts.entrySet()) {
                zip.putNextEntry(new ZipEntry(text.getKey()));
                zip.write(text.getValue().getBytes(StandardCharsets.UTF_8));
            }
            pack(zip, type);
            for (Class<?> inner : type.getDeclaredClasses()) {
                pack(zip, inner);
            }
        }
    }

    private static void pack(ZipOutputStream zip, Class<?> type) throws IOException {
        String path = type.getName().replace('.', '/') + ".class";
        try (InputStream bytes = type.getClassLoader().getResourceAsStream(path)) {
            zip.putNextEntry(new ZipEntry(path));
            bytes.transferTo(zip);
        }
    }
}
