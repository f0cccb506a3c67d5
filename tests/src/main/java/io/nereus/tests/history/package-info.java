/**
 * What clients saw, written down while they saw it, and the verdict over it.
 *
 * <p>Owns: the {@linkplain io.nereus.tests.history.Event events}, the append-only file they are kept in, and the
 * {@linkplain io.nereus.tests.history.HistoryChecker checker} that judges them. Does not: talk to a broker, or believe
 * anything a broker says about itself.
 */
package io.nereus.tests.history;
