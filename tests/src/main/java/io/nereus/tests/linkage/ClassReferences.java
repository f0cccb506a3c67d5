package io.nereus.tests.linkage;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What one compiled class asks of other classes: the symbolic references of its constant pool (JVMS 4.4). Whatever the JVM
 * could fail to link while this class runs is among them.
 *
 * @param name    the class, with dots
 * @param classes every class that is named by a cast, a call, a method handle or a descriptor, with dots
 * @param members every field and method that is used
 */
record ClassReferences(String name, Set<String> classes, List<Member> members) {

    /**
     * A field or method as the compiler saw it.
     *
     * @param owner           class it is looked up in, with dots; an array's is that of the array
     * @param descriptor      in the JVM's notation
     * @param method          a method, not a field
     * @param ofInterface     called as a member of an interface
     */
    record Member(String owner, String name, String descriptor, boolean method, boolean ofInterface) {
    }

    private static final Pattern CLASS_IN_DESCRIPTOR = Pattern.compile("L([^;<]+);");

    static ClassReferences of(InputStream classFile) throws IOException {
        DataInputStream in = new DataInputStream(classFile);
        if (in.readInt() != 0xCAFEBABE) {
            throw new IOException("not a class file");
        }
        in.readInt();                                                    // version
        Object[] pool = readPool(in);
        in.readUnsignedShort();                                          // access flags
        String name = className(pool, in.readUnsignedShort());
        Set<String> classes = new TreeSet<>();
        List<Member> members = new ArrayList<>();
        for (Object entry : pool) {
            if (entry instanceof ClassEntry type) {
                addClass(classes, utf8(pool, type.name()));
            } else if (entry instanceof DescriptorEntry type) {
                addDescriptor(classes, utf8(pool, type.descriptor()));
            } else if (entry instanceof MemberEntry member) {
                NameAndType type = (NameAndType) pool[member.nameAndType()];
                members.add(new Member(className(pool, member.owner()), utf8(pool, type.name()),
                        utf8(pool, type.descriptor()), member.tag() != FIELD, member.tag() == INTERFACE_METHOD));
            }
        }
        return new ClassReferences(name, classes, members);
    }

    private static void addClass(Set<String> classes, String internal) {
        if (internal.startsWith("[")) {
            addDescriptor(classes, internal);
        } else {
            classes.add(internal.replace('/', '.'));
        }
    }

    /** The classes of a descriptor; they are loaded when a method of it is linked through a method handle. */
    private static void addDescriptor(Set<String> classes, String descriptor) {
        Matcher matcher = CLASS_IN_DESCRIPTOR.matcher(descriptor);
        while (matcher.find()) {
            classes.add(matcher.group(1).replace('/', '.'));
        }
    }

    private static final int FIELD = 9;
    private static final int INTERFACE_METHOD = 11;

    private record ClassEntry(int name) {
    }

    private record DescriptorEntry(int descriptor) {
    }

    private record MemberEntry(int tag, int owner, int nameAndType) {
    }

    private record NameAndType(int name, int descriptor) {
    }

    private static Object[] readPool(DataInputStream in) throws IOException {
        Object[] pool = new Object[in.readUnsignedShort()];
        for (int i = 1; i < pool.length; i++) {
            int tag = in.readUnsignedByte();
            switch (tag) {
                case 1 -> pool[i] = in.readUTF();
                case 3, 4 -> in.readInt();                               // int, float
                case 5, 6 -> {                                           // long, double: two places
                    in.readLong();
                    i++;
                }
                case 7 -> pool[i] = new ClassEntry(in.readUnsignedShort());
                case 8, 19, 20 -> in.readUnsignedShort();                // string, module, package
                case FIELD, 10, INTERFACE_METHOD ->
                    pool[i] = new MemberEntry(tag, in.readUnsignedShort(), in.readUnsignedShort());
                case 12 -> pool[i] = new NameAndType(in.readUnsignedShort(), in.readUnsignedShort());
                case 15 -> {                                             // method handle; its member has an entry of its own
                    in.readUnsignedByte();
                    in.readUnsignedShort();
                }
                case 16 -> pool[i] = new DescriptorEntry(in.readUnsignedShort());
                case 17, 18 -> in.readInt();                             // dynamic: bootstrap and name
                default -> throw new IOException("unknown constant pool tag " + tag);
            }
        }
        return pool;
    }

    private static String utf8(Object[] pool, int index) {
        return (String) pool[index];
    }

    private static String className(Object[] pool, int index) {
        return utf8(pool, ((ClassEntry) pool[index]).name()).replace('/', '.');
    }
}
