/**
 * A workload that uses what Pulsar clients use, records all of it, and can be judged afterwards; and the demonstration
 * that runs it from a process of its own against a broker that is killed.
 */
package io.nereus.tests.demo;
