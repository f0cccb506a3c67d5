package io.nereus.tests.history;

import static org.testng.Assert.assertEquals;
import static org.testng.Assert.assertFalse;
import static org.testng.Assert.assertThrows;
import static org.testng.Assert.assertTrue;

import io.nereus.tests.history.Event.Delivery;
import io.nereus.tests.history.Event.Outage;
import io.nereus.tests.history.Event.Reach;
import java.util.ArrayList;
import java.util.List;
import org.testng.annotations.Test;

/** Feeds the checker one bad history for every way in which a count must move, and the good neighbours of each. */
public class HistoryCheckerTest {

    private static final String TOPIC = "persistent://public/default/t";
    private static final String SUB = "s";
    private static final long FLUSH = 50;
    /** How long before a kill a receipt must have come where messages flow all the time. */
    private static final long GRACE = FLUSH + FlushWatch.AT_LEAST_MILLIS;

    /** Builds a history event by event; each event is one millisecond after the one before, unless told otherwise. */
    private static final class Story {
        final List<Event> events = new ArrayList<>();
        long clock;
        String topic = TOPIC;
        String consumer = "c";
        long flowing;

        Story topic(boolean deduplicated) {
            events.add(new Event.Topic(++clock, topic, deduplicated));
            return this;
        }

        Story subscribed(Delivery delivery) {
            events.add(new Event.Subscribed(++clock, topic, SUB, delivery));
            return this;
        }

        Story sent(String producer, long sequence) {
            events.add(new Event.Sent(++clock, topic, producer, sequence, "h" + sequence, 1));
            return this;
        }

        Story receipt(String producer, long sequence, long entry) {
            events.add(new Event.Receipt(++clock, topic, producer, sequence, at(entry), true));
            return this;
        }

        Story stored(String producer, long sequence, long entry) {
            return sent(producer, sequence).receipt(producer, sequence, entry);
        }

        Story delivered(String producer, long sequence, long entry) {
            return delivered(producer, sequence, entry, "", "h" + sequence);
        }

        Story delivered(String producer, long sequence, long entry, String key, String hash) {
            events.add(new Event.Received(++clock, topic, SUB, consumer, at(entry), producer, sequence, key, 0, hash));
            return this;
        }

        Story asked(long entry, Reach reach) {
            events.add(new Event.AckRequested(++clock, topic, SUB, at(entry), reach));
            return this;
        }

        Story confirmed(long entry, Reach reach) {
            events.add(new Event.AckReceipt(++clock, topic, SUB, at(entry), reach));
            return this;
        }

        Story acked(long entry, Reach reach) {
            return asked(entry, reach).confirmed(entry, reach);
        }

        Story interrupted() {
            events.add(new Event.Interrupted(++clock, topic, SUB, consumer));
            return this;
        }

        Story later(long millis) {
            clock += millis;
            return this;
        }

        /** Time passes while another producer sends, a message a millisecond, each with its receipt one later. */
        Story flow(long millis) {
            if (flowing == 0) {
                events.add(new Event.Topic(clock, "flow", false));
            }
            for (long i = 0; i < millis; i++) {
                clock++;
                events.add(new Event.Sent(clock, "flow", "flow", flowing, "h", 1));
                events.add(new Event.Receipt(clock + 1, "flow", "flow", flowing, at(flowing), true));
                flowing++;
            }
            return this;
        }

        Story gone(Outage outage) {
            long start = ++clock;
            events.add(new Event.Gone(++clock, start, outage, ""));
            return this;
        }

        Story scanStarted(String scan) {
            events.add(new Event.ScanStarted(++clock, topic, scan));
            return this;
        }

        Story shown(String scan, String producer, long sequence, long entry) {
            return shown(scan, producer, sequence, entry, "h" + sequence);
        }

        Story shown(String scan, String producer, long sequence, long entry, String hash) {
            events.add(new Event.Scanned(++clock, topic, scan, at(entry), producer, sequence, hash));
            return this;
        }

        Story scanEnded(String scan) {
            events.add(new Event.ScanEnded(++clock, topic, scan));
            return this;
        }

        /** A whole scan that shows sequence i of one producer at entry i, for each given i. */
        Story scanOf(String scan, String producer, long... sequences) {
            scanStarted(scan);
            for (long sequence : sequences) {
                shown(scan, producer, sequence, sequence);
            }
            return scanEnded(scan);
        }

        Story fetched(long wanted, long got, String producer, long sequence) {
            events.add(new Event.Fetched(++clock, topic, at(wanted), at(got), producer, sequence, "h" + sequence));
            return this;
        }

        Verdict verdict() {
            return HistoryChecker.check(events, FLUSH);
        }
    }

    private static MsgId at(long entry) {
        return entry < 0 ? MsgId.UNKNOWN : new MsgId(4_294_967_296L, entry, -1);
    }

    private static Story story() {
        return new Story().topic(false);
    }

    private static void assertCounts(Verdict verdict, String expected) {
        assertEquals(verdict.toString(), expected, String.join("\n", verdict.evidence()));
        assertEquals(verdict.isClean(), verdict.evidence().isEmpty() && verdict.acknowledged() > 0);
    }

    // ---- a good history, and an empty one

    @Test
    public void goodHistoryWithKillAndRedeliveryIsClean() {
        Verdict verdict = story().subscribed(Delivery.EXCLUSIVE)
                .stored("p", 0, 0).stored("p", 1, 1).stored("p", 2, 2)
                .delivered("p", 0, 0).acked(0, Reach.ONE)
                .delivered("p", 1, 1).delivered("p", 2, 2).acked(2, Reach.ONE)
                .later(GRACE).gone(Outage.KILLED)
                .interrupted().delivered("p", 1, 1).acked(1, Reach.ONE)
                .scanOf("a", "p", 0, 1, 2).fetched(1, 1, "p", 1).verdict();
        assertCounts(verdict, "acknowledged=3 read=3 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void historyInWhichNothingWasAcknowledgedIsNotClean() {
        assertFalse(story().scanOf("a", "p").verdict().isClean());
    }

    // ---- lost

    @Test
    public void acknowledgedMessageMissingFromScanIsLost() {
        assertCounts(story().stored("p", 0, 0).stored("p", 1, 1).stored("p", 2, 2).scanOf("a", "p", 0, 2).verdict(),
                "acknowledged=3 read=2 lost=1 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void messageWithoutReceiptMayBeMissing() {
        assertCounts(story().stored("p", 0, 0).sent("p", 1).scanOf("a", "p", 0).verdict(),
                "acknowledged=1 read=1 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void messageMissingFromOneOfTwoScansIsLostOnce() {
        assertCounts(story().stored("p", 0, 0).stored("p", 1, 1).scanOf("a", "p", 0, 1).scanOf("b", "p", 0).verdict(),
                "acknowledged=2 read=1 lost=1 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void topicThatNobodyScannedHasLostEverything() {
        assertCounts(story().stored("p", 0, 0).stored("p", 1, 1).verdict(),
                "acknowledged=2 read=0 lost=2 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void scanFromBeforeTheKillProvesNothing() {
        assertCounts(story().stored("p", 0, 0).scanOf("a", "p", 0).gone(Outage.KILLED).verdict(),
                "acknowledged=1 read=0 lost=1 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void otherContentIsLost() {
        assertCounts(story().stored("p", 0, 0).scanStarted("a").shown("a", "p", 0, 0, "other").scanEnded("a").verdict(),
                "acknowledged=1 read=0 lost=1 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void messageAtAnotherPlaceThanItsReceiptIsLost() {
        assertCounts(story().stored("p", 0, 0).scanStarted("a").shown("a", "p", 0, 7).scanEnded("a").verdict(),
                "acknowledged=1 read=0 lost=1 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void resentMessageIsReadIfItIsAlsoAtThePlaceOfItsReceipt() {
        assertCounts(story().sent("p", 0).receipt("p", 0, 1)
                        .scanStarted("a").shown("a", "p", 0, 0).shown("a", "p", 0, 1).scanEnded("a").verdict(),
                "acknowledged=1 read=1 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void rememberedIdThatGivesAnotherMessageIsLost() {
        assertCounts(story().stored("p", 0, 0).stored("p", 1, 1).scanOf("a", "p", 0, 1).fetched(0, 1, "p", 1).verdict(),
                "acknowledged=2 read=2 lost=1 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void rememberedIdThatGivesNothingIsLost() {
        assertCounts(story().stored("p", 0, 0).scanOf("a", "p", 0).fetched(0, -1, "", -1).verdict(),
                "acknowledged=1 read=1 lost=1 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void messageNeverGivenToSubscriptionIsLost() {
        assertCounts(story().subscribed(Delivery.SHARED).stored("p", 0, 0).stored("p", 1, 1)
                        .delivered("p", 1, 1).acked(1, Reach.ONE).scanOf("a", "p", 0, 1).verdict(),
                "acknowledged=2 read=2 lost=1 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void unacknowledgedMessageNotRedeliveredAfterTheKillIsLost() {
        assertCounts(story().subscribed(Delivery.SHARED).stored("p", 0, 0).delivered("p", 0, 0)
                        .gone(Outage.KILLED).scanOf("a", "p", 0).verdict(),
                "acknowledged=1 read=1 lost=1 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void messageWhoseAckWasUnderWayAtTheKillMayStayAway() {
        assertCounts(story().subscribed(Delivery.SHARED).stored("p", 0, 0).delivered("p", 0, 0).asked(0, Reach.ONE)
                        .gone(Outage.KILLED).scanOf("a", "p", 0).verdict(),
                "acknowledged=1 read=1 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void otherContentGivenToSubscriptionIsLostEvenIfTheRightOneFollows() {
        assertCounts(story().subscribed(Delivery.SHARED).stored("p", 0, 0).delivered("p", 0, 0, "", "other")
                        .delivered("p", 0, 0).acked(0, Reach.ONE).scanOf("a", "p", 0).verdict(),
                "acknowledged=1 read=1 lost=1 duplicated=0 reordered=0 acked-again=0");
    }

    // ---- duplicated

    @Test
    public void onePlaceTwiceInOneScanIsDuplicated() {
        assertCounts(story().stored("p", 0, 0).scanStarted("a").shown("a", "p", 0, 0).shown("a", "p", 0, 0)
                        .scanEnded("a").verdict(),
                "acknowledged=1 read=1 lost=0 duplicated=1 reordered=0 acked-again=0");
    }

    @Test
    public void onePlaceInTwoScansIsNotDuplicated() {
        assertCounts(story().stored("p", 0, 0).scanOf("a", "p", 0).scanOf("b", "p", 0).verdict(),
                "acknowledged=1 read=1 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void twoReceiptsForOnePlaceAreDuplicated() {
        Verdict verdict = story().stored("p", 0, 0).stored("q", 0, 0).scanOf("a", "p", 0).verdict();
        assertEquals(verdict.duplicated(), 1);
        assertEquals(verdict.lost(), 1, "the second message is nowhere");
    }

    @Test
    public void oneSequenceTwiceOnDeduplicatedTopicIsDuplicated() {
        assertCounts(new Story().topic(true).stored("p", 0, 0).scanStarted("a").shown("a", "p", 0, 0)
                        .shown("a", "p", 0, 1).scanEnded("a").verdict(),
                "acknowledged=1 read=1 lost=0 duplicated=1 reordered=0 acked-again=0");
    }

    @Test
    public void resendDroppedByDeduplicationIsRead() {
        assertCounts(new Story().topic(true).sent("p", 0).receipt("p", 0, -1).scanOf("a", "p", 0).verdict(),
                "acknowledged=1 read=1 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void messageThatNobodySentIsDuplicated() {
        assertCounts(story().stored("p", 0, 0).scanOf("a", "p", 0, 1).verdict(),
                "acknowledged=1 read=1 lost=0 duplicated=1 reordered=0 acked-again=0");
    }

    @Test
    public void messageOfAnotherTopicIsDuplicated() {
        Story story = story().stored("p", 0, 0).scanOf("a", "p", 0);
        story.topic = TOPIC + "2";
        assertCounts(story.topic(false).scanOf("b", "p", 0).verdict(),
                "acknowledged=1 read=1 lost=0 duplicated=1 reordered=0 acked-again=0");
    }

    @Test
    public void messageOfPartitionedTopicBelongsToItsPartition() {
        Story story = story().sent("p", 0);
        story.topic = TOPIC + "-partition-3";
        assertCounts(story.topic(false).receipt("p", 0, 0).scanOf("a", "p", 0).verdict(),
                "acknowledged=1 read=1 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    // ---- reordered

    @Test
    public void firstOccurrencesOfOneProducerOutOfOrderAreReordered() {
        assertCounts(story().sent("p", 0).sent("p", 1).receipt("p", 0, 1).receipt("p", 1, 0).scanStarted("a")
                        .shown("a", "p", 1, 0).shown("a", "p", 0, 1).scanEnded("a").verdict(),
                "acknowledged=2 read=2 lost=0 duplicated=0 reordered=1 acked-again=0");
    }

    @Test
    public void laterOccurrencesMayComeInAnyOrder() {
        assertCounts(story().sent("p", 0).sent("p", 1).receipt("p", 0, 2).receipt("p", 1, 3).scanStarted("a")
                        .shown("a", "p", 0, 0).shown("a", "p", 1, 1).shown("a", "p", 0, 2).shown("a", "p", 1, 3)
                        .scanEnded("a").verdict(),
                "acknowledged=2 read=2 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void twoProducersMayInterleave() {
        assertCounts(story().stored("p", 5, 0).stored("q", 1, 1).scanStarted("a").shown("a", "p", 5, 0)
                        .shown("a", "q", 1, 1).scanEnded("a").verdict(),
                "acknowledged=2 read=2 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void scanThatGoesBackIsReordered() {
        assertCounts(story().stored("p", 0, 0).stored("q", 0, 1).scanStarted("a").shown("a", "q", 0, 1)
                        .shown("a", "p", 0, 0).scanEnded("a").verdict(),
                "acknowledged=2 read=2 lost=0 duplicated=0 reordered=1 acked-again=0");
    }

    @Test
    public void firstOccurrencesInSubscriptionOutOfOrderAreReordered() {
        for (Delivery delivery : List.of(Delivery.EXCLUSIVE, Delivery.FAILOVER)) {
            assertCounts(story().sent("p", 0).sent("p", 1).receipt("p", 0, 1).receipt("p", 1, 0).subscribed(delivery)
                            .delivered("p", 1, 0).delivered("p", 0, 1).scanStarted("a").shown("a", "p", 1, 0)
                            .shown("a", "p", 0, 1).scanEnded("a").verdict(),
                    "acknowledged=2 read=2 lost=0 duplicated=0 reordered=2 acked-again=0");   // in the scan and in the subscription
        }
    }

    @Test
    public void subscriptionThatGoesBackWithoutInterruptionIsReordered() {
        for (Delivery delivery : List.of(Delivery.EXCLUSIVE, Delivery.FAILOVER)) {
            assertCounts(story().subscribed(delivery).stored("p", 0, 0).stored("p", 1, 1).delivered("p", 0, 0)
                            .delivered("p", 1, 1).delivered("p", 0, 0).scanOf("a", "p", 0, 1).verdict(),
                    "acknowledged=2 read=2 lost=0 duplicated=0 reordered=1 acked-again=0");
        }
    }

    @Test
    public void interruptionPermitsOneStepBackOnly() {
        assertCounts(story().subscribed(Delivery.EXCLUSIVE).stored("p", 0, 0).stored("p", 1, 1).delivered("p", 0, 0)
                        .delivered("p", 1, 1).interrupted().delivered("p", 0, 0).delivered("p", 1, 1)
                        .delivered("p", 0, 0).delivered("p", 1, 1).scanOf("a", "p", 0, 1).verdict(),
                "acknowledged=2 read=2 lost=0 duplicated=0 reordered=1 acked-again=0");
    }

    @Test
    public void eachConsumerOfFailoverSubscriptionHasItsOwnPlace() {
        Story story = story().subscribed(Delivery.FAILOVER).stored("p", 0, 0).stored("p", 1, 1)
                .delivered("p", 0, 0).delivered("p", 1, 1);
        story.consumer = "d";
        assertCounts(story.delivered("p", 0, 0).scanOf("a", "p", 0, 1).verdict(),
                "acknowledged=2 read=2 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void sharedSubscriptionHasNoOrder() {
        assertCounts(story().subscribed(Delivery.SHARED).stored("p", 0, 0).stored("p", 1, 1).delivered("p", 1, 1)
                        .delivered("p", 0, 0).scanOf("a", "p", 0, 1).verdict(),
                "acknowledged=2 read=2 lost=0 duplicated=0 reordered=0 acked-again=0");
    }

    @Test
    public void keySharedSubscriptionKeepsTheOrderOfEachKey() {
        assertCounts(story().subscribed(Delivery.KEY_SHARED).stored("p", 0, 0).stored("p", 1, 1).stored("p", 2, 2)
                        .delivered("p", 1, 1, "b", "h1").delivered("p", 2, 2, "a", "h2").delivered("p", 0, 0, "a", "h0")
                        .scanOf("a", "p", 0, 1, 2).verdict(),
                "acknowledged=3 read=3 lost=0 duplicated=0 reordered=1 acked-again=0");
    }

    // ---- acked-again

    @Test
    public void ackOlderThanFlushIntervalAndOneFlushIsNotDeliveredAgain() {
        for (Reach reach : Reach.values()) {
            assertEquals(killedAfterAck(reach, GRACE, Outage.KILLED), 1);
            assertEquals(killedAfterAck(reach, GRACE - 2, Outage.KILLED), 0);
        }
    }

    @Test
    public void ackBeforeCleanCloseIsNotDeliveredAgain() {
        for (Reach reach : Reach.values()) {
            assertEquals(killedAfterAck(reach, 0, Outage.CLOSED), 1);
        }
    }

    @Test
    public void oldAckMayBeDeliveredAgainIfNoFlushIsProven() {
        assertEquals(acked(Reach.ONE).later(10 * GRACE).gone(Outage.KILLED).delivered("p", 0, 0).verdict().ackedAgain(), 0);
    }

    @Test
    public void oneProvenFlushMayHaveBeenUnderWayBeforeTheAck() {
        Story one = acked(Reach.ONE).later(FLUSH).flow(1).later(10 * GRACE);
        assertEquals(one.gone(Outage.KILLED).delivered("p", 0, 0).verdict().ackedAgain(), 0);
        Story two = acked(Reach.ONE).later(FLUSH).flow(2).later(10 * GRACE);
        assertEquals(two.gone(Outage.KILLED).delivered("p", 0, 0).verdict().ackedAgain(), 1);
    }

    @Test
    public void receiptOfMessageDroppedByDeduplicationProvesNoFlush() {
        Story story = acked(Reach.ONE).later(FLUSH);
        for (long i = 1; i < 5; i++) {
            story.sent("p", i).receipt("p", i, -1);
        }
        assertEquals(story.later(10 * GRACE).gone(Outage.KILLED).delivered("p", 0, 0).verdict().ackedAgain(), 0);
    }

    @Test
    public void cumulativeAckCoversWhatIsBeforeAndNothingBehind() {
        Story story = story().subscribed(Delivery.FAILOVER).stored("p", 0, 0).stored("p", 1, 1).stored("p", 2, 2)
                .delivered("p", 0, 0).delivered("p", 1, 1).delivered("p", 2, 2).acked(1, Reach.UP_TO)
                .flow(GRACE).gone(Outage.KILLED).interrupted();
        assertEquals(story.delivered("p", 2, 2).verdict().ackedAgain(), 0);
        assertEquals(story.delivered("p", 0, 0).verdict().ackedAgain(), 1);
        assertEquals(story.delivered("p", 1, 1).verdict().ackedAgain(), 2);
    }

    @Test
    public void ackWithoutReceiptMayBeDeliveredAgain() {
        Story story = story().subscribed(Delivery.SHARED).stored("p", 0, 0).delivered("p", 0, 0).asked(0, Reach.ONE)
                .flow(GRACE).gone(Outage.KILLED).delivered("p", 0, 0);
        assertEquals(story.verdict().ackedAgain(), 0);
    }

    @Test
    public void ackLostInOneOutageProvesNothingAboutTheNext() {
        for (Reach reach : Reach.values()) {
            for (Outage first : Outage.values()) {
                // given away while the topic closed or just before the kill; delivered and acknowledged again, too late again
                Story story = first == Outage.KILLED ? acked(reach).flow(10).gone(first) : closedBeforeAck(reach);
                story.flow(GRACE).delivered("p", 0, 0).acked(0, reach).flow(10).gone(Outage.KILLED).delivered("p", 0, 0);
                assertEquals(story.verdict().ackedAgain(), 0, reach + " " + first);
                // and this time in time
                story.acked(0, reach).flow(GRACE).gone(Outage.KILLED).delivered("p", 0, 0);
                assertEquals(story.verdict().ackedAgain(), 1, reach + " " + first);
            }
        }
    }

    @Test
    public void receiptOfRequestFromBeforeTheOutageProvesNothing() {
        Story story = story().subscribed(Delivery.SHARED).stored("p", 0, 0).delivered("p", 0, 0).asked(0, Reach.ONE)
                .gone(Outage.KILLED).confirmed(0, Reach.ONE).flow(GRACE).gone(Outage.KILLED).delivered("p", 0, 0);
        assertEquals(story.verdict().ackedAgain(), 0);
    }

    @Test
    public void ackOfOneMessageOfBatchLeavesItsNeighboursOpen() {
        Story story = story().subscribed(Delivery.SHARED);
        for (int index = 0; index < 2; index++) {
            story.sent("p", index);
            story.events.add(new Event.Receipt(++story.clock, TOPIC, "p", index, new MsgId(9, 0, index), true));
            story.events.add(new Event.Received(++story.clock, TOPIC, SUB, "c", new MsgId(9, 0, index), "p", index, "", 0, "h" + index));
        }
        story.events.add(new Event.AckRequested(++story.clock, TOPIC, SUB, new MsgId(9, 0, 0), Reach.ONE));
        story.events.add(new Event.AckReceipt(++story.clock, TOPIC, SUB, new MsgId(9, 0, 0), Reach.ONE));
        story.flow(GRACE).gone(Outage.KILLED);
        for (int index = 0; index < 2; index++) {
            story.events.add(new Event.Received(++story.clock, TOPIC, SUB, "c", new MsgId(9, 0, index), "p", index, "", 1, "h" + index));
        }
        assertEquals(story.verdict().ackedAgain(), 1, "index 0 was acknowledged, index 1 was not");
    }

    /** One message, delivered and acknowledged. */
    private static Story acked(Reach reach) {
        return story().subscribed(Delivery.SHARED).stored("p", 0, 0).delivered("p", 0, 0).acked(0, reach);
    }

    /** One message, delivered and acknowledged while its topic was being closed. */
    private static Story closedBeforeAck(Reach reach) {
        Story story = acked(reach);
        int request = story.events.size() - 2;
        story.flow(10).events.add(new Event.Gone(story.clock, story.events.get(request).millis() - 1, Outage.CLOSED, ""));
        return story;
    }

    /** How often it counts as acked again if it is delivered after the outage. */
    private static long killedAfterAck(Reach reach, long millisBeforeOutage, Outage outage) {
        return acked(reach).flow(millisBeforeOutage).gone(outage).delivered("p", 0, 0).verdict().ackedAgain();
    }

    // ---- the recording party is judged too

    @Test
    public void historyThatContradictsItselfIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> story().receipt("p", 0, 0).verdict());
        assertThrows(IllegalArgumentException.class, () -> story().stored("p", 0, 0).receipt("p", 0, 1).verdict());
        assertThrows(IllegalArgumentException.class, () -> story().sent("p", 0).sent("p", 0).verdict());
        assertThrows(IllegalArgumentException.class, () -> story().delivered("p", 0, 0).verdict());
        assertThrows(IllegalArgumentException.class, () -> story().shown("a", "p", 0, 0).verdict());
        assertThrows(IllegalArgumentException.class, () -> story().fetched(0, 0, "p", 0).verdict());
        assertThrows(IllegalArgumentException.class, () -> new Story().scanStarted("a").verdict());
    }

    @Test
    public void everyCountShowsEvidence() {
        Verdict verdict = story().stored("p", 0, 0).verdict();
        assertTrue(verdict.evidence().get(0).contains("p#0"), verdict.evidence().toString());
    }

    @Test
    public void evidenceIsBoundedAndSaysHowMuchIsMissing() {
        Story story = story();
        for (int i = 0; i < 1000; i++) {
            story.stored("p", i, i);
        }
        Verdict verdict = story.verdict();
        assertEquals(verdict.lost(), 1000);
        assertEquals(verdict.evidence().size(), 26);
        assertEquals(verdict.evidence().get(25), "lost: and 975 more");
    }
}
