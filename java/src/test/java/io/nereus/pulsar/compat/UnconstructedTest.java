package io.nereus.pulsar.compat;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertNotSame;
import static org.testng.Assert.assertNull;

import org.testng.annotations.Test;

/** An object is there although nothing of its class has run. */
public class UnconstructedTest {

    static class Parent {

        final Object made = new Object();

        Parent() {
            throw new AssertionError("the constructor of the parent ran");
        }
    }

    static final class Child extends Parent {

        long number = 3;

        private Child() {
            throw new AssertionError("the constructor ran");
        }
    }

    @Test
    public void noConstructorRunsAndEveryFieldIsEmpty() throws Exception {
        Child child = Unconstructed.make(Child.class);
        assertNull(child.made);
        assertEquals(child.number, 0);
        assertNotSame(Unconstructed.make(Child.class), child);
    }
}
