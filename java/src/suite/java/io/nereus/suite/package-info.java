/**
 * Puts Nereus under Pulsar's own published tests, unedited: a TestNG listener swaps the storage class of every
 * {@code ServiceConfiguration}, another records what ran. Used by {@code scripts/pulsar-suite} only; not part of the jar.
 */
package io.nereus.suite;
