//! `CursorRoot`: the committed state of a cursor. Its conditional update is the commit of a persist; the page versions it names
//! were durable before. A cursor with few pages names them itself; one with many names the records that name them (`CursorIndex`),
//! so that a persist costs what changed and not what there is.

use std::collections::BTreeMap;

use prost::Message;

use super::{wire, Key, Record, RecordType};
use crate::error::Result;
use crate::types::{Offset, OwnerEpoch, StreamId};

/// Most parts of pages that a root can name itself; only roots of format 1 name more than some dozens.
pub const MAX_PAGES: usize = 24_576;

/// Most index records that a root can name, each of some dozens of parts: holes spread over at least 60 billion offsets. Leaves
/// room for properties below the largest value that the store of cursors takes.
pub const MAX_INDEXES: usize = 16_384;

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

impl PageName {
    /// Where the part starts.
    pub fn place(&self) -> (u64, u16) {
        (self.page, self.chunk)
    }

    /// Whether names are in order, none twice, inside the range of offsets; the text says what is wrong.
    pub(super) fn check(names: &[PageName]) -> std::result::Result<(), String> {
        if let Some([_, twice]) = names.windows(2).find(|pair| pair[0].place() >= pair[1].place()) {
            return Err(format!(
                "page {} part {} is named twice or out of order",
                twice.page, twice.chunk
            ));
        }
        match names.last().filter(|last| last.page > Offset::MAX.get() >> 16) {
            Some(last) => Err(format!("page {} is past the range of offsets", last.page)),
            None => Ok(()),
        }
    }
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
    /// Rises by one with every change of the ack state, from 1; over tombstones too.
    pub ack_epoch: u64,
    /// Every offset below it is acknowledged.
    pub mark_delete_end: Offset,
    /// Pulsar's properties of the mark-delete position.
    pub position_properties: BTreeMap<String, i64>,
    /// Pulsar's properties of the cursor.
    pub cursor_properties: BTreeMap<String, String>,
    /// Broker clock at creation, milliseconds.
    pub created_millis: u64,
    /// Parts of pages, ascending by (page, chunk), none twice. Empty when there are `indexes`.
    pub pages: Vec<PageName>,
    /// Versions of index records, by the first part each may name; ascending, none twice.
    pub indexes: Vec<PageName>,
    /// A tombstone: there is no cursor of this name. It has neither acks nor properties.
    pub deleted: bool,
}

impl CursorRoot {
    /// What the owner of `epoch` leaves in place of this root, so that a creation which arrives late finds the key taken.
    pub fn tombstone(&self, epoch: OwnerEpoch) -> CursorRoot {
        CursorRoot {
            stream: self.stream,
            name: self.name.clone(),
            owner_epoch: epoch,
            ack_epoch: self.ack_epoch.saturating_add(1),
            mark_delete_end: Offset::ZERO,
            position_properties: BTreeMap::new(),
            cursor_properties: BTreeMap::new(),
            created_millis: self.created_millis,
            pages: Vec::new(),
            indexes: Vec::new(),
            deleted: true,
        }
    }
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
    #[prost(message, repeated, tag = "10")]
    indexes: Vec<WirePage>,
    #[prost(bool, tag = "11")]
    deleted: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct WirePage {
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
    /// 1: neither index records nor tombstones. 2: with both.
    const VERSION: u16 = 2;
    const MAX_BYTES: usize = 1024 * 1024;

    fn key(&self) -> Result<Key> {
        Key::cursor_root(self.stream, &self.name)
    }

    fn check(&self) -> std::result::Result<(), String> {
        wire::check_offset(self.mark_delete_end, "the mark-delete end")?;
        if self.ack_epoch == 0 {
            return Err("ack epoch 0; the first one is 1".into());
        }
        let bounds = [
            (&self.pages, MAX_PAGES, "pages"),
            (&self.indexes, MAX_INDEXES, "index records"),
        ];
        for (names, most, what) in bounds {
            if names.len() > most {
                return Err(format!(
                    "the acks are spread too far: it names {} {what}, at most {most} are allowed",
                    names.len()
                ));
            }
            PageName::check(names)?;
        }
        if !self.pages.is_empty() && !self.indexes.is_empty() {
            return Err("names pages and index records".into());
        }
        let empty = self.pages.is_empty()
            && self.indexes.is_empty()
            && self.position_properties.is_empty()
            && self.cursor_properties.is_empty()
            && self.mark_delete_end == Offset::ZERO;
        match self.deleted && !empty {
            true => Err("a tombstone with a state".into()),
            false => Ok(()),
        }
    }

    fn to_body(&self) -> Vec<u8> {
        Body {
            stream: self.stream.to_bytes().to_vec(),
            name: self.name.clone(),
            owner_epoch: self.owner_epoch.get(),
            ack_epoch: self.ack_epoch,
            mark_delete_end: self.mark_delete_end.get(),
            position_properties: self.position_properties.clone(),
            cursor_properties: self.cursor_properties.clone(),
            created_millis: self.created_millis,
            pages: to_wire(&self.pages),
            indexes: to_wire(&self.indexes),
            deleted: self.deleted,
        }
        .encode_to_vec()
    }

    fn from_body(version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        Ok(CursorRoot {
            stream: wire::stream(&body.stream)?,
            name: body.name,
            owner_epoch: OwnerEpoch::new(body.owner_epoch),
            ack_epoch: body.ack_epoch,
            mark_delete_end: Offset::new(body.mark_delete_end),
            position_properties: body.position_properties,
            cursor_properties: body.cursor_properties,
            created_millis: body.created_millis,
            pages: from_wire(&body.pages)?,
            indexes: from_wire(&body.indexes)?,
            // Format 1 had no such field.
            deleted: version > 1 && body.deleted,
        })
    }
}

pub(super) fn to_wire(names: &[PageName]) -> Vec<WirePage> {
    names
        .iter()
        .map(|name| WirePage {
            page: name.page,
            chunk: u32::from(name.chunk),
            version: name.version,
            bytes: name.bytes,
            crc32c: name.crc32c,
        })
        .collect()
}

pub(super) fn from_wire(names: &[WirePage]) -> std::result::Result<Vec<PageName>, String> {
    names
        .iter()
        .map(|name| {
            let chunk =
                u16::try_from(name.chunk).map_err(|_| format!("page {} has a part {}", name.page, name.chunk))?;
            Ok(PageName {
                page: name.page,
                chunk,
                version: name.version,
                bytes: name.bytes,
                crc32c: name.crc32c,
            })
        })
        .collect()
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
            places
                .into_iter()
                .zip(std::iter::repeat(version))
                .map(page)
                .collect::<Vec<_>>()
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
            (pages, any::<bool>()),
        )
            .prop_map(
                |(stream, name, (epoch, ack_epoch, created_millis), mark_delete_end, properties, (names, direct))| {
                    CursorRoot {
                        stream,
                        name,
                        owner_epoch: OwnerEpoch::new(epoch),
                        ack_epoch,
                        mark_delete_end,
                        position_properties: properties.0,
                        cursor_properties: properties.1,
                        created_millis,
                        pages: if direct { names.clone() } else { vec![] },
                        indexes: if direct { vec![] } else { names },
                        deleted: false,
                    }
                },
            )
            .prop_flat_map(|root| {
                let tombstone = root.tombstone(root.owner_epoch);
                prop_oneof![4 => Just(root), 1 => Just(tombstone)]
            })
    }

    record_suite!(CursorRoot, roots());

    proptest! {
        #[test]
        fn pages_named_twice_or_out_of_order_are_refused(mut root in roots()) {
            let names = if root.pages.is_empty() { &mut root.indexes } else { &mut root.pages };
            prop_assume!(!names.is_empty());
            let first = names[0];
            names.push(first);
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
            indexes: vec![],
            deleted: false,
        };
        let raw = root.encode().unwrap();
        assert_eq!(CursorRoot::decode(&root.key().unwrap(), &raw).unwrap(), root);
        let mut indexed = root.clone();
        indexed.indexes = indexed.pages.split_off(MAX_PAGES - MAX_INDEXES);
        indexed.pages.clear();
        indexed.cursor_properties.insert("k".into(), "v".repeat(400 * 1024));
        assert_eq!(
            CursorRoot::decode(&root.key().unwrap(), &indexed.encode().unwrap()).unwrap(),
            indexed
        );
        indexed.indexes.push(page(MAX_PAGES));
        assert!(indexed.encode().unwrap_err().to_string().contains("at most 16384"));
        indexed.indexes.truncate(1);
        indexed.pages = indexed.indexes.clone();
        assert!(indexed.encode().is_err(), "pages and index records");
    }

    proptest! {
        #[test]
        fn tombstones_have_no_state(root in roots()) {
            let with_state = CursorRoot { mark_delete_end: Offset::new(1), ..root.tombstone(root.owner_epoch) };
            prop_assert!(with_state.encode().is_err());
        }
    }
}
