package io.nereus.suite;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Which area a test class belongs to: the list of classes has a line {@code # area: NAME} above the classes of each. */
final class Areas {
    static final String OTHER = "other";
    private static final String HEADING = "# area:";

    private final Map<String, String> areaOfClass;

    private Areas(Map<String, String> areaOfClass) {
        this.areaOfClass = areaOfClass;
    }

    static Areas read(Path file) throws IOException {
        Map<String, String> areas = new LinkedHashMap<>();
        String area = OTHER;
        for (String line : Files.readAllLines(file)) {
            String text = line.strip();
            if (text.startsWith(HEADING)) {
                area = text.substring(HEADING.length()).strip();
            } else if (!text.isEmpty() && !text.startsWith("#")) {
                areas.put(text.split("[\\s#]", 2)[0], area);
            }
        }
        return new Areas(areas);
    }

    /** The area of a class, {@link #OTHER} if the list does not name it. */
    String of(String testClass) {
        return areaOfClass.getOrDefault(testClass, OTHER);
    }

    /** The areas in the order of the list, {@link #OTHER} last. */
    List<String> names() {
        return Stream.concat(areaOfClass.values().stream().distinct().filter(area -> !area.equals(OTHER)), Stream.of(OTHER)).toList();
    }

    /** The classes of an area, in the order of the list. */
    List<String> classes(String area) {
        return areaOfClass.entrySet().stream().filter(entry -> entry.getValue().equals(area)).map(Map.Entry::getKey).toList();
    }
}
