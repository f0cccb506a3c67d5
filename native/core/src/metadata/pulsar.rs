//! The broker's own metadata store as a provider.
//!
//! Owns: [`BrokerStore`] (what the bridge implements), the paths of the three records that live there: `Cluster`, `Binding` and
//! `LedgerGrant`.
//! Promises: a write that the store may still apply is `Unknown`, never a conflict; every other kind of record, and what the
//! broker's store cannot do, is refused by name.
//! Does not: delete (bindings end as tombstones, and the broker's versions start again after a delete), scan, or retry (`settle`).

use std::fmt::Write as _;
use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;

use super::{check_value, Capabilities, Expected, MetadataStore, Verdict, Versioned, Write};
use crate::env::BoxFuture;
use crate::error::{Error, Result};
use crate::record::{Key, KeyParts};

/// Largest value in bytes: half of what ZooKeeper takes in one request.
pub const MAX_VALUE: usize = 512 * 1024;

/// Directory of the bindings.
pub const BINDINGS_PATH: &str = "/nereus/bindings";

/// The broker's metadata store, raw: paths, bytes and versions as the broker counts them.
///
/// Rules
/// - A call sends its request before it returns; the future only waits for the answer. Requests of one caller apply in call order.
/// - Every call ends: without an answer in time as `Unknown` (writes) or `Unavailable` (reads).
/// - `Conflict` carries nothing: the broker's store does not say what it found.
pub trait BrokerStore: Send + Sync + 'static {
    /// Reads one path; `None` is proven absence.
    fn get(&self, path: &str) -> BoxFuture<Result<Option<Versioned>>>;
    /// Writes one path; parents are created.
    fn put(&self, path: &str, value: Bytes, expected: Expected) -> BoxFuture<Verdict>;
    /// Deletes one path. A path that is not there is a `Conflict`.
    fn delete(&self, path: &str, expected: Expected) -> BoxFuture<Verdict>;
    /// Names directly below a path, in no order; none when the path does not exist.
    fn children(&self, path: &str) -> BoxFuture<Result<Vec<String>>>;
}

/// The provider over the broker's store. Cheap to clone.
#[derive(Clone)]
pub struct PulsarMetadata {
    broker: Arc<dyn BrokerStore>,
}

impl PulsarMetadata {
    /// The provider over `broker`.
    pub fn new(broker: Arc<dyn BrokerStore>) -> Self {
        PulsarMetadata { broker }
    }

    /// The ledger names that have a binding, in no order.
    pub async fn bound_names(&self) -> Result<Vec<String>> {
        let children = self.broker.children(BINDINGS_PATH).await?;
        children.iter().map(|child| decode_name(child)).collect()
    }

    fn send(&self, write: Write) -> BoxFuture<Verdict> {
        let path = match path_of(&write.key) {
            Ok(path) => path,
            Err(error) => return Box::pin(ready(Verdict::Refused(error))),
        };
        let Some(value) = write.value else {
            let feature = format!("deleting {} from the broker's metadata store", write.key);
            return Box::pin(ready(Verdict::Refused(Error::Unsupported { feature })));
        };
        if let Err(error) = check_value(MAX_VALUE, &write.key, &value) {
            return Box::pin(ready(Verdict::Refused(error)));
        }
        let sent = self.broker.put(&path, value, write.expected);
        let broker = self.broker.clone();
        Box::pin(async move {
            match sent.await {
                Verdict::Conflict(_) => match broker.get(&path).await {
                    Ok(there) => Verdict::Conflict(there),
                    // Not applied for certain, but nobody can say what is there.
                    Err(error) => Verdict::Refused(error),
                },
                verdict => verdict,
            }
        })
    }
}

impl MetadataStore for PulsarMetadata {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_value: MAX_VALUE,
            ordered_scan: false,
            batch_atomic: false,
            deletes: false,
            late_writes: true,
        }
    }

    fn get(&self, key: Key) -> BoxFuture<Result<Option<Versioned>>> {
        match path_of(&key) {
            Ok(path) => self.broker.get(&path),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn write(&self, batch: Vec<Write>) -> BoxFuture<Vec<Verdict>> {
        // All are sent before anything is awaited: they apply in order, and a caller that leaves abandons answers only.
        let sent: Vec<_> = batch.into_iter().map(|write| self.send(write)).collect();
        Box::pin(join_all(sent))
    }

    fn scan(&self, from: Key, _to: Key, _limit: usize) -> BoxFuture<Result<Vec<(Key, Versioned)>>> {
        Box::pin(ready(Err(no_scan(&from))))
    }

    fn last(&self, from: Key, _to: Key) -> BoxFuture<Result<Option<(Key, Versioned)>>> {
        Box::pin(ready(Err(no_scan(&from))))
    }
}

fn no_scan(from: &Key) -> Error {
    Error::Unsupported {
        feature: format!("ordered scans (from {from}) in the broker's metadata store"),
    }
}

/// The path of a record in the broker's store. `Unsupported` for records that do not live there.
pub fn path_of(key: &Key) -> Result<String> {
    match key.parse()? {
        KeyParts::Cluster => Ok("/nereus/cluster".into()),
        KeyParts::LedgerGrant => Ok("/nereus/ledger-grant".into()),
        KeyParts::Binding { name } => Ok(format!("{BINDINGS_PATH}/{}", encode_name(&name))),
        _ => Err(Error::Unsupported {
            feature: format!("{key} in the broker's metadata store, which keeps Cluster, Binding and LedgerGrant only"),
        }),
    }
}

/// A ledger name as one path element: letters, digits, `-`, `_`, `~` and `.` as they are, everything else as `%XX`. A name of dots
/// only is written as `%2E`, because stores that think in directories refuse it.
pub fn encode_name(name: &str) -> String {
    let dots = name.bytes().all(|byte| byte == b'.');
    name.bytes()
        .fold(String::with_capacity(name.len()), |mut encoded, byte| {
            match byte {
                b'.' if dots => encoded.push_str("%2E"),
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b'.' => encoded.push(char::from(byte)),
                // Writing to a string cannot fail.
                _ => drop(write!(encoded, "%{byte:02X}")),
            }
            encoded
        })
}

/// The name written by [`encode_name`]. `Corrupt` for anything else.
pub fn decode_name(encoded: &str) -> Result<String> {
    let corrupt = || Error::Corrupt {
        what: "the name of a binding".into(),
        place: format!("{BINDINGS_PATH}/{encoded}"),
        detail: "not a name that Nereus wrote; remove it if nobody knows what it is".into(),
    };
    let mut name = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let (digits, more) = rest.split_at_checked(2).ok_or_else(corrupt)?;
        rest = more;
        let digits = std::str::from_utf8(digits).map_err(|_| corrupt())?;
        name.push(u8::from_str_radix(digits, 16).map_err(|_| corrupt())?);
    }
    let name = String::from_utf8(name).map_err(|_| corrupt())?;
    if encode_name(&name) == encoded {
        Ok(name)
    } else {
        Err(corrupt())
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use proptest::prelude::*;

    use super::super::broker_memory::MemoryBroker;
    use super::super::conformance::{metadata_store_suite, Fixture, Keys};
    use super::super::faults::Faults;
    use super::*;
    use crate::error::ErrorCode;
    use crate::types::StreamId;

    struct Pulsar(MemoryBroker);

    impl Fixture for Pulsar {
        fn store(&self) -> Arc<dyn MetadataStore> {
            Arc::new(PulsarMetadata::new(Arc::new(self.0.clone())))
        }

        fn restart(&mut self) {
            self.0 = self.0.clone();
        }

        fn keys(&self) -> Keys {
            Keys::OfBindings
        }

        fn faults(&self) -> Option<Faults> {
            Some(self.0.faults())
        }
    }

    metadata_store_suite!(Pulsar(MemoryBroker::new()));

    #[test]
    fn records_have_the_paths_that_are_documented() {
        assert_eq!(path_of(&Key::cluster()).unwrap(), "/nereus/cluster");
        assert_eq!(path_of(&Key::ledger_grant()).unwrap(), "/nereus/ledger-grant");
        let binding = Key::binding("public/default/persistent/a b-ü%").unwrap();
        assert_eq!(
            path_of(&binding).unwrap(),
            "/nereus/bindings/public%2Fdefault%2Fpersistent%2Fa%20b-%C3%BC%25"
        );
        assert_eq!(encode_name(".."), "%2E%2E");
    }

    #[test]
    fn other_records_are_refused_by_name() {
        let error = path_of(&Key::stream_head(StreamId::new(1))).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported);
        assert!(error.to_string().contains("StreamHead"), "{error}");
    }

    #[test]
    fn a_conflict_that_cannot_be_read_is_certain_but_says_nothing_about_the_value() {
        let broker = MemoryBroker::new();
        let store = PulsarMetadata::new(Arc::new(broker.clone()));
        let write = |value: &'static str| Write {
            key: Key::cluster(),
            expected: Expected::Absent,
            value: Some(value.into()),
        };
        assert!(matches!(
            block_on(store.write(vec![write("one")]))[..],
            [Verdict::Applied(_)]
        ));
        broker.faults().fail_reads(true);
        match &block_on(store.write(vec![write("two")]))[..] {
            [Verdict::Refused(error)] => assert_eq!(error.code(), ErrorCode::Unavailable),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bound_names_are_listed_as_they_were_given() {
        let broker = MemoryBroker::new();
        let store = PulsarMetadata::new(Arc::new(broker.clone()));
        let names = ["a/b", "..", "ü"];
        for name in names {
            let write = Write {
                key: Key::binding(name).unwrap(),
                expected: Expected::Absent,
                value: Some("v".into()),
            };
            assert!(matches!(block_on(store.write(vec![write]))[..], [Verdict::Applied(_)]));
        }
        let mut listed = block_on(store.bound_names()).unwrap();
        listed.sort();
        assert_eq!(listed, ["..", "a/b", "ü"]);
        assert!(matches!(
            block_on(broker.put("/nereus/bindings/%zz", "x".into(), Expected::Any)),
            Verdict::Applied(_)
        ));
        assert_eq!(block_on(store.bound_names()).unwrap_err().code(), ErrorCode::Corrupt);
    }

    proptest! {
        #[test]
        fn names_round_trip_as_one_path_element(name in "\\PC{1,40}|[./%a]{1,6}") {
            let encoded = encode_name(&name);
            prop_assert!(!encoded.contains('/') && encoded != "." && encoded != "..");
            prop_assert_eq!(decode_name(&encoded).unwrap(), name);
        }

        #[test]
        fn arbitrary_path_elements_never_panic(element in "\\PC{0,20}|[%0-9a-fA-F]{0,9}") {
            if let Ok(name) = decode_name(&element) {
                prop_assert_eq!(encode_name(&name), element);
            }
        }
    }
}
