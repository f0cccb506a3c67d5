package io.nereus.tests.plugin;

import io.netty.buffer.ByteBuf;
import javax.servlet.ServletRequest;
import javax.servlet.ServletResponse;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.intercept.BrokerInterceptor;
import org.apache.pulsar.broker.service.Consumer;
import org.apache.pulsar.broker.service.Producer;
import org.apache.pulsar.broker.service.ServerCnx;
import org.apache.pulsar.broker.service.Topic;
import org.apache.pulsar.common.api.proto.BaseCommand;
import org.apache.pulsar.common.api.proto.CommandAck;

/** Writes a line about every message that was stored, dispatched or acknowledged into the broker's log. */
public final class RecordingBrokerInterceptor implements BrokerInterceptor {

    private static void record(String what, String topic, long ledgerId, long entryId) {
        System.out.println("intercepted " + what + " " + topic + " " + ledgerId + ":" + entryId);
    }

    @Override
    public void messageProduced(ServerCnx cnx, Producer producer, long startTimeNs, long ledgerId, long entryId,
                                Topic.PublishContext publishContext) {
        record("produced", producer.getTopic().getName(), ledgerId, entryId);
    }

    @Override
    public void messageDispatched(ServerCnx cnx, Consumer consumer, long ledgerId, long entryId, ByteBuf headersAndPayload) {
        record("dispatched", consumer.getSubscription().getTopicName(), ledgerId, entryId);
    }

    @Override
    public void messageAcked(ServerCnx cnx, Consumer consumer, CommandAck ack) {
        for (int i = 0; i < ack.getMessageIdsCount(); i++) {
            record("acked", consumer.getSubscription().getTopicName(), ack.getMessageIdAt(i).getLedgerId(),
                    ack.getMessageIdAt(i).getEntryId());
        }
    }

    @Override
    public void onPulsarCommand(BaseCommand command, ServerCnx cnx) { }

    @Override
    public void onConnectionClosed(ServerCnx cnx) { }

    @Override
    public void onWebserviceRequest(ServletRequest request) { }

    @Override
    public void onWebserviceResponse(ServletRequest request, ServletResponse response) { }

    @Override
    public void initialize(PulsarService pulsarService) { }

    @Override
    public void close() { }
}
