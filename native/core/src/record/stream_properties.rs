//! `StreamProperties`: the properties of a stream (Pulsar's managed-ledger properties), and whose stream it is.
//!
//! The ledger's name stands here too, so that what a stream keeps can be named although nobody has it open. Records written before
//! that was so have none; the next writable open adds it.

use std::collections::BTreeMap;

use prost::Message;

use super::{wire, Key, Record, RecordType};
use crate::error::Result;
use crate::types::StreamId;

/// All properties of one stream; replaced as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamProperties {
    /// The stream.
    pub stream: StreamId,
    /// Rises by one with every replacement, from 1.
    pub version: u64,
    /// Names and values, as Pulsar gave them.
    pub properties: BTreeMap<String, String>,
    /// Pulsar's name of the ledger that the stream belongs to; empty = not recorded.
    pub ledger: String,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(uint64, tag = "2")]
    version: u64,
    #[prost(btree_map = "string, string", tag = "3")]
    properties: BTreeMap<String, String>,
    #[prost(string, tag = "4")]
    ledger: String,
}

impl Record for StreamProperties {
    const TYPE: RecordType = RecordType::StreamProperties;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 1024 * 1024;

    fn key(&self) -> Result<Key> {
        Ok(Key::stream_properties(self.stream))
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.version == 0 {
            return Err("version 0; the first one is 1".into());
        }
        Ok(())
    }

    fn to_body(&self) -> Vec<u8> {
        let stream = self.stream.to_bytes().to_vec();
        Body {
            stream,
            version: self.version,
            properties: self.properties.clone(),
            ledger: self.ledger.clone(),
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        Ok(StreamProperties {
            stream: wire::stream(&body.stream)?,
            version: body.version,
            properties: body.properties,
            ledger: body.ledger,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{record_suite, streams};
    use super::*;

    record_suite!(
        StreamProperties,
        (
            streams(),
            1..=u64::MAX,
            prop::collection::btree_map("\\PC{0,9}", "\\PC{0,40}", 0..9),
            "\\PC{0,20}"
        )
            .prop_map(|(stream, version, properties, ledger)| StreamProperties {
                stream,
                version,
                properties,
                ledger
            })
    );

    #[test]
    fn properties_above_the_bound_are_refused_before_they_are_stored() {
        let properties = BTreeMap::from([("k".to_owned(), "v".repeat(StreamProperties::MAX_BYTES))]);
        let error = StreamProperties {
            stream: StreamId::new(1),
            version: 1,
            properties,
            ledger: String::new(),
        }
        .encode()
        .unwrap_err();
        assert!(error.to_string().contains("StreamProperties"), "{error}");
    }
}
