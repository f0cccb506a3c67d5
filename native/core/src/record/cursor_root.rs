//! `CursorRoot`: the committed state of a cursor. Its conditional update is the commit of a persist; the page versions it names
//! were durable before.

use std::collections::BTreeMap;

use prost::Message;

use super::{wire, Key, Record, RecordType};
use crate::error::Result;
use crate::types::{Offset, OwnerEpoch, StreamId};

/// Most parts of pages that a root can name: holes spread over at least 1.6 billion offsets. Bounded by the largest value that
/// every provider takes.
pub const MAX_PAGES: usize = 24_576;

/// The name of one immutable page version, with what proves that it is the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageName {
    /// Offsets `page << 16 .. (page + 1) << 16`.
    pub page: u64,
    /// Low 16 bits of the first offset this part may speak of; the part ends where the next one of the page starts.
    pub chunk: u16,
    /// The version in the page's key.
    pub version: u64,
    /// Bytes of the stored page, envelope included.
    pub bytes: u32,
    /// CRC32C of the stored page, envelope included.
    pub crc32c: u32,
}

/// Everything durable of a cursor, by value or by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorRoot {
    /// The stream.
    pub stream: StreamId,
    /// The cursor (Pulsar's subscription name, opaque).
    pub name: String,
    /// Raised by every writable open before the cursor is loaded; the newest alone may change it (L5).
    pub owner_epoch: OwnerEpoch,
    /// Rises by one with every change of the ack state, from 1.
    pub ack_epoch: u64,
    /// Every offset below it is acknowledged.
    pub mark_delete_end: Offset,
    /// Pulsar's properties of the mark-delete position.
    pub position_properties: BTreeMap<String, i64>,
    /// Pulsar's properties of the cursor.
    pub cursor_properties: BTreeMap<String, String>,
    /// Broker clock at creation, milliseconds.
    pub created_millis: u64,
    /// Parts of pages, ascending by (page, chunk), none twice.
    pub pages: Vec<PageName>,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "vec", tag = "1")]
    stream: Vec<u8>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, tag = "3")]
    owner_epoch: u64,
    #[prost(uint64, tag = "4")]
    ack_epoch: u64,
    #[prost(uint64, tag = "5")]
    mark_delete_end: u64,
    #[prost(btree_map = "string, sint64", tag = "6")]
    position_properties: BTreeMap<String, i64>,
    #[prost(btree_map = "string, string", tag = "7")]
    cursor_properties: BTreeMap<String, String>,
    #[prost(uint64, tag = "8")]
    created_millis: u64,
    #[prost(message, repeated, tag = "9")]
    pages: Vec<WirePage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WirePage {
    #[prost(uint64, tag = "1")]
    page: u64,
    #[prost(uint32, tag = "2")]
    chunk: u32,
    #[prost(uint64, tag = "3")]
    version: u64,
    #[prost(uint32, tag = "4")]
    bytes: u32,
    #[prost(fixed32, tag = "5")]
    crc32c: u32,
}

impl Record for CursorRoot {
    const TYPE: RecordType = RecordType::CursorRoot;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 1024 * 1024;

    fn key(&self) -> Result<Key> {
        Key::cursor_root(self.stream, &self.name)
    }

    fn check(&self) -> std::result::Result<(), String> {
        wire::check_offset(self.mark_delete_end, "the mark-delete end")?;
        if self.ack_epoch == 0 {
            return Err("ack epoch 0; the first one is 1".into());
        }
        if self.pages.len() > MAX_PAGES {
            return Err(format!(
                "names {} pages, at most {MAX_PAGES} are allowed",
                self.pages.len()
            ));
        }
        for pair in self.pages.windows(2) {
            if (pair[0].page, pair[0].chunk) >= (pair[1].page, pair[1].chunk) {
                return Err(format!(
                    "page {} part {} is named twice or out of order",
                    pair[1].page, pair[1].chunk
                ));
            }
        }
        if let Some(last) = self.pages.last().filter(|last| last.page > Offset::MAX.get() >> 16) {
            return Err(format!("page {} is past the range of offsets", last.page));
        }
        Ok(())
    }

    fn to_body(&self) -> Vec<u8> {
        let wire_page = |p: &PageName| WirePage {
            page: p.page,
            chunk: u32::from(p.chunk),
            version: p.version,
            bytes: p.bytes,
            crc32c: p.crc32c,
        };
        Body {
            stream: self.stream.to_bytes().to_vec(),
            name: self.name.clone(),
            owner_epoch: self.owner_epoch.get(),
            ack_epoch: self.ack_epoch,
            mark_delete_end: self.mark_delete_end.get(),
            position_properties: self.position_properties.clone(),
            cursor_properties: self.cursor_properties.clone(),
            created_millis: self.created_millis,
            pages: self.pages.iter().map(wire_page).collect(),
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        let page = |p: &WirePage| {
            let chunk = u16::try_from(p.chunk).map_err(|_| format!("page {} has a part {}", p.page, p.chunk))?;
            Ok(PageName {
                page: p.page,
                chunk,
                version: p.version,
                bytes: p.bytes,
                crc32c: p.crc32c,
            })
        };
        Ok(CursorRoot {
            stream: wire::stream(&body.stream)?,
            name: body.name,
            owner_epoch: OwnerEpoch::new(body.owner_epoch),
            ack_epoch: body.ack_epoch,
            mark_delete_end: Offset::new(body.mark_delete_end),
            position_properties: body.position_properties,
            cursor_properties: body.cursor_properties,
            created_millis: body.created_millis,
            pages: body
                .pages
                .iter()
                .map(page)
                .collect::<std::result::Result<_, String>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::testing::{names, offsets, record_suite, streams};
    use super::*;

    fn roots() -> impl Strategy<Value = CursorRoot> {
        let places = prop::collection::btree_set((0..=Offset::MAX.get() >> 16, any::<u16>()), 0..9);
        let page = |((page, chunk), version)| PageName {
            page,
            chunk,
            version,
            bytes: 7,
            crc32c: 9,
        };
        let pages = (places, any::<u64>()).prop_map(move |(places, version): (BTreeSet<_>, _)| {
            places.into_iter().zip(std::iter::repeat(version)).map(page).collect()
        });
        let properties = (
            prop::collection::btree_map("\\PC{0,9}", any::<i64>(), 0..5),
            prop::collection::btree_map("\\PC{0,9}", "\\PC{0,9}", 0..5),
        );
        (
            streams(),
            names(),
            (any::<u64>(), 1..=u64::MAX, any::<u64>()),
            offsets(),
            properties,
            pages,
        )
            .prop_map(
                |(stream, name, (epoch, ack_epoch, created_millis), mark_delete_end, properties, pages)| CursorRoot {
                    stream,
                    name,
                    owner_epoch: OwnerEpoch::new(epoch),
                    ack_epoch,
                    mark_delete_end,
                    position_properties: properties.0,
                    cursor_properties: properties.1,
                    created_millis,
                    pages,
                },
            )
    }

    record_suite!(CursorRoot, roots());

    proptest! {
        #[test]
        fn pages_named_twice_or_out_of_order_are_refused(mut root in roots()) {
            prop_assume!(!root.pages.is_empty());
            root.pages.push(root.pages[0]);
            prop_assert!(root.encode().is_err());
        }
    }

    #[test]
    fn l15_a_root_with_every_page_it_may_name_fits_its_bound() {
        let page = |n: usize| PageName {
            page: (Offset::MAX.get() >> 16) - (MAX_PAGES - n) as u64,
            chunk: u16::MAX,
            version: u64::MAX,
            bytes: u32::MAX,
            crc32c: u32::MAX,
        };
        let root = CursorRoot {
            stream: StreamId::new(u128::MAX),
            name: "n".repeat(super::super::key::MAX_NAME_BYTES),
            owner_epoch: OwnerEpoch::new(u64::MAX),
            ack_epoch: u64::MAX,
            mark_delete_end: Offset::MAX,
            position_properties: BTreeMap::new(),
            cursor_properties: BTreeMap::new(),
            created_millis: u64::MAX,
            pages: (0..MAX_PAGES).map(page).collect(),
        };
        let raw = root.encode().unwrap();
        assert_eq!(CursorRoot::decode(&root.key().unwrap(), &raw).unwrap(), root);
    }
}
