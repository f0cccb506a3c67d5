/** The facade: what makes a Nereus stream look like Pulsar's managed ledger. Holds no storage truth. */
package io.nereus.pulsar;
