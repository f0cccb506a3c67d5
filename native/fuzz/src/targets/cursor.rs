//! Ack pages as the facade hands them over: checked, cut into records, stored, loaded again. Input: number of batches (1 byte); for
//! each: low half of the offset (2), words (1), the words (8 each); then the portable bitmap.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use nereus_core::commit::{HeadCell, StreamHead};
use nereus_core::cursor::{read_all, AckPage, CursorUpdate, Cursors};
use nereus_core::env::sim::{self, Executor, SimDisk};
use nereus_core::metadata::memory::MemoryStore;
use nereus_core::types::{Incarnation, Offset, OwnerEpoch, StreamId};
use roaring::RoaringBitmap;

use super::{demand, nothing, Target};
use crate::mutate;
use crate::random::Random;

pub const TARGET: Target = Target {
    name: "cursor",
    weight: 500,
    valid,
    twist: mutate::bytes,
    mend: nothing,
    check,
    factor: 256,
    constant: 8 << 20,
};

const STREAM: StreamId = StreamId::new(7);
const EPOCH: OwnerEpoch = OwnerEpoch::new(1);

fn valid(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let batches: BTreeMap<u16, Vec<i64>> = (0..random.below(5))
        .map(|_| {
            let words = (0..=random.below(20)).map(|_| random.draw() as i64).collect();
            (random.draw() as u16, words)
        })
        .collect();
    out.push(batches.len() as u8);
    for (low, words) in batches {
        out.extend(low.to_be_bytes());
        out.push(words.len() as u8);
        words.iter().for_each(|word| out.extend(word.to_be_bytes()));
    }
    let mut bitmap = RoaringBitmap::new();
    for _ in 0..random.below(6) {
        let from = random.below(65_536) as u32;
        let to = from.saturating_add(random.below(9000) as u32).min(65_535);
        match random.chance(50) {
            true => drop(bitmap.insert_range(from..=to)),
            false => bitmap.extend((from..=to).step_by(3)),
        }
    }
    if random.chance(50) {
        bitmap.optimize();
    }
    // Writing to memory cannot fail.
    let _ = bitmap.serialize_into(&mut out);
    out
}

fn page(input: &[u8]) -> Option<AckPage> {
    let (count, mut rest) = input.split_first()?;
    let mut batches = BTreeMap::new();
    for _ in 0..*count {
        let (head, more) = rest.split_first_chunk::<3>()?;
        let (words, more) = more.split_at_checked(usize::from(head[2]) * 8)?;
        let words = words
            .chunks_exact(8)
            .filter_map(|word| word.try_into().ok())
            .map(i64::from_be_bytes);
        batches.insert(u16::from_be_bytes([head[0], head[1]]), words.collect());
        rest = more;
    }
    Some(AckPage {
        page_no: 0,
        acked: Bytes::copy_from_slice(rest),
        batches,
    })
}

fn bits(acked: &[u8]) -> Result<RoaringBitmap, String> {
    match acked.is_empty() {
        true => Ok(RoaringBitmap::new()),
        false => RoaringBitmap::deserialize_from(acked).map_err(|e| format!("a stored bitmap cannot be read: {e}")),
    }
}

fn check(input: &[u8]) -> Result<bool, String> {
    let Some(page) = page(input) else { return Ok(false) };
    let mut executor = Executor::new(1);
    let env = sim::env(&executor, Arc::new(SimDisk::new(1)), 1);
    let store = Arc::new(MemoryStore::new());
    let mut head = StreamHead::new(STREAM, Incarnation::new(1), 0);
    head.owner_epoch = EPOCH;
    head.end = Offset::new(1 << 20);
    let cell = Arc::new(HeadCell::new(head));
    let claim = Cursors::claim(Arc::new(env), store.clone(), cell, STREAM, EPOCH);
    let (cursors, _) = executor.run(claim).map_err(|e| format!("an empty store: {e}"))?;
    let update = CursorUpdate {
        name: "c".into(),
        create: true,
        full: true,
        mark_delete_end: Offset::ZERO,
        position_properties: None,
        cursor_properties: None,
        pages: vec![page.clone()],
    };
    if executor.run(cursors.persist(update)).is_err() {
        return Ok(false);
    }
    let states = executor.run(read_all(&*store, STREAM));
    let states = states.map_err(|e| format!("a cursor was persisted and cannot be loaded: {e}"))?;
    let loaded = states.first().ok_or("a cursor was persisted and is not there")?;
    let given = bits(&page.acked)?;
    // A bitmap without a bit may be kept as a page or not: it says the same.
    let none = AckPage::default();
    let there = loaded.pages.first().unwrap_or(&none);
    demand(bits(&there.acked)? == given, || {
        "other acks were loaded than persisted".into()
    })?;
    demand(there.batches == page.batches, || {
        "other batches were loaded than persisted".into()
    })?;
    Ok(true)
}
