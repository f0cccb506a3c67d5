//! Ack pages as records: checked, cut into parts that fit, put together again. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use roaring::RoaringBitmap;

use super::types::{AckPage, CursorUpdate};
use crate::error::{Error, Result};
use crate::record::cursor_page::MAX_BATCH_WORDS;
use crate::record::CursorPage;
use crate::types::{Offset, StreamId};

/// Bytes of batch bitmaps per part, but for a single larger one: what a change of one batch has to write again. With a bitmap of
/// at most 8 KiB and a name of at most 4 KiB a part stays far below 64 KiB.
const PART_BYTES: usize = 16 * 1024;
/// Largest bitmap taken as it is; a larger one is written anew in its shortest form.
const PLAIN_BYTES: usize = 8 * 1024 + 64;
/// Longest form of a bitmap over 65,536 values that is looked at.
const MAX_ACKED_BYTES: usize = 256 * 1024;
/// Position properties, and again cursor properties: whatever they are, the root has room for as many names as it may hold.
const MAX_PROPERTY_BYTES: usize = 192 << 10;
/// At least what a record adds to name and value of a property.
const PROPERTY_BYTES: usize = 16;

/// Whether an update can be stored, before anything is: bad input is the caller's, and must not fail the updates beside it.
pub(super) fn check(update: &CursorUpdate) -> Result<()> {
    let invalid = |what: String| {
        Err(Error::Invalid {
            what: format!("cursor {}: {what}", update.name),
        })
    };
    let position = update
        .position_properties
        .iter()
        .flatten()
        .map(|(name, _)| name.len() + PROPERTY_BYTES + 8);
    let texts = update.cursor_properties.iter().flatten();
    let texts = texts.map(|(name, value)| name.len() + value.len() + PROPERTY_BYTES);
    for (bytes, what) in [(position.sum::<usize>(), "position"), (texts.sum(), "cursor")] {
        if bytes > MAX_PROPERTY_BYTES {
            return invalid(format!(
                "{what} properties of {bytes} bytes; at most {MAX_PROPERTY_BYTES} are allowed"
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for page in &update.pages {
        if page.page_no > Offset::MAX.get() >> 16 || !seen.insert(page.page_no) {
            return invalid(format!(
                "page {} is listed twice or past the range of offsets",
                page.page_no
            ));
        }
        if let Err(why) = bitmap(page) {
            return invalid(format!("page {}: {why}", page.page_no));
        }
        if let Some((low, words)) = page
            .batches
            .iter()
            .find(|(_, w)| w.is_empty() || w.len() > MAX_BATCH_WORDS)
        {
            return invalid(format!(
                "page {}: batch {low} has {} words; 1 to {MAX_BATCH_WORDS} are allowed",
                page.page_no,
                words.len()
            ));
        }
    }
    Ok(())
}

fn bitmap(page: &AckPage) -> std::result::Result<RoaringBitmap, String> {
    if page.acked.is_empty() {
        return Ok(RoaringBitmap::new());
    }
    if page.acked.len() > MAX_ACKED_BYTES {
        return Err(format!(
            "an ack bitmap of {} bytes; at most {MAX_ACKED_BYTES} are allowed",
            page.acked.len()
        ));
    }
    let mut rest = &page.acked[..];
    let bitmap = RoaringBitmap::deserialize_from(&mut rest).map_err(|e| format!("the ack bitmap: {e}"))?;
    if !rest.is_empty() {
        return Err(format!("{} bytes behind the ack bitmap", rest.len()));
    }
    match bitmap.max() {
        Some(max) if max > u32::from(u16::MAX) => Err(format!("the ack bitmap holds {max}, past the page")),
        _ => Ok(bitmap),
    }
}

/// One part of a page: what lies between its first offset and the next part's.
pub(super) struct Part {
    pub chunk: u16,
    acked: Bytes,
    batches: BTreeMap<u16, Vec<i64>>,
}

impl Part {
    /// Tells contents apart within one process.
    pub fn digest(&self) -> u64 {
        digest(&self.acked, &self.batches)
    }

    pub fn record(self, stream: StreamId, name: &str, page: u64, version: u64) -> CursorPage {
        let Part { chunk, acked, batches } = self;
        CursorPage {
            stream,
            name: name.to_owned(),
            page,
            chunk,
            version,
            acked,
            batches,
        }
    }
}

/// Tells contents of parts apart within one process; never stored, because the function may change with the compiler.
pub(super) fn digest(acked: &Bytes, batches: &BTreeMap<u16, Vec<i64>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (acked, batches).hash(&mut hasher);
    hasher.finish()
}

/// Cuts a checked page into parts that fit their records, by offsets, and where the page was cut before (`chunks`, ascending) if
/// that still does: parts in which nothing changed come out as they were.
pub(super) fn cut(page: &AckPage, chunks: &[u16]) -> Result<Vec<Part>> {
    let groups = groups(page, chunks);
    if groups.len() == 1 && page.acked.len() <= PLAIN_BYTES {
        return Ok(vec![Part {
            chunk: 0,
            acked: page.acked.clone(),
            batches: page.batches.clone(),
        }]);
    }
    let all = bitmap(page).map_err(|what| Error::Invalid { what })?;
    let ends: Vec<u32> = groups.iter().skip(1).map(|(chunk, _)| u32::from(*chunk)).collect();
    groups
        .into_iter()
        .zip(ends.into_iter().chain([1 << 16]))
        .map(|((chunk, batches), end)| {
            let mut part = all.clone();
            part.remove_range(..u32::from(chunk));
            part.remove_range(end..);
            Ok(Part {
                chunk,
                acked: portable(part)?,
                batches: batches.into_iter().map(|(low, words)| (*low, words.clone())).collect(),
            })
        })
        .collect()
}

type Batches<'a> = Vec<(&'a u16, &'a Vec<i64>)>;

/// The batches of each part, with the low bits of the offset at which the part starts; the first one starts at 0.
fn groups<'a>(page: &'a AckPage, chunks: &[u16]) -> Vec<(u16, Batches<'a>)> {
    let mut starts = chunks.to_vec();
    starts.insert(0, 0);
    starts.dedup();
    let mut groups: Vec<(u16, Batches<'a>)> = Vec::new();
    let mut before = 0;
    for (index, start) in starts.iter().enumerate() {
        let batches: Batches<'a> = match starts.get(index + 1) {
            Some(end) => page.batches.range(start..end).collect(),
            None => page.batches.range(start..).collect(),
        };
        let bytes = cost(&batches);
        match groups.last_mut() {
            // Neighbours that became small are one part again.
            Some((_, last)) if before + bytes <= PART_BYTES / 2 => {
                last.extend(batches);
                before += bytes;
            }
            _ => {
                before = bytes;
                groups.push((*start, batches));
            }
        }
    }
    groups
        .into_iter()
        .flat_map(|(start, batches)| pieces(start, batches))
        .collect()
}

/// One part, or even pieces of it when it is too large.
fn pieces(start: u16, batches: Batches<'_>) -> Vec<(u16, Batches<'_>)> {
    let total = cost(&batches);
    let size = total.div_ceil(total.div_ceil(PART_BYTES).max(1));
    let mut pieces = vec![(start, Batches::new())];
    let mut bytes = 0;
    for (low, words) in batches {
        let one = cost(&[(low, words)]);
        if bytes + one > size && bytes > 0 {
            pieces.push((*low, Batches::new()));
            bytes = 0;
        }
        bytes += one;
        if let Some((_, piece)) = pieces.last_mut() {
            piece.push((low, words));
        }
    }
    pieces
}

/// At least the bytes that batches take in a record.
fn cost(batches: &[(&u16, &Vec<i64>)]) -> usize {
    batches.iter().map(|(_, words)| words.len() * 8 + 16).sum()
}

/// Puts the parts of one page together, in order.
pub(super) fn join(page_no: u64, mut parts: Vec<CursorPage>) -> Result<AckPage> {
    if parts.len() == 1 {
        let part = parts.remove(0);
        return Ok(AckPage {
            page_no,
            acked: part.acked,
            batches: part.batches,
        });
    }
    let mut all = RoaringBitmap::new();
    let mut batches = BTreeMap::new();
    for part in parts {
        all |= part.bitmap().map_err(|what| Error::Internal { what })?;
        batches.extend(part.batches);
    }
    Ok(AckPage {
        page_no,
        acked: portable(all)?,
        batches,
    })
}

/// Shortest portable form; no bytes for nothing.
fn portable(mut bitmap: RoaringBitmap) -> Result<Bytes> {
    if bitmap.is_empty() {
        return Ok(Bytes::new());
    }
    bitmap.optimize();
    let mut out = Vec::with_capacity(bitmap.serialized_size());
    bitmap.serialize_into(&mut out).map_err(|e| Error::Internal {
        what: format!("serialising an ack bitmap: {e}"),
    })?;
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(parts: &[Part]) -> BTreeMap<u16, u64> {
        parts.iter().map(|part| (part.chunk, part.digest())).collect()
    }

    fn chunks(parts: &[Part]) -> Vec<u16> {
        parts.iter().map(|part| part.chunk).collect()
    }

    #[test]
    fn l15_a_change_of_one_batch_changes_one_part_or_cuts_it_in_two() {
        let mut page = AckPage {
            page_no: 1,
            acked: Bytes::new(),
            batches: (0..50_000).map(|low| (low, vec![-1, 1])).collect(),
        };
        let mut before = cut(&page, &[]).unwrap();
        assert!(before.len() > 80, "{} parts", before.len());
        for low in [1, 30_000, 49_999, 50_000, 65_535] {
            page.batches.insert(low, vec![7; 4]);
            let after = cut(&page, &chunks(&before)).unwrap();
            let (old, new) = (digests(&before), digests(&after));
            let changed = new
                .iter()
                .filter(|(chunk, digest)| old.get(chunk) != Some(digest))
                .count();
            assert!((1..=2).contains(&changed), "{changed} parts changed with batch {low}");
            assert!(old.keys().all(|chunk| new.contains_key(chunk)), "no part moves");
            before = after;
        }
    }

    #[test]
    fn parts_that_became_small_are_one_again() {
        let mut page = AckPage {
            page_no: 1,
            acked: Bytes::new(),
            batches: (0..50_000).map(|low| (low, vec![-1, 1])).collect(),
        };
        let many = cut(&page, &[]).unwrap();
        page.batches.retain(|low, _| *low % 500 == 0);
        assert_eq!(cut(&page, &chunks(&many)).unwrap().len(), 1);
        page.batches.clear();
        page.acked = portable((0..10).collect()).unwrap();
        assert_eq!(chunks(&cut(&page, &chunks(&many)).unwrap()), [0]);
    }

    #[test]
    fn parts_never_exceed_their_record_whatever_the_batches() {
        let acked = portable((0..=65_535).filter(|low| low % 2 == 1).collect()).unwrap();
        let batches = (0..2000u16).map(|n| (n * 32, vec![i64::MIN; if n % 3 == 0 { MAX_BATCH_WORDS } else { 1 }]));
        let page = AckPage {
            page_no: 1,
            acked,
            batches: batches.collect(),
        };
        let parts = cut(&page, &[5, 6, 7, 40_000]).unwrap();
        let records: Vec<CursorPage> = parts
            .into_iter()
            .map(|part| part.record(StreamId::new(1), "c", 1, 9))
            .collect();
        let largest = records
            .iter()
            .map(|record| crate::record::Record::encode(record).unwrap().len())
            .max()
            .unwrap();
        assert!(largest < 32 * 1024, "{largest} bytes");
        let joined = join(1, records).unwrap();
        assert_eq!(joined.batches, page.batches);
        assert_eq!(bitmap(&joined).unwrap(), bitmap(&page).unwrap());
    }
}
