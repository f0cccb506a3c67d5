/** Load on a broker through Pulsar's own client, in a process of its own. */
package io.nereus.bench.client;
