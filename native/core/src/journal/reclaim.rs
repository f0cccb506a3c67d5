//! Which segments are dead, and who keeps those that are not.
//!
//! Promises: a segment is taken away only when the checkpoint is past it, every range in it is trimmed or its stream deleted, nobody
//! reads it, and no damage that may be wanted for a rescue lies in it or before it (L16). Whoever keeps the oldest segment is known
//! by name, also when nobody has the ledger open.
//! Does not: decide when to look (`checkpoint`).

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::removal::Removal;
use super::segment::{Retired, Segments};
use super::state::StateTable;
use super::stats::Counters;
use crate::error::{Error, Result};
use crate::mutant::{active, Mutant};
use crate::record::{Key, Record, StreamProperties};
use crate::types::{Offset, StreamId};

/// Who keeps a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A stream that has entries in it, and its ledger's name where that is recorded.
    Stream {
        /// The stream.
        stream: StreamId,
        /// Pulsar's name of its ledger.
        ledger: Option<String>,
    },
    /// Somebody reads it right now.
    Reader,
    /// Damage in it or in one before, kept for a rescue.
    Damage,
    /// No checkpoint is past it, or it goes with the next one.
    Checkpoint,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Holder::Stream {
                stream,
                ledger: Some(ledger),
            } => write!(f, "ledger {ledger} (stream {stream})"),
            Holder::Stream { stream, ledger: None } => write!(f, "stream {stream}"),
            Holder::Reader => f.write_str("a reader"),
            Holder::Damage => f.write_str("damage that was found in the journal"),
            Holder::Checkpoint => f.write_str("the next checkpoint"),
        }
    }
}

/// The oldest segment, and who keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oldest {
    /// Its sequence number.
    pub segment: u64,
    /// Who keeps it.
    pub holder: Holder,
}

/// Takes dead segments away.
pub struct Reclaim {
    segments: Arc<Segments>,
    state: Arc<StateTable>,
    removal: Arc<Removal>,
    /// Free bytes below which dead files go back to the file system instead of waiting for re-use.
    reserve: u64,
    /// Who needed a segment when it was last looked at: asked first, so that a look costs little.
    pins: Mutex<BTreeMap<u64, (StreamId, Offset)>>,
    /// As of the last look.
    oldest: Mutex<Option<Oldest>>,
}

impl Reclaim {
    /// For the segments of one journal; `reserve` in bytes.
    pub fn new(segments: Arc<Segments>, state: Arc<StateTable>, removal: Arc<Removal>, reserve: u64) -> Reclaim {
        Reclaim {
            segments,
            state,
            removal,
            reserve,
            pins: Mutex::default(),
            oldest: Mutex::new(None),
        }
    }

    /// Takes away what is dead. Blocking; one call at a time.
    pub fn run(&self, counters: &Counters) {
        if let Err(reason) = self.remove_dead(counters) {
            tracing::warn!(%reason, "dead journal segments stay for now");
        }
    }

    /// Who keeps the oldest segment as of the last look, as the beginning of a sentence that says what to do. While space is short
    /// there is a look every second. Never blocks for long.
    pub fn kept_by(&self) -> String {
        let oldest = self.oldest.lock().clone();
        oldest.map_or_else(String::new, |oldest| {
            format!(
                "the oldest segment, {:016x}, is kept by {}: ",
                oldest.segment, oldest.holder
            )
        })
    }

    /// The oldest segment as of now, or as of the last look when the disk does not answer; `None` when there is none. Blocking.
    pub fn oldest(&self) -> Option<Oldest> {
        let seen = self.segments.list().and_then(|segments| {
            let Some(segment) = segments.first().copied() else {
                return Ok(None);
            };
            let holder = self.holder(segment, &mut self.pins.lock())?;
            let holder = holder.unwrap_or(Holder::Checkpoint);
            Ok(Some(Oldest { segment, holder }))
        });
        let mut oldest = self.oldest.lock();
        if let Ok(seen) = seen {
            *oldest = seen;
        }
        oldest.clone()
    }

    fn remove_dead(&self, counters: &Counters) -> Result<()> {
        let before = match active(Mutant::RemoveBeforeFlush) {
            true => self.state.position().segment,
            false => self.state.checkpoint_position().segment,
        };
        let keep = self.segments.free_bytes().unwrap_or(0) >= self.reserve;
        if !keep {
            self.segments.give_back()?;
        }
        let mut pins = self.pins.lock();
        let mut oldest = None;
        for sequence in self.segments.list()?.into_iter().filter(|sequence| *sequence < before) {
            let mut holder = self.holder(sequence, &mut pins)?;
            if holder.is_none() {
                holder = self.take_away(sequence, keep, counters)?;
            }
            match holder {
                Some(holder) => drop(oldest.get_or_insert(Oldest {
                    segment: sequence,
                    holder,
                })),
                None => drop(pins.remove(&sequence)),
            }
        }
        let oldest = oldest.unwrap_or(Oldest {
            segment: before,
            holder: Holder::Checkpoint,
        });
        Counters::set(&counters.oldest_segment, oldest.segment);
        *self.oldest.lock() = Some(oldest);
        Ok(())
    }

    /// Whoever needs a segment; `None` for a dead one.
    fn holder(&self, sequence: u64, pins: &mut BTreeMap<u64, (StreamId, Offset)>) -> Result<Option<Holder>> {
        if active(Mutant::RemovePinnedSegment) {
            return Ok(None);
        }
        if sequence >= self.state.checkpoint_position().segment && !active(Mutant::RemoveBeforeFlush) {
            return Ok(Some(Holder::Checkpoint));
        }
        // What damage named may be wanted for a rescue, and tells about everything behind it.
        let damaged = self.state.damages().into_iter().map(|(_, damage)| damage.segment).min();
        if damaged.is_some_and(|damaged| sequence >= damaged) {
            return Ok(Some(Holder::Damage));
        }
        let known = pins
            .get(&sequence)
            .filter(|(stream, end)| self.state.needs(*stream, *end));
        if let Some((stream, _)) = known {
            return Ok(Some(self.named(*stream)));
        }
        let uses = self.state.uses(sequence)?;
        if let Some((stream, end)) = uses.into_iter().find(|(stream, end)| self.state.needs(*stream, *end)) {
            pins.insert(sequence, (stream, end));
            return Ok(Some(self.named(stream)));
        }
        Ok(self.segments.is_pinned(sequence).then_some(Holder::Reader))
    }

    fn take_away(&self, sequence: u64, keep: bool, counters: &Counters) -> Result<Option<Holder>> {
        let uses = self.state.uses(sequence)?;
        let retired = self.segments.retire(sequence, keep);
        match retired.map_err(|e| Error::io("remove", self.segments.path(sequence).display().to_string(), e))? {
            Retired::Pinned => return Ok(Some(Holder::Reader)),
            Retired::Kept => Counters::add(&counters.kept_segments, 1),
            Retired::Aside(file) => self.removal.take(file),
            Retired::Removed => {}
        }
        self.state.forget_uses(sequence, uses.into_keys());
        Counters::add(&counters.removed_segments, 1);
        Ok(None)
    }

    /// The name beside the stream. One that cannot be read leaves the stream's id: this serves people only.
    fn named(&self, stream: StreamId) -> Holder {
        let key = Key::stream_properties(stream);
        let record = self.state.get(&key).ok().flatten();
        let record = record.and_then(|found| StreamProperties::decode(&key, &found.value).ok());
        let ledger = record.map(|record| record.ledger).filter(|ledger| !ledger.is_empty());
        Holder::Stream { stream, ledger }
    }
}
