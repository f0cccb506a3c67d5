//! What stands in the backend, and under which bytes.
//!
//! ```text
//! k <key>                version (8), value        every record, heads and commit pages included
//! s <segment> <stream>   end offset (8)            how far a stream's commits in a segment reach
//! d <scope>              segment, position, text   damage that recovery found; its frames may be gone by now
//! m                      position                  which frames all of the above covers; changes in every batch
//! ```
//!
//! Promises: decoding never panics; what does not make sense is `Corrupt`, naming the directory.

use bytes::{BufMut, Bytes, BytesMut};

use super::frame::{Input, Scope};
use crate::error::{Error, Result};
use crate::metadata::{Version, Versioned};
use crate::record::Key;
use crate::types::{Offset, StreamId};

const FORMAT: u16 = 1;
const RECORD: u8 = b'k';
const USE: u8 = b's';
const DAMAGE: u8 = b'd';
/// The key of the position.
pub const META: &[u8] = b"m";
/// Longest text of a damage, bytes.
const MAX_DETAIL: usize = 4096;

/// Up to where the journal has been applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Segment of the next frame (or the one it would have fitted into).
    pub segment: u64,
    /// Byte in that segment.
    pub offset: u64,
    /// Sequence number of the next frame.
    pub sequence: u64,
    /// The newest version given to a key.
    pub versions: u64,
}

/// Where something is broken, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The segment.
    pub segment: u64,
    /// Byte position in it.
    pub position: u64,
    /// What was found and what to do.
    pub detail: String,
}

/// Identity and position, as stored together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// The data directory that the store belongs to.
    pub directory_id: u128,
    /// What the store covers.
    pub position: Position,
}

/// Where a record stands.
pub fn record_key(key: &Key) -> Bytes {
    [&[RECORD], key.as_bytes()].concat().into()
}

/// The record key behind [`record_key`].
pub fn key_of(stored: &Bytes) -> Result<Key> {
    Key::from_bytes(stored.slice(1.min(stored.len())..))
}

/// A record's value with its version.
pub fn record_value(value: &Versioned) -> Bytes {
    let mut out = BytesMut::with_capacity(value.value.len().saturating_add(8));
    out.put_u64(value.version.0);
    out.put_slice(&value.value);
    out.freeze()
}

/// Takes [`record_value`] apart.
pub fn versioned(key: &Key, stored: &Bytes) -> Result<Versioned> {
    match Input(stored).u64() {
        Some(version) if version != 0 => Ok(Versioned {
            version: Version(version),
            value: stored.slice(8..),
        }),
        _ => Err(Error::Corrupt {
            what: format!("record {key}"),
            place: "the embedded metadata store".into(),
            detail: format!(
                "{} bytes without a version; restore the data directory from a copy",
                stored.len()
            ),
        }),
    }
}

/// Where the use of a segment by a stream stands.
pub fn use_key(segment: u64, stream: StreamId) -> Bytes {
    let mut out = BytesMut::with_capacity(25);
    out.put_u8(USE);
    out.put_u64(segment);
    out.put_slice(&stream.to_bytes());
    out.freeze()
}

/// All uses of the segments `from..to`.
pub fn use_range(from: u64, to: u64) -> (Bytes, Bytes) {
    let bound = |segment: u64| [&[USE], &segment.to_be_bytes()[..]].concat().into();
    (bound(from), bound(to))
}

/// The value of a use.
pub fn use_value(end: Offset) -> Bytes {
    Bytes::copy_from_slice(&end.get().to_be_bytes())
}

/// Takes one use apart: segment, stream, end.
pub fn use_of(key: &[u8], value: &[u8]) -> Option<(u64, StreamId, Offset)> {
    let mut input = Input(key.get(1..)?);
    Some((
        input.u64()?,
        StreamId::from_bytes(input.array()?),
        Offset::new(Input(value).u64()?),
    ))
}

/// Where damage is recorded; `None` = everything in the store is in doubt.
pub fn damage_key(scope: Option<Scope>) -> Bytes {
    let mut out = BytesMut::with_capacity(18);
    out.put_u8(DAMAGE);
    match scope {
        None => out.put_u8(0),
        Some(None) => out.put_u8(1),
        Some(Some(stream)) => {
            out.put_u8(2);
            out.put_slice(&stream.to_bytes());
        }
    }
    out.freeze()
}

/// All damage.
pub fn damage_range() -> (Bytes, Bytes) {
    (Bytes::from_static(&[DAMAGE]), Bytes::from_static(&[DAMAGE + 1]))
}

/// The value of a damage.
pub fn damage_value(damage: &Damage) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u64(damage.segment);
    out.put_u64(damage.position);
    let text = damage.detail.as_bytes();
    out.put_slice(text.get(..MAX_DETAIL).unwrap_or(text));
    out.freeze()
}

/// Takes one damage apart.
pub fn damage_of(key: &[u8], value: &[u8]) -> Option<(Option<Scope>, Damage)> {
    let mut input = Input(key.get(1..)?);
    let scope = match input.u8()? {
        0 => None,
        1 => Some(None),
        2 => Some(Some(StreamId::from_bytes(input.array()?))),
        _ => return None,
    };
    let mut input = Input(value);
    let (segment, position) = (input.u64()?, input.u64()?);
    Some((
        scope,
        Damage {
            segment,
            position,
            detail: String::from_utf8_lossy(input.0).into_owned(),
        },
    ))
}

/// The value under [`META`].
pub fn meta_value(meta: &Meta) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u16(FORMAT);
    out.put_u128(meta.directory_id);
    out.put_u64(meta.position.segment);
    out.put_u64(meta.position.offset);
    out.put_u64(meta.position.sequence);
    out.put_u64(meta.position.versions);
    out.freeze()
}

/// Reads [`meta_value`]; a newer format is `Unsupported`.
pub fn meta_of(stored: &[u8], place: &str) -> Result<Meta> {
    let mut input = Input(stored);
    let format = input.u16();
    if let Some(newer) = format.filter(|format| *format > FORMAT) {
        let feature = format!(
            "format {newer} of the embedded metadata in {place} (this build knows up to {FORMAT}): use a newer build"
        );
        return Err(Error::Unsupported { feature });
    }
    let mut fields = || {
        Some(Meta {
            directory_id: input.array().map(u128::from_be_bytes)?,
            position: Position {
                segment: input.u64()?,
                offset: input.u64()?,
                sequence: input.u64()?,
                versions: input.u64()?,
            },
        })
    };
    match (format, fields()) {
        (Some(FORMAT), Some(meta)) => Ok(meta),
        _ => Err(Error::Corrupt {
            what: "the journal position".into(),
            place: place.into(),
            detail: format!(
                "{} bytes that make no sense; restore the data directory from a copy",
                stored.len()
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn everything_is_read_back() {
        let meta = Meta {
            directory_id: 9,
            position: Position {
                segment: 1,
                offset: 2,
                sequence: 3,
                versions: 4,
            },
        };
        assert_eq!(meta_of(&meta_value(&meta), "here").unwrap(), meta);
        let damage = Damage {
            segment: 5,
            position: 6,
            detail: "gone".into(),
        };
        for scope in [None, Some(None), Some(Some(StreamId::new(8)))] {
            assert_eq!(
                damage_of(&damage_key(scope), &damage_value(&damage)),
                Some((scope, damage.clone()))
            );
        }
        let stream = StreamId::new(11);
        let used = use_of(&use_key(4, stream), &use_value(Offset::new(12)));
        assert_eq!(used, Some((4, stream, Offset::new(12))));
        let key = Key::stream_properties(stream);
        assert_eq!(key_of(&record_key(&key)).unwrap(), key);
        let value = Versioned {
            value: Bytes::from_static(b"x"),
            version: Version(3),
        };
        assert_eq!(versioned(&key, &record_value(&value)).unwrap(), value);
        assert!(versioned(&key, &Bytes::from_static(b"short")).is_err());
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let mut stored = meta_value(&Meta {
            directory_id: 9,
            position: Position {
                segment: 1,
                offset: 2,
                sequence: 3,
                versions: 4,
            },
        })
        .to_vec();
        stored[1] = 2;
        assert!(matches!(meta_of(&stored, "here"), Err(Error::Unsupported { .. })));
        assert!(matches!(meta_of(&stored[..1], "here"), Err(Error::Corrupt { .. })));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(a in proptest::collection::vec(any::<u8>(), 0..64), b in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = (meta_of(&a, ""), damage_of(&a, &b), use_of(&a, &b));
        }
    }
}
