package io.nereus.suite;

import java.util.Locale;

/**
 * What became of one invocation of one test method.
 *
 * @param testClass fully qualified class
 * @param method    method name, with {@code [n]} for the n-th set of parameters
 * @param storage   {@code stock} or {@code nereus}
 * @param result    {@code passed}, {@code failed} or {@code skipped}
 * @param seconds   duration
 * @param message   why it failed or was skipped; empty otherwise
 */
record Outcome(String testClass, String method, String storage, String result, double seconds, String message) {
    /** Begins the message of a method that the list of exclusions keeps from running. */
    static final String EXCLUDED = "excluded: ";

    private static final int FIELDS = 6;
    private static final int MESSAGE_LIMIT = 2000;

    Outcome {
        message = message.length() > MESSAGE_LIMIT ? message.substring(0, MESSAGE_LIMIT) : message;
    }

    /** One line of the intermediate file: tab-separated, free of tabs and line ends inside the fields. */
    String toLine() {
        return String.join("\t", testClass, method, storage, result, String.format(Locale.ROOT, "%.3f", seconds),
            message.replaceAll("\\s+", " ").strip());
    }

    static Outcome parse(String line) {
        String[] fields = line.split("\t", FIELDS);
        if (fields.length != FIELDS) {
            throw new IllegalArgumentException("not a result line: " + line);
        }
        return new Outcome(fields[0], fields[1], fields[2], fields[3], Double.parseDouble(fields[4]), fields[5]);
    }

    /** The method's name without the {@code [n]} of an invocation. */
    static String plainName(String method) {
        return method.replaceFirst("\\[\\d+]$", "");
    }

    Outcome skippedBecause(String reason) {
        return new Outcome(testClass, method, storage, "skipped", seconds, EXCLUDED + reason);
    }

    Outcome failedBecause(String reason) {
        return new Outcome(testClass, method, storage, "failed", seconds, reason);
    }

    String toJsonFields() {
        return "\"class\": " + quote(testClass) + ", \"method\": " + quote(method) + ", \"storage\": " + quote(storage)
            + ", \"outcome\": " + quote(result) + ", \"seconds\": " + String.format(Locale.ROOT, "%.3f", seconds)
            + ", \"message\": " + quote(message);
    }

    static String quote(String text) {
        StringBuilder json = new StringBuilder(text.length() + 2).append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        return json.append('"').toString();
    }
}
