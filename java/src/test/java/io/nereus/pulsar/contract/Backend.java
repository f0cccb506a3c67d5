package io.nereus.pulsar.contract;

import org.apache.bookkeeper.mledger.ManagedLedgerFactory;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/** What lies behind the factories of one world: the only code that knows which storage it is. */
interface Backend {

    /** One broker process. */
    interface Broker {
        ManagedLedgerFactory factory();

        /** Closes it cleanly. */
        void stop() throws Exception;
    }

    /** Starts a broker over the data of this backend. */
    Broker start(MetadataStoreExtended store) throws Exception;

    /**
     * The data become what processes that are killed now leave behind; brokers started before cannot change them any
     * more. They are stopped with the backend, whatever that answers.
     */
    void kill() throws Exception;

    /** Removes the data; the brokers that were not killed are stopped already. */
    void close() throws Exception;
}
