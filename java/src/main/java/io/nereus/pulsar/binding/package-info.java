/** The storage classes that Nereus offers to the broker, and later the routing of topics by their durable binding. */
package io.nereus.pulsar.binding;
