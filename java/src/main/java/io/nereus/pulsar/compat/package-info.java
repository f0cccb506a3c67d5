/** The only place that knows the differences between Pulsar versions: cursor container, ledger info, entry cache, replicator. */
package io.nereus.pulsar.compat;
