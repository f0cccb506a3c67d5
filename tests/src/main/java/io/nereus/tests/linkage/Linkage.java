package io.nereus.tests.linkage;

import io.nereus.tests.linkage.ClassReferences.Member;
import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/**
 * Links all classes of the jar against the Pulsar of the class path, as the JVM would, but all at once and up front.
 *
 * <p>Finds: a class, field or method that this Pulsar does not have (NoClassDefFoundError, NoSuchMethodError), an interface
 * where a class was and the other way round (IncompatibleClassChangeError), and an abstract method that none of our classes
 * implements (AbstractMethodError). Cannot see: names that code looks up by reflection.
 */
final class Linkage {

    private final ClassLoader loader = Linkage.class.getClassLoader();
    private final List<String> problems = new ArrayList<>();
    private final List<Class<?>> classes = new ArrayList<>();
    private int references;

    /** @param jar the Nereus jar, which is also on the class path */
    static Linkage of(Path jar) throws IOException {
        Linkage linkage = new Linkage();
        for (ClassReferences one : read(jar)) {
            linkage.check(one);
        }
        return linkage;
    }

    /** What does not link, a line each; empty if all does. */
    List<String> problems() {
        return problems;
    }

    /** The classes of ours that can be instantiated, as far as they load. */
    List<Class<?>> classes() {
        return classes;
    }

    /** How many uses of fields and methods of others were resolved. */
    int references() {
        return references;
    }

    private static List<ClassReferences> read(Path jar) throws IOException {
        try (FileSystem content = FileSystems.newFileSystem(jar)) {
            return readBelow(content.getPath("/"));
        }
    }

    private static List<ClassReferences> readBelow(Path root) throws IOException {
        List<ClassReferences> all = new ArrayList<>();
        try (Stream<Path> files = Files.walk(root)) {
            for (Path file : files.filter(path -> path.toString().endsWith(".class")).toList()) {
                try (InputStream in = Files.newInputStream(file)) {
                    all.add(ClassReferences.of(in));
                }
            }
        }
        return all;
    }

    private void check(ClassReferences one) {
        for (String name : one.classes()) {
            try {
                load(name);
            } catch (ReflectiveOperationException | TypeNotPresentException | LinkageError e) {
                problems.add(one.name() + " names " + name + ": " + e);
            }
        }
        for (Member member : one.members()) {
            references++;
            try {
                resolve(member);
            } catch (ReflectiveOperationException | TypeNotPresentException | LinkageError e) {
                problems.add(one.name() + " uses " + member.owner() + "." + member.name() + member.descriptor() + ": " + e);
            }
        }
        try {
            Class<?> type = Class.forName(one.name(), true, loader);     // initialized, hence verified
            if (!Modifier.isAbstract(type.getModifiers())) {
                classes.add(type);
            }
            abstractMethods(type).forEach(method -> problems.add(one.name() + " does not implement " + method));
        } catch (ReflectiveOperationException | TypeNotPresentException | LinkageError e) {
            problems.add(one.name() + " does not load: " + e);
        }
    }

    private Class<?> load(String name) throws ClassNotFoundException {
        return Class.forName(name, false, loader);
    }

    private void resolve(Member member) throws ReflectiveOperationException {
        if (member.owner().startsWith("[")) {
            return;                                                      // clone() and length of arrays
        }
        Class<?> owner = load(member.owner());
        if (member.method()) {
            if (owner.isInterface() != member.ofInterface()) {
                throw new IncompatibleClassChangeError(owner + " is called as " + (member.ofInterface() ? "an interface" : "a class"));
            }
            MethodType wanted = MethodType.fromMethodDescriptorString(member.descriptor(), loader);
            if (member.name().equals("<init>")) {
                owner.getDeclaredConstructor(wanted.parameterArray());
            } else if (!isPolymorphic(owner) && !hasMethod(owner, member.name(), wanted) && !hasMethod(Object.class, member.name(), wanted)) {
                throw new NoSuchMethodException("no such method");
            }
        } else if (!hasField(owner, member)) {
            throw new NoSuchFieldException("no such field");
        }
    }

    /** Methods of these take any descriptor (JVMS 2.9.3). */
    private static boolean isPolymorphic(Class<?> owner) {
        return owner == java.lang.invoke.MethodHandle.class || owner == java.lang.invoke.VarHandle.class;
    }

    private static boolean hasMethod(Class<?> owner, String name, MethodType wanted) {
        return lineage(owner).flatMap(type -> Arrays.stream(type.getDeclaredMethods()))
            .anyMatch(method -> method.getName().equals(name) && method.getReturnType() == wanted.returnType()
                && Arrays.equals(method.getParameterTypes(), wanted.parameterArray()));
    }

    private boolean hasField(Class<?> owner, Member member) throws ClassNotFoundException {
        Class<?> wanted = MethodType.fromMethodDescriptorString("()" + member.descriptor(), loader).returnType();
        return lineage(owner).flatMap(type -> Arrays.stream(type.getDeclaredFields()))
            .anyMatch(field -> field.getName().equals(member.name()) && field.getType() == wanted);
    }

    /** A class, its superclasses and all their interfaces. */
    static Stream<Class<?>> lineage(Class<?> type) {
        Stream<Class<?>> above = Arrays.stream(type.getInterfaces()).flatMap(Linkage::lineage);
        if (type.getSuperclass() != null) {
            above = Stream.concat(lineage(type.getSuperclass()), above);
        }
        return Stream.concat(Stream.of(type), above);
    }

    /** The methods without a body that a class which can be instantiated still has. */
    private static List<Method> abstractMethods(Class<?> type) {
        if (Modifier.isAbstract(type.getModifiers())) {
            return List.of();
        }
        return lineage(type).flatMap(each -> Arrays.stream(each.getDeclaredMethods()))
            .filter(method -> Modifier.isAbstract(method.getModifiers()))
            .filter(method -> !isImplemented(type, method))
            .toList();
    }

    private static boolean isImplemented(Class<?> type, Method wanted) {
        return lineage(type).flatMap(each -> Arrays.stream(each.getDeclaredMethods()))
            .anyMatch(method -> !Modifier.isAbstract(method.getModifiers()) && !Modifier.isStatic(method.getModifiers())
                && method.getName().equals(wanted.getName()) && method.getReturnType() == wanted.getReturnType()
                && Arrays.equals(method.getParameterTypes(), wanted.getParameterTypes()));
    }
}
