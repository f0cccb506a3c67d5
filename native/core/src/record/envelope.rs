//! The envelope around every stored value.
//!
//! Layout, big-endian: magic `N` (1 byte), record type (1), format version (2), body length (4), CRC32C over the eight bytes
//! before it and the body (4), body.
//! Promises: type, version, length and checksum are checked before the first field of a body is looked at.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Key, RecordType};
use crate::error::{Error, Result};

const MAGIC: u8 = b'N';

/// Bytes before the body.
pub const HEADER_BYTES: usize = 12;

/// An envelope that passed its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened<'a> {
    /// The format of the body, 1 to what the reader knows.
    pub version: u16,
    /// The body.
    pub body: &'a [u8],
}

/// Puts a body into its envelope. Bodies are bounded by their record's `MAX_BYTES`, far below 4 GiB.
pub fn seal(record: RecordType, version: u16, body: &[u8]) -> Bytes {
    let mut sealed = BytesMut::with_capacity(HEADER_BYTES + body.len());
    sealed.put_u8(MAGIC);
    sealed.put_u8(record.number());
    sealed.put_u16(version);
    sealed.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
    let crc = crc32c::crc32c_append(crc32c::crc32c(&sealed), body);
    sealed.put_u32(crc);
    sealed.put_slice(body);
    sealed.freeze()
}

/// Opens an envelope that must hold a `record` in a format up to `newest`. Errors name record and key.
pub fn open<'a>(record: RecordType, newest: u16, key: &Key, raw: &'a [u8]) -> Result<Opened<'a>> {
    let corrupt = |detail: String| {
        Err(Error::Corrupt {
            what: format!("record {}", record.name()),
            place: format!("key {key}"),
            detail,
        })
    };
    let Some((header, body)) = raw.split_at_checked(HEADER_BYTES) else {
        return corrupt(format!(
            "{} bytes are too few for the envelope of {HEADER_BYTES}",
            raw.len()
        ));
    };
    if header[0] != MAGIC {
        return corrupt(format!(
            "starts with byte {:#04x} where every record starts with {MAGIC:#04x}",
            header[0]
        ));
    }
    let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    if usize::try_from(length) != Ok(body.len()) {
        return corrupt(format!("the envelope announces {length} bytes, {} follow", body.len()));
    }
    let stored = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    let computed = crc32c::crc32c_append(crc32c::crc32c(&header[..8]), body);
    if stored != computed {
        return corrupt(format!("checksum {stored:#010x} stored, {computed:#010x} computed"));
    }
    if header[1] != record.number() {
        let found =
            RecordType::from_number(header[1]).map_or_else(|| format!("type {}", header[1]), |t| t.name().to_owned());
        return corrupt(format!("holds a record of another kind: {found}"));
    }
    match u16::from_be_bytes([header[2], header[3]]) {
        0 => corrupt("format version 0 was never written".into()),
        version if version > newest => Err(Error::Unsupported {
            feature: format!(
                "record {} in format version {version} at key {key}: it was written by a newer Nereus, this one reads up to {newest}",
                record.name()
            ),
        }),
        version => Ok(Opened { version, body }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorCode;
    use crate::types::StreamId;

    fn key() -> Key {
        Key::stream_head(StreamId::new(7))
    }

    #[test]
    fn newer_format_is_refused_by_name() {
        let raw = seal(RecordType::StreamHead, 2, b"body");
        let error = open(RecordType::StreamHead, 1, &key(), &raw).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported);
        assert!(error.to_string().contains("StreamHead in format version 2"), "{error}");
    }

    #[test]
    fn another_kind_is_named() {
        let raw = seal(RecordType::CommitPage, 1, b"body");
        let error = open(RecordType::StreamHead, 1, &key(), &raw).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Corrupt);
        assert!(error.to_string().contains("another kind: CommitPage"), "{error}");
        assert!(error.to_string().contains("record StreamHead"), "{error}");
    }

    proptest! {
        #[test]
        fn body_round_trips(body: Vec<u8>, version in 1u16..9) {
            let raw = seal(RecordType::Task, version, &body);
            let opened = open(RecordType::Task, 9, &key(), &raw).unwrap();
            prop_assert_eq!(opened, Opened { version, body: &body });
        }

        #[test]
        fn flipped_bit_is_found(body: Vec<u8>, bit: prop::sample::Index) {
            let mut raw = seal(RecordType::Task, 1, &body).to_vec();
            let bit = bit.index(raw.len() * 8);
            raw[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(open(RecordType::Task, 1, &key(), &raw).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(raw: Vec<u8>) {
            let _ = open(RecordType::Task, 1, &key(), &raw);
        }
    }
}
