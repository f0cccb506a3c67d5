/** Checks that the one jar fits the Pulsar release on whose class path it lies, beyond what any one test would reach. */
package io.nereus.tests.linkage;
