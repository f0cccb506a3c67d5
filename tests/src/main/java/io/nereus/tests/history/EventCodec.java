package io.nereus.tests.history;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * One event as one line of text: the record's name and its components in order, separated by tabs; tab, line feed,
 * carriage return and backslash inside a value are escaped. The line ends with a line feed, so a line without one was
 * cut off. Promises: {@code decode(encode(e)).equals(e)}; a malformed line is an {@link IllegalArgumentException} that
 * quotes it, never a guess.
 */
final class EventCodec {

    /** One kind of event; looked up once, because a history has hundreds of thousands of lines. */
    private record Kind(String name, Constructor<?> constructor, Class<?>[] types, Method[] accessors) {

        static Kind of(Class<?> type) {
            RecordComponent[] components = type.getRecordComponents();
            Class<?>[] types = Stream.of(components).map(RecordComponent::getType).toArray(Class<?>[]::new);
            try {
                return new Kind(type.getSimpleName(), type.getDeclaredConstructor(types), types,
                        Stream.of(components).map(RecordComponent::getAccessor).toArray(Method[]::new));
            } catch (NoSuchMethodException impossible) {
                throw new IllegalStateException("a record without its canonical constructor: " + type, impossible);
            }
        }
    }

    private static final Map<String, Kind> KINDS = Stream.of(Event.class.getPermittedSubclasses()).map(Kind::of)
            .collect(Collectors.toUnmodifiableMap(Kind::name, Function.identity()));

    private EventCodec() { }

    static String encode(Event event) {
        Kind kind = KINDS.get(event.getClass().getSimpleName());
        StringBuilder line = new StringBuilder(128).append(kind.name);
        try {
            for (Method accessor : kind.accessors) {
                line.append('\t').append(escape(String.valueOf(accessor.invoke(event))));
            }
        } catch (IllegalAccessException | InvocationTargetException impossible) {
            throw new IllegalStateException("a component of a public record cannot be read: " + event, impossible);
        }
        return line.append('\n').toString();
    }

    /** @param line one line without its line feed */
    static Event decode(String line) {
        String[] fields = line.split("\t", -1);
        Kind kind = KINDS.get(fields[0]);
        if (kind == null) {
            throw new IllegalArgumentException("unknown kind of event: " + line);
        }
        if (fields.length != kind.types.length + 1) {
            throw new IllegalArgumentException(
                    kind.name + " has " + kind.types.length + " fields, not " + (fields.length - 1) + ": " + line);
        }
        Object[] values = new Object[kind.types.length];
        try {
            for (int i = 0; i < values.length; i++) {
                values[i] = parse(kind.types[i], unescape(fields[i + 1]));
            }
            return (Event) kind.constructor.newInstance(values);
        } catch (ReflectiveOperationException | RuntimeException badField) {
            throw new IllegalArgumentException("unreadable event: " + line, badField);
        }
    }

    private static Object parse(Class<?> type, String text) {
        if (type == long.class) {
            return Long.parseLong(text);
        } else if (type == int.class) {
            return Integer.parseInt(text);
        } else if (type == String.class) {
            return text;
        } else if (type == MsgId.class) {
            return MsgId.parse(text);
        } else if (type == boolean.class) {
            return switch (text) {
                case "true" -> true;
                case "false" -> false;
                default -> throw new IllegalArgumentException("neither true nor false: " + text);
            };
        }
        for (Object constant : type.getEnumConstants()) {
            if (((Enum<?>) constant).name().equals(text)) {
                return constant;
            }
        }
        throw new IllegalArgumentException("no " + type.getSimpleName() + ": " + text);
    }

    private static String escape(String value) {
        if (value.chars().noneMatch(c -> c == '\t' || c == '\n' || c == '\r' || c == '\\')) {
            return value;
        }
        return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r");
    }

    private static String unescape(String field) {
        if (field.indexOf('\\') < 0) {
            return field;
        }
        StringBuilder value = new StringBuilder(field.length());
        for (int i = 0; i < field.length(); i++) {
            char c = field.charAt(i);
            if (c != '\\') {
                value.append(c);
                continue;
            }
            i++;
            switch (i < field.length() ? field.charAt(i) : ' ') {
                case '\\' -> value.append('\\');
                case 't' -> value.append('\t');
                case 'n' -> value.append('\n');
                case 'r' -> value.append('\r');
                default -> throw new IllegalArgumentException("unknown escape in: " + field);
            }
        }
        return value.toString();
    }
}
