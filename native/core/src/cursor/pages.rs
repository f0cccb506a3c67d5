//! Ack pages as records: checked, cut into parts that fit, put together again. Pure.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use roaring::RoaringBitmap;

use super::types::{AckPage, CursorUpdate};
use crate::error::{Error, Result};
use crate::record::cursor_page::MAX_BATCH_WORDS;
use crate::record::CursorPage;
use crate::types::{Offset, StreamId};

/// Bytes of batch bitmaps per part. With a bitmap of at most 8 KiB and a name of at most 4 KiB a part stays below 64 KiB.
const PART_BYTES: usize = 40 * 1024;
/// Largest bitmap taken as it is; a larger one is written anew in its shortest form.
const PLAIN_BYTES: usize = 8 * 1024 + 64;
/// Longest form of a bitmap over 65,536 values that is looked at.
const MAX_ACKED_BYTES: usize = 256 * 1024;
/// Properties of one cursor together.
const MAX_PROPERTY_BYTES: usize = 1 << 20;

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
        .map(|(name, _)| name.len() + 8);
    let texts = update
        .cursor_properties
        .iter()
        .flatten()
        .map(|(name, value)| name.len() + value.len());
    let properties: usize = position.chain(texts).sum();
    if properties > MAX_PROPERTY_BYTES {
        return invalid(format!(
            "properties of {properties} bytes; at most {MAX_PROPERTY_BYTES} are allowed"
        ));
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
    chunk: u16,
    acked: Bytes,
    batches: BTreeMap<u16, Vec<i64>>,
}

impl Part {
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

/// Cuts a checked page into parts that fit their records, by offsets.
pub(super) fn cut(page: &AckPage) -> Result<Vec<Part>> {
    let mut groups: Vec<(u16, BTreeMap<u16, Vec<i64>>)> = vec![(0, BTreeMap::new())];
    let mut bytes = 0;
    for (low, words) in &page.batches {
        let cost = words.len() * 8 + 16;
        if bytes + cost > PART_BYTES && bytes > 0 {
            groups.push((*low, BTreeMap::new()));
            bytes = 0;
        }
        bytes += cost;
        if let Some((_, batches)) = groups.last_mut() {
            batches.insert(*low, words.clone());
        }
    }
    if groups.len() == 1 && page.acked.len() <= PLAIN_BYTES {
        let batches = groups.pop().map(|(_, batches)| batches).unwrap_or_default();
        return Ok(vec![Part {
            chunk: 0,
            acked: page.acked.clone(),
            batches,
        }]);
    }
    let all = bitmap(page).map_err(|what| Error::Invalid { what })?;
    let ends: Vec<u32> = groups
        .iter()
        .skip(1)
        .map(|(chunk, _)| u32::from(*chunk))
        .chain([1 << 16])
        .collect();
    groups
        .into_iter()
        .zip(ends)
        .map(|((chunk, batches), end)| {
            let mut part = all.clone();
            part.remove_range(..u32::from(chunk));
            part.remove_range(end..);
            Ok(Part {
                chunk,
                acked: portable(part)?,
                batches,
            })
        })
        .collect()
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
