//! `CursorPage`: one immutable version of a part of a cursor's acks, at most 64 KiB.
//!
//! A page covers the offsets `page << 16 .. (page + 1) << 16`. It is stored in one part, or in several when its batch bitmaps do
//! not fit one; a part starts at `chunk` (low 16 bits) and ends where the page's next part starts.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use roaring::RoaringBitmap;

use super::{wire, Key, Record, RecordType};
use crate::error::Result;
use crate::types::StreamId;

/// Most words of one batch bitmap: 65,536 messages in a batch.
pub const MAX_BATCH_WORDS: usize = 1024;

/// The acks of one part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorPage {
    /// The stream.
    pub stream: StreamId,
    /// The cursor.
    pub name: String,
    /// Offsets `page << 16 .. (page + 1) << 16`.
    pub page: u64,
    /// Low 16 bits of the first offset this part may speak of.
    pub chunk: u16,
    /// Unique among the versions of this part.
    pub version: u64,
    /// Low 16 bits of the wholly acknowledged offsets: a portable RoaringBitmap. Empty bytes = none.
    pub acked: Bytes,
    /// Partly acknowledged batches by the low 16 bits of their offset; a set bit = **not** acknowledged yet (Pulsar's AckSet).
    pub batches: BTreeMap<u16, Vec<i64>>,
}

impl CursorPage {
    /// The bitmap of `acked`; the text says what is wrong with it.
    pub fn bitmap(&self) -> std::result::Result<RoaringBitmap, String> {
        if self.acked.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        let mut rest = &self.acked[..];
        let bitmap = RoaringBitmap::deserialize_from(&mut rest).map_err(|e| format!("the ack bitmap: {e}"))?;
        match bitmap.max() {
            _ if !rest.is_empty() => Err(format!("{} bytes after the ack bitmap", rest.len())),
            Some(max) if max > u32::from(u16::MAX) => Err(format!("the ack bitmap holds {max}, past the page")),
            _ => Ok(bitmap),
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
    page: u64,
    #[prost(uint32, tag = "4")]
    chunk: u32,
    #[prost(uint64, tag = "5")]
    version: u64,
    #[prost(bytes = "bytes", tag = "6")]
    acked: Bytes,
    #[prost(message, repeated, tag = "7")]
    batches: Vec<WireBatch>,
}

#[derive(Clone, PartialEq, Message)]
struct WireBatch {
    #[prost(uint32, tag = "1")]
    low: u32,
    #[prost(sfixed64, repeated, tag = "2")]
    words: Vec<i64>,
}

impl Record for CursorPage {
    const TYPE: RecordType = RecordType::CursorPage;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 64 * 1024;

    fn key(&self) -> Result<Key> {
        Key::cursor_page(self.stream, &self.name, self.page, self.chunk, self.version)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let bitmap = self.bitmap()?;
        if let Some(low) = bitmap.min().filter(|low| *low < u32::from(self.chunk)) {
            return Err(format!(
                "the ack bitmap holds {low}, below the part that starts at {}",
                self.chunk
            ));
        }
        for (low, words) in &self.batches {
            if *low < self.chunk {
                return Err(format!("batch {low} lies below the part that starts at {}", self.chunk));
            }
            if words.is_empty() || words.len() > MAX_BATCH_WORDS {
                return Err(format!(
                    "batch {low} has {} words; 1 to {MAX_BATCH_WORDS} are allowed",
                    words.len()
                ));
            }
        }
        Ok(())
    }

    fn to_body(&self) -> Vec<u8> {
        Body {
            stream: self.stream.to_bytes().to_vec(),
            name: self.name.clone(),
            page: self.page,
            chunk: u32::from(self.chunk),
            version: self.version,
            acked: self.acked.clone(),
            batches: self
                .batches
                .iter()
                .map(|(l, w)| WireBatch {
                    low: u32::from(*l),
                    words: w.clone(),
                })
                .collect(),
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        let low16 =
            |value: u32, what: &str| u16::try_from(value).map_err(|_| format!("{what} {value} is past the page"));
        let mut batches = BTreeMap::new();
        let mut before = None;
        for batch in body.batches {
            let low = low16(batch.low, "batch")?;
            if before.is_some_and(|before| before >= low) {
                return Err(format!("batch {low} is there twice or out of order"));
            }
            before = Some(low);
            batches.insert(low, batch.words);
        }
        Ok(CursorPage {
            stream: wire::stream(&body.stream)?,
            name: body.name,
            page: body.page,
            chunk: low16(body.chunk, "the part")?,
            version: body.version,
            acked: body.acked,
            batches,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{names, record_suite, streams};
    use super::*;

    fn bitmap(lows: impl IntoIterator<Item = u32>) -> Bytes {
        let mut bytes = Vec::new();
        lows.into_iter()
            .collect::<RoaringBitmap>()
            .serialize_into(&mut bytes)
            .unwrap();
        bytes.into()
    }

    fn pages() -> impl Strategy<Value = CursorPage> {
        let batches = prop::collection::btree_map(any::<u16>(), prop::collection::vec(any::<i64>(), 1..4), 0..20);
        let acked = prop_oneof![
            Just(Bytes::new()),
            prop::collection::btree_set(0..=u32::from(u16::MAX), 1..200).prop_map(bitmap),
            (0u32..9, 100u32..60_000).prop_map(|(from, to)| bitmap(from..to)),
        ];
        (streams(), names(), any::<u64>(), any::<u64>(), acked, batches).prop_map(
            |(stream, name, page, version, acked, batches)| CursorPage {
                stream,
                name,
                page,
                chunk: 0,
                version,
                acked,
                batches,
            },
        )
    }

    record_suite!(CursorPage, pages());

    fn page() -> CursorPage {
        CursorPage {
            stream: StreamId::new(1),
            name: "c".into(),
            page: 0,
            chunk: 0,
            version: 1,
            acked: Bytes::new(),
            batches: BTreeMap::new(),
        }
    }

    #[test]
    fn the_worst_bitmap_of_a_page_leaves_room_for_batches() {
        let full = CursorPage {
            acked: bitmap((0..=65_535).step_by(2)),
            ..page()
        };
        assert!(full.encode().unwrap().len() < 10 * 1024);
        assert_eq!(full.bitmap().unwrap().len(), 32_768);
    }

    #[test]
    fn acks_outside_the_part_are_refused() {
        let refused = [
            CursorPage {
                acked: bitmap([65_536]),
                ..page()
            },
            CursorPage {
                acked: bitmap([5]),
                chunk: 6,
                ..page()
            },
            CursorPage {
                batches: BTreeMap::from([(5, vec![1])]),
                chunk: 6,
                ..page()
            },
            CursorPage {
                batches: BTreeMap::from([(5, vec![])]),
                ..page()
            },
            CursorPage {
                acked: Bytes::from_static(b"no bitmap"),
                ..page()
            },
            CursorPage {
                acked: [bitmap([5]), Bytes::from_static(b"x")].concat().into(),
                ..page()
            },
        ];
        for page in refused {
            assert!(page.encode().is_err(), "{page:?}");
        }
    }

    #[test]
    fn a_page_above_64_kib_is_refused() {
        let batches = (0..3000).map(|low| (low, vec![-1; 4])).collect();
        assert!(CursorPage { batches, ..page() }.encode().is_err());
    }
}
