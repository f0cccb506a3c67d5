//! `Cluster`: which data directory serves a cluster, and how often it was started. One record per cluster, in the broker's own
//! metadata store.

use prost::Message;

use super::{wire, Key, Record, RecordType};
use crate::error::Result;

/// Longest cluster name or holder text, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024;

/// The one record that ties a cluster to a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Pulsar's cluster name.
    pub cluster: String,
    /// The uuid of the data directory, made once.
    pub directory: u128,
    /// Raised at each start: a directory that knows a smaller one is an older copy.
    pub journal_epoch: u64,
    /// The newest format in use; a build that knows less does not start.
    pub format_level: u32,
    /// Who holds the directory, for messages.
    pub holder: String,
    /// Identity of the write that made this value: settles a lost answer.
    pub attempt: u128,
    /// Broker clock of that write, milliseconds.
    pub changed_millis: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(string, tag = "1")]
    cluster: String,
    #[prost(bytes = "vec", tag = "2")]
    directory: Vec<u8>,
    #[prost(uint64, tag = "3")]
    journal_epoch: u64,
    #[prost(uint32, tag = "4")]
    format_level: u32,
    #[prost(string, tag = "5")]
    holder: String,
    #[prost(bytes = "vec", tag = "6")]
    attempt: Vec<u8>,
    #[prost(uint64, tag = "7")]
    changed_millis: u64,
}

impl Record for Cluster {
    const TYPE: RecordType = RecordType::Cluster;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 4096;

    fn key(&self) -> Result<Key> {
        Ok(Key::cluster())
    }

    fn check(&self) -> std::result::Result<(), String> {
        wire::check_text(&self.cluster, "the cluster name", MAX_TEXT_BYTES)?;
        wire::check_text(&self.holder, "the holder", MAX_TEXT_BYTES)?;
        if self.cluster.is_empty() || self.directory == 0 {
            return Err("no cluster name or no directory uuid".into());
        }
        if self.journal_epoch == 0 || self.format_level == 0 {
            return Err(format!(
                "journal epoch {} or format level {} is 0",
                self.journal_epoch, self.format_level
            ));
        }
        Ok(())
    }

    fn to_body(&self) -> Vec<u8> {
        Body {
            cluster: self.cluster.clone(),
            directory: self.directory.to_be_bytes().to_vec(),
            journal_epoch: self.journal_epoch,
            format_level: self.format_level,
            holder: self.holder.clone(),
            attempt: self.attempt.to_be_bytes().to_vec(),
            changed_millis: self.changed_millis,
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        Ok(Cluster {
            cluster: body.cluster,
            directory: u128::from_be_bytes(wire::id16(&body.directory, "the directory uuid")?),
            journal_epoch: body.journal_epoch,
            format_level: body.format_level,
            holder: body.holder,
            attempt: u128::from_be_bytes(wire::id16(&body.attempt, "the attempt")?),
            changed_millis: body.changed_millis,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::record_suite;
    use super::*;

    record_suite!(
        Cluster,
        (
            "\\PC{1,40}",
            1..=u128::MAX,
            1..=u64::MAX,
            1..=u32::MAX,
            "\\PC{0,40}",
            any::<u128>(),
            any::<u64>()
        )
            .prop_map(
                |(cluster, directory, journal_epoch, format_level, holder, attempt, changed_millis)| Cluster {
                    cluster,
                    directory,
                    journal_epoch,
                    format_level,
                    holder,
                    attempt,
                    changed_millis,
                }
            )
    );

    #[test]
    fn an_epoch_or_uuid_of_0_is_refused() {
        let good = Cluster {
            cluster: "c".into(),
            directory: 1,
            journal_epoch: 1,
            format_level: 1,
            holder: String::new(),
            attempt: 0,
            changed_millis: 0,
        };
        good.encode().unwrap();
        assert!(Cluster {
            journal_epoch: 0,
            ..good.clone()
        }
        .encode()
        .is_err());
        assert!(Cluster {
            directory: 0,
            ..good.clone()
        }
        .encode()
        .is_err());
        assert!(Cluster {
            cluster: String::new(),
            ..good
        }
        .encode()
        .is_err());
    }
}
