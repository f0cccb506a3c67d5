package io.nereus.pulsar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Properties;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.testng.annotations.DataProvider;
import org.testng.annotations.Test;

public class NereusConfigurationTest {

    private static ServiceConfiguration with(String... keysAndValues) {
        Properties properties = new Properties();
        for (int i = 0; i < keysAndValues.length; i += 2) {
            properties.setProperty(keysAndValues[i], keysAndValues[i + 1]);
        }
        ServiceConfiguration configuration = new ServiceConfiguration();
        configuration.setProperties(properties);
        return configuration;
    }

    @Test
    public void oneLineIsEnough() {
        NereusConfiguration configuration = NereusConfiguration.of(
            with("managedLedgerStorageClassName", NereusManagedLedgerStorage.class.getName()));
        assertThat(configuration.dataDirectory()).isEqualTo("data/nereus");
        assertThat(configuration.acceptOlderCopy()).isFalse();
        assertThat(configuration.segmentBytes()).isEqualTo(128L << 20);
        assertThat(configuration.ackFlushMillis()).isEqualTo(50);
    }

    @Test
    public void everyKeyIsRead() {
        NereusConfiguration configuration = NereusConfiguration.of(with("nereusDataDirectory", " /var/lib/n ",
            "nereusMemoryLimitMB", "1024", "nereusJournalSegmentMB", "64", "nereusAcceptOlderCopy", "true",
            "nereusNativeDirectory", "/run/n", "nereusObjectStore", "", "nereusDefaultStorageClass", "nereus",
            "nereusDefaultProfile", "LOCAL_WAL_ASYNC_OBJECT", "nereusAckFlushMillis", "0"));
        assertThat(configuration).isEqualTo(
            new NereusConfiguration("/var/lib/n", 1024L << 20, 64L << 20, true, "/run/n", 0));
    }

    @Test
    public void l17_anUnknownKeyIsNamedWithItsValueAndTheKeysThatExist() {
        assertThatThrownBy(() -> NereusConfiguration.of(with("nereusDataDir", "/x")))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining("nereusDataDir=/x").hasMessageContaining("nereusDataDirectory");
    }

    @DataProvider
    public Object[][] badValues() {
        return new Object[][] {
            {"nereusMemoryLimitMB", "lots", "whole number"},
            {"nereusMemoryLimitMB", "1", "whole number"},
            {"nereusMemoryLimitMB", "-5", "whole number"},
            {"nereusJournalSegmentMB", "100000", "whole number"},
            {"nereusAckFlushMillis", "-1", "from 0 to 60000"},
            {"nereusAckFlushMillis", "60001", "from 0 to 60000"},
            {"nereusAckFlushMillis", "50ms", "from 0 to 60000"},
            {"nereusAcceptOlderCopy", "yes", "true or false"},
            {"nereusDefaultProfile", "FAST", "LOCAL_WAL_ASYNC_OBJECT"},
            {"nereusDefaultStorageClass", "disk", "nereus"},
        };
    }

    @Test(dataProvider = "badValues")
    public void l17_aBadValueIsNamedWithItsKeyAndWhatIsAllowed(String key, String value, String allowed) {
        assertThatThrownBy(() -> NereusConfiguration.of(with(key, value)))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining(key + "=" + value).hasMessageContaining(allowed);
    }

    @DataProvider
    public Object[][] notBuilt() {
        return new Object[][] {
            {"nereusObjectStore", "s3://bucket/prefix"},
            {"nereusDefaultProfile", "OBJECT_WAL_SYNC_OBJECT"},
            {"nereusDefaultProfile", "BOOKKEEPER_WAL_ONLY"},
            {"nereusDefaultStorageClass", "bookkeeper"},
        };
    }

    @Test(dataProvider = "notBuilt")
    public void l14_whatIsNotBuiltIsRefusedByName(String key, String value) {
        assertThatThrownBy(() -> NereusConfiguration.of(with(key, value)))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining(key + "=" + value).hasMessageContaining("does not support");
    }

    @Test
    public void theDefaultMemoryLimitHoldsWhatTheBrokerAdmitsAndCaches() {
        long admitted = (128L << 20) + 16 * (5L << 20);
        assertThat(NereusConfiguration.of(with()).memoryLimitBytes(128L << 20, 5 << 20))
            .isGreaterThanOrEqualTo(admitted + (64L << 20));
        assertThat(NereusConfiguration.of(with("nereusMemoryLimitMB", "64")).memoryLimitBytes(128L << 20, 5 << 20))
            .isEqualTo(64L << 20);
    }

    @Test
    public void configurationsMadeInCodeFallBackToSystemProperties() {
        System.setProperty("nereusDataDirectory", "/from/system");
        try {
            assertThat(NereusConfiguration.of(new ServiceConfiguration()).dataDirectory()).isEqualTo("/from/system");
            assertThat(NereusConfiguration.of(with("nereusDataDirectory", "/from/file")).dataDirectory())
                .isEqualTo("/from/file");
        } finally {
            System.clearProperty("nereusDataDirectory");
        }
    }
}
