/**
 * Measures Nereus beside stock: the process that leads a run. It starts ZooKeeper, a bookie, brokers and workers, takes
 * turns between the two sides, counts syncs, and writes figures and plot. It needs nothing but the JDK.
 */
package io.nereus.bench;
