/**
 * What a broker without bookies needs besides a managed ledger: schema storage and compaction service.
 *
 * <p>Owns: the schema nodes below {@code /nereus/schemas} in the cluster's metadata store. Promises: no class here asks for a
 * BookKeeper client. Keeps: L14 and L17 (compaction of a user topic is refused by name, a damaged schema node is an error and
 * never an empty schema). Does not: read or write topics.
 */
package io.nereus.pulsar.plugin;
