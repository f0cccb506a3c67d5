/** The only place that knows the differences between Pulsar versions: cursor container, ledger info, entry cache. */
package io.nereus.pulsar.compat;
