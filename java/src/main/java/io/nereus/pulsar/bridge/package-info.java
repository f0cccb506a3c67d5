/**
 * The boundary between the facade and the native library: library loading, the native declarations, the completion
 * reactor, the wire codec and the error table.
 *
 * <p>Owns: every native handle and every operation id. Promises: each operation ends exactly once, on the executor of
 * its stream. Keeps: L6 (an append whose outcome is not known ends as {@code UNKNOWN}, never as a failure that invites
 * a retry), L17 (each failure carries a code and the native message). Does not: hold storage truth, or know cursors,
 * ledgers and positions.
 */
package io.nereus.pulsar.bridge;
