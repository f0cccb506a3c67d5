/** A stock Pulsar broker on Nereus as a real process: its files, its start, its death. */
package io.nereus.tests.broker;
