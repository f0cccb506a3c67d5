package io.nereus.tests.e2e;

import java.nio.charset.StandardCharsets;
import java.security.Key;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.Map;
import org.apache.pulsar.client.api.CryptoKeyReader;
import org.apache.pulsar.client.api.EncryptionKeyInfo;

/** A pair of keys for end-to-end encryption, made for one test; the client reads both halves from here. */
final class RsaKeys implements CryptoKeyReader {

    private static final long serialVersionUID = 1L;

    private final byte[] publicKey;
    private final byte[] privateKey;

    private RsaKeys(KeyPair pair) {
        publicKey = pem("PUBLIC KEY", pair.getPublic());
        privateKey = pem("PRIVATE KEY", pair.getPrivate());
    }

    static RsaKeys generate() throws NoSuchAlgorithmException {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        return new RsaKeys(generator.generateKeyPair());
    }

    private static byte[] pem(String kind, Key key) {
        String body = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(key.getEncoded());
        return ("-----BEGIN " + kind + "-----\n" + body + "\n-----END " + kind + "-----\n").getBytes(StandardCharsets.US_ASCII);
    }

    @Override
    public EncryptionKeyInfo getPublicKey(String keyName, Map<String, String> metadata) {
        return new EncryptionKeyInfo(publicKey, metadata);
    }

    @Override
    public EncryptionKeyInfo getPrivateKey(String keyName, Map<String, String> metadata) {
        return new EncryptionKeyInfo(privateKey, metadata);
    }
}
