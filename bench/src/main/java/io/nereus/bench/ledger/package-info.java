/** Load on managed ledgers, caller and storage in one JVM. Runs on a broker's class path with the Nereus jar. */
package io.nereus.bench.ledger;
