package io.nereus.tests.linkage;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * The default methods of Pulsar's interfaces that our classes take over as they are: each has its reason here. A default
 * that a new release adds comes up as a problem, because Pulsar's defaults are made for callers, not for a storage.
 */
final class InheritedDefaults {

    /** Interface and method, and why Pulsar's own body is right for us. Simple names: parameters do not matter. */
    private static final Map<String, String> KEPT = Map.ofEntries(
        Map.entry("ManagedCursor.seek", "seeks without force"),
        Map.entry("ManagedCursor.periodicRollover", "there is no ledger of a cursor to roll"),
        Map.entry("ManagedCursor.skipNonRecoverableLedger", "does nothing: what cannot be read stays an error"),
        Map.entry("ManagedLedger.getManagedLedgerAttributes", "made from the ledger's name"),
        Map.entry("ManagedLedgerStorage.getDefaultStorageClass", "the first, and there is one"),
        // Pulsar 4.1 and later
        Map.entry("ManagedLedgerFactory.updateCacheEvictionExtendTTLOfEntriesWithRemainingExpectedReadsMaxTimes",
            "does nothing: there is no cache in Java"),
        Map.entry("ManagedLedgerFactory.updateCacheEvictionExtendTTLOfRecentlyAccessed", "as above"),
        // Pulsar 5
        Map.entry("ManagedCursor.hasBacklog", "asks for the number of entries in the backlog, which is exact and cheap"),
        Map.entry("ManagedCursor.markIdle", "notes the time; whether it was idle is only for what stock stores"),
        Map.entry("ManagedCursor.getDeletedBatchIndexesAsLongArray", "makes the position and asks for that"),
        Map.entry("ManagedLedgerFactory.estimateUnloadedTopicBacklogAsync", "runs the blocking call on the broker's executor"));

    private InheritedDefaults() {
    }

    /** The defaults without a reason, a line each. */
    static List<String> unexplained(List<Class<?>> classes) {
        List<String> problems = new ArrayList<>();
        for (Class<?> type : classes) {
            for (Method method : inherited(type)) {
                String name = method.getDeclaringClass().getSimpleName() + "." + method.getName();
                if (!KEPT.containsKey(name)) {
                    problems.add(type.getName() + " inherits the default " + name
                        + Arrays.toString(method.getParameterTypes()) + ": override it, or say why it is right");
                }
            }
        }
        return problems;
    }

    private static List<Method> inherited(Class<?> type) {
        return Linkage.lineage(type).filter(each -> each.isInterface() && each.getName().startsWith("org.apache."))
            .flatMap(each -> Arrays.stream(each.getDeclaredMethods()))
            .filter(method -> method.isDefault() && !isOverridden(type, method))
            .toList();
    }

    private static boolean isOverridden(Class<?> type, Method wanted) {
        return Linkage.lineage(type).filter(each -> !each.isInterface()).flatMap(each -> Arrays.stream(each.getDeclaredMethods()))
            .anyMatch(method -> method.getName().equals(wanted.getName())
                && Arrays.equals(method.getParameterTypes(), wanted.getParameterTypes()));
    }
}
