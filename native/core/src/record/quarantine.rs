//! `Quarantine`: a target that failed its checks and is never read again (L12).

use prost::Message;

use super::{wire, Key, Record, RecordType, TargetId};
use crate::error::Result;
use crate::types::StreamId;

/// Longest reason or name, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024;

/// Why one target of a stream is out of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantine {
    /// The stream.
    pub stream: StreamId,
    /// The target, by identity: a new object under another name is another target.
    pub target: TargetId,
    /// What was found.
    pub reason: String,
    /// Broker clock, milliseconds.
    pub at_millis: u64,
    /// Who found it.
    pub by: String,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    target: Option<wire::TargetId>,
    #[prost(string, tag = "3")]
    reason: String,
    #[prost(uint64, tag = "4")]
    at_millis: u64,
    #[prost(string, tag = "5")]
    by: String,
}

impl Record for Quarantine {
    const TYPE: RecordType = RecordType::Quarantine;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 8 * 1024;

    fn key(&self) -> Result<Key> {
        Key::quarantine(self.stream, &self.target)
    }

    fn check(&self) -> std::result::Result<(), String> {
        self.target.check()?;
        wire::check_text(&self.reason, "the reason", MAX_TEXT_BYTES)?;
        wire::check_text(&self.by, "the finder", MAX_TEXT_BYTES)
    }

    fn to_body(&self) -> Vec<u8> {
        Body {
            stream: self.stream.to_bytes().to_vec(),
            target: Some(self.target.to_wire()),
            reason: self.reason.clone(),
            at_millis: self.at_millis,
            by: self.by.clone(),
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        Ok(Quarantine {
            stream: wire::stream(&body.stream)?,
            target: TargetId::from_wire(body.target)?,
            reason: body.reason,
            at_millis: body.at_millis,
            by: body.by,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{record_suite, streams, targets};
    use super::*;

    record_suite!(
        Quarantine,
        (streams(), targets(), "\\PC{0,40}", any::<u64>(), "\\PC{0,40}").prop_map(
            |(stream, target, reason, at_millis, by)| Quarantine {
                stream,
                target,
                reason,
                at_millis,
                by
            }
        )
    );

    #[test]
    fn a_target_without_bytes_is_refused() {
        let target = TargetId {
            physical: super::super::PhysicalId::Segment(1),
            position: 1,
            length: 0,
        };
        let quarantine = Quarantine {
            stream: StreamId::new(1),
            target,
            reason: String::new(),
            at_millis: 1,
            by: String::new(),
        };
        assert!(quarantine.encode().is_err());
    }
}
