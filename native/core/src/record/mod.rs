//! Durable records: what is stored under which key, in which bytes, with which bounds.
//!
//! Owns: [`Key`] (ordered bytes), the [`envelope`] around every value, one file per record.
//! Promises: [`Record::decode`] returns what [`Record::encode`] was given, or an error that names record and key; arbitrary bytes
//! never panic, a flipped bit is found, a newer format is refused by name, older ones are read for ever (golden files).
//! Does not: read or write a store, or know who does. Uses `types` and the pure data of `commit` only.

pub mod binding;
pub mod cluster;
mod commit_deltas;
pub mod commit_page;
pub mod cursor_index;
pub mod cursor_page;
pub mod cursor_root;
pub mod envelope;
pub mod generation_counter;
pub mod generation_index;
pub mod key;
pub mod ledger_grant;
pub mod physical_root;
pub mod quarantine;
pub mod stream_head;
pub mod stream_properties;
pub mod target;
pub mod task;
pub mod trim_mark;
mod wire;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod testing;

use bytes::Bytes;

pub use binding::{Binding, BindingState};
pub use cluster::Cluster;
pub use commit_page::CommitPage;
pub use cursor_index::CursorIndex;
pub use cursor_page::CursorPage;
pub use cursor_root::{CursorRoot, PageName};
pub use generation_counter::GenerationCounter;
pub use generation_index::{GenerationIndex, GenerationState, SourceSnapshot};
pub use key::{Key, KeyParts};
pub use ledger_grant::{Grant, LedgerGrant};
pub use physical_root::{Need, NeedKind, PhysicalRoot, RootState};
pub use quarantine::Quarantine;
pub use stream_properties::StreamProperties;
pub use target::{PhysicalId, TargetId};
pub use task::{Task, TaskId, TaskPart, TaskSource, TaskState};
pub use trim_mark::{TrimMark, TrimReason};

use crate::error::{Error, Result};

macro_rules! record_types {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// The kinds of records. The number is the first byte of a key and the type byte of the envelope; numbers once used never
        /// change meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum RecordType { $($(#[$doc])* $variant = $number,)* }

        impl RecordType {
            /// Every type with its name, as it shows in messages.
            pub const ALL: &'static [(RecordType, &'static str)] = &[$((RecordType::$variant, $name),)*];
        }
    };
}

record_types! {
    /// Identity of the cluster's embedded store.
    Cluster = 0x01, "Cluster";
    /// One topic name's storage class and stream.
    Binding = 0x02, "Binding";
    /// The counter of virtual ledger ids.
    LedgerGrant = 0x03, "LedgerGrant";
    /// The authority of a stream.
    StreamHead = 0x10, "StreamHead";
    /// Properties of a stream.
    StreamProperties = 0x11, "StreamProperties";
    /// Commits folded out of a head's ring.
    CommitPage = 0x12, "CommitPage";
    /// A place up to which retention may move.
    TrimMark = 0x13, "TrimMark";
    /// One published generation of a range.
    GenerationIndex = 0x20, "GenerationIndex";
    /// The next generation number of a view.
    GenerationCounter = 0x21, "GenerationCounter";
    /// A target that failed its checks.
    Quarantine = 0x22, "Quarantine";
    /// The committed state of a cursor.
    CursorRoot = 0x30, "CursorRoot";
    /// One immutable version of a part of a cursor's acks.
    CursorPage = 0x31, "CursorPage";
    /// One immutable version of a part of the names of a cursor's pages.
    CursorIndex = 0x32, "CursorIndex";
    /// A materialization task.
    Task = 0x40, "Task";
    /// The life of a segment or object.
    PhysicalRoot = 0x41, "PhysicalRoot";
}

impl RecordType {
    /// The stored number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The type stored under this number.
    pub fn from_number(number: u8) -> Option<RecordType> {
        Self::ALL.iter().find(|(t, _)| t.number() == number).map(|(t, _)| *t)
    }

    /// The name, as it shows in messages.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(t, _)| *t == self).map_or("", |(_, name)| name)
    }
}

/// A durable record. Implementors give the five small pieces; callers use [`Record::encode`] and [`Record::decode`].
pub trait Record: Sized {
    /// Its type, in key and envelope.
    const TYPE: RecordType;
    /// The format that this build writes, from 1; it reads this one and all before.
    const VERSION: u16;
    /// Largest encoded form, envelope included, in bytes.
    const MAX_BYTES: usize;

    /// The key it belongs under; a record carries its own identity, so that a value under a wrong key is found out.
    fn key(&self) -> Result<Key>;
    /// What must always hold; the text says what is wrong.
    fn check(&self) -> std::result::Result<(), String>;
    /// The protobuf body.
    fn to_body(&self) -> Vec<u8>;
    /// The record of a body written in format `version` (1 to [`Record::VERSION`]); invariants are checked by the caller.
    fn from_body(version: u16, body: &[u8]) -> std::result::Result<Self, String>;

    /// The bytes to store. `Invalid` when an invariant does not hold or the bound is exceeded: nothing is stored that
    /// `decode` would refuse.
    fn encode(&self) -> Result<Bytes> {
        let invalid = |detail: String| Error::Invalid {
            what: format!("record {}: {detail}", Self::TYPE.name()),
        };
        self.check().map_err(invalid)?;
        let sealed = envelope::seal(Self::TYPE, Self::VERSION, &self.to_body());
        if sealed.len() > Self::MAX_BYTES {
            return Err(invalid(format!(
                "{} bytes, at most {} are allowed",
                sealed.len(),
                Self::MAX_BYTES
            )));
        }
        Ok(sealed)
    }

    /// The record stored under `key`. `Corrupt` names record and key; a newer format is `Unsupported`.
    fn decode(key: &Key, raw: &[u8]) -> Result<Self> {
        let corrupt = |detail: String| Error::Corrupt {
            what: format!("record {}", Self::TYPE.name()),
            place: format!("key {key}"),
            detail,
        };
        if raw.len() > Self::MAX_BYTES {
            return Err(corrupt(format!(
                "{} bytes, at most {} are allowed",
                raw.len(),
                Self::MAX_BYTES
            )));
        }
        let opened = envelope::open(Self::TYPE, Self::VERSION, key, raw)?;
        let record = Self::from_body(opened.version, opened.body).map_err(corrupt)?;
        record.check().map_err(corrupt)?;
        let own = record.key().map_err(|e| corrupt(e.to_string()))?;
        if own != *key {
            return Err(corrupt(format!("the value belongs under key {own}")));
        }
        Ok(record)
    }
}

/// Checks a stored value as the record that its key says it is: for tools, which take whatever comes.
///
/// # Errors
/// As [`Record::decode`]; `Corrupt` also for a key that is none.
pub fn verify(key: &Key, raw: &[u8]) -> Result<()> {
    let Some(kind) = key.kind() else {
        return key.parse().map(drop);
    };
    match kind {
        RecordType::Cluster => Cluster::decode(key, raw).map(drop),
        RecordType::Binding => Binding::decode(key, raw).map(drop),
        RecordType::LedgerGrant => LedgerGrant::decode(key, raw).map(drop),
        RecordType::StreamHead => crate::commit::StreamHead::decode(key, raw).map(drop),
        RecordType::StreamProperties => StreamProperties::decode(key, raw).map(drop),
        RecordType::CommitPage => CommitPage::decode(key, raw).map(drop),
        RecordType::TrimMark => TrimMark::decode(key, raw).map(drop),
        RecordType::GenerationIndex => GenerationIndex::decode(key, raw).map(drop),
        RecordType::GenerationCounter => GenerationCounter::decode(key, raw).map(drop),
        RecordType::Quarantine => Quarantine::decode(key, raw).map(drop),
        RecordType::CursorRoot => CursorRoot::decode(key, raw).map(drop),
        RecordType::CursorPage => CursorPage::decode(key, raw).map(drop),
        RecordType::CursorIndex => CursorIndex::decode(key, raw).map(drop),
        RecordType::Task => Task::decode(key, raw).map(drop),
        RecordType::PhysicalRoot => PhysicalRoot::decode(key, raw).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_numbers_are_unique_and_round_trip() {
        for (index, (t, name)) in RecordType::ALL.iter().enumerate() {
            assert_eq!(RecordType::from_number(t.number()), Some(*t));
            assert_eq!(t.name(), *name);
            assert!(
                RecordType::ALL[index + 1..]
                    .iter()
                    .all(|(other, _)| other.number() > t.number()),
                "{name}"
            );
        }
        assert_eq!(RecordType::from_number(0), None);
        assert_eq!(RecordType::from_number(0xff), None);
    }
}
