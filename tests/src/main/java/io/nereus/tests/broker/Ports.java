package io.nereus.tests.broker;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;

/** A broker's two ports on the loopback address. Free when chosen, then the same over all its restarts. */
public record Ports(int binary, int web) {

    public static Ports free() throws IOException {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        try (ServerSocket binary = new ServerSocket(0, 1, loopback); ServerSocket web = new ServerSocket(0, 1, loopback)) {
            return new Ports(binary.getLocalPort(), web.getLocalPort());
        }
    }
}
