//! `CursorIndex`: one immutable version of a part of the names of a cursor's pages, for cursors whose root would grow too large
//! if it named every page itself.
//!
//! An index record names the parts of pages from `(page, chunk)` up to where the root's next index record starts.

use prost::Message;

use super::cursor_root::{from_wire, to_wire, PageName, WirePage};
use super::{wire, Key, Record, RecordType};
use crate::error::Result;
use crate::types::StreamId;

/// Most names in one record. More names make it cheaper to find a page and dearer to change one.
pub const MAX_NAMES: usize = 128;

/// The names of some parts of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorIndex {
    /// The stream.
    pub stream: StreamId,
    /// The cursor.
    pub name: String,
    /// Page of the first part it may name.
    pub page: u64,
    /// Low 16 bits of the first offset of the first part it may name.
    pub chunk: u16,
    /// Unique among the versions of this record.
    pub version: u64,
    /// Parts of pages, ascending by (page, chunk), none twice, at least one.
    pub names: Vec<PageName>,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, tag = "3")]
    page: u64,
    #[prost(uint32, tag = "4")]
    chunk: u32,
    #[prost(uint64, tag = "5")]
    version: u64,
    #[prost(message, repeated, tag = "6")]
    names: Vec<WirePage>,
}

impl Record for CursorIndex {
    const TYPE: RecordType = RecordType::CursorIndex;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 16 * 1024;

    fn key(&self) -> Result<Key> {
        Key::cursor_index(self.stream, &self.name, self.page, self.chunk, self.version)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.names.is_empty() || self.names.len() > MAX_NAMES {
            return Err(format!(
                "names {} parts of pages; 1 to {MAX_NAMES} are allowed",
                self.names.len()
            ));
        }
        if self.names[0].place() < (self.page, self.chunk) {
            return Err(format!(
                "page {} part {} lies below its first place {} part {}",
                self.names[0].page, self.names[0].chunk, self.page, self.chunk
            ));
        }
        PageName::check(&self.names)
    }

    fn to_body(&self) -> Vec<u8> {
        Body {
            stream: self.stream.to_bytes().to_vec(),
            name: self.name.clone(),
            page: self.page,
            chunk: u32::from(self.chunk),
            version: self.version,
            names: to_wire(&self.names),
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        Ok(CursorIndex {
            stream: wire::stream(&body.stream)?,
            name: body.name,
            page: body.page,
            chunk: u16::try_from(body.chunk).map_err(|_| format!("starts at a part {}", body.chunk))?,
            version: body.version,
            names: from_wire(&body.names)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::testing::{names, record_suite, streams};
    use super::*;
    use crate::types::Offset;

    fn indexes() -> impl Strategy<Value = CursorIndex> {
        let places = prop::collection::btree_set((0..=Offset::MAX.get() >> 16, any::<u16>()), 1..9);
        (streams(), names(), any::<u64>(), places, any::<u64>()).prop_map(
            |(stream, name, version, places, part): (_, _, _, BTreeSet<(u64, u16)>, _)| {
                let names: Vec<PageName> = places
                    .into_iter()
                    .map(|(page, chunk)| PageName {
                        page,
                        chunk,
                        version: part,
                        bytes: 7,
                        crc32c: 9,
                    })
                    .collect();
                CursorIndex {
                    stream,
                    name,
                    page: names[0].page,
                    chunk: names[0].chunk,
                    version,
                    names,
                }
            },
        )
    }

    record_suite!(CursorIndex, indexes());

    fn index(names: Vec<PageName>) -> CursorIndex {
        CursorIndex {
            stream: StreamId::new(u128::MAX),
            name: "n".repeat(super::super::key::MAX_NAME_BYTES),
            page: 5,
            chunk: 6,
            version: u64::MAX,
            names,
        }
    }

    fn name(page: u64, chunk: u16) -> PageName {
        PageName {
            page,
            chunk,
            version: u64::MAX,
            bytes: u32::MAX,
            crc32c: u32::MAX,
        }
    }

    #[test]
    fn a_full_index_fits_its_bound_and_one_more_name_does_not() {
        let last = Offset::MAX.get() >> 16;
        let mut names: Vec<PageName> = (0..MAX_NAMES as u64)
            .map(|n| name(last - (MAX_NAMES as u64) + n, u16::MAX))
            .collect();
        let full = index(names.clone());
        assert_eq!(
            CursorIndex::decode(&full.key().unwrap(), &full.encode().unwrap()).unwrap(),
            full
        );
        names.push(name(last, 0));
        assert!(index(names).encode().is_err());
    }

    #[test]
    fn names_below_the_first_place_out_of_order_or_none_are_refused() {
        for names in [
            vec![],
            vec![name(5, 5)],
            vec![name(7, 0), name(7, 0)],
            vec![name(8, 0), name(7, 0)],
            vec![name(u64::MAX, 0)],
        ] {
            assert!(index(names.clone()).encode().is_err(), "{names:?}");
        }
        assert!(index(vec![name(5, 6), name(5, 7), name(9, 0)]).encode().is_ok());
    }
}
