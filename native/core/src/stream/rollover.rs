//! Where Pulsar's rollover settings would have closed a ledger, and which parts retention lets go: pure rules, and the search for
//! the next such place in commit metadata.
//!
//! Promises: the rules are those of Pulsar's own ledger: a part is closed by the entry that fills it, or by the first one after its
//! longest time, and never before its shortest time has passed. A part ends where a commit ends, so that its bytes are exact.
//! Cost: a search looks at a few commit pages per part, however long the part is (`spans` says when it takes more).

use super::locate::Commits;
use crate::commit::StreamHead;
use crate::error::Result;
use crate::record::{TrimMark, TrimReason};
use crate::types::Offset;

/// When a ledger would be closed. 0 = no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rollover {
    /// Closed by the entry that makes so many.
    pub max_entries: u64,
    /// Closed by the entry that makes so many bytes.
    pub max_bytes: u64,
    /// Not closed before it is older than this, milliseconds since its first append.
    pub min_millis: u64,
    /// Closed once it is so old, milliseconds since its first append.
    pub max_millis: u64,
    /// Closed once nothing was appended for longer than this, milliseconds.
    pub idle_millis: u64,
}

/// What is kept although it is consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Every offset below is consumed by every cursor: nothing from here on is let go.
    pub consumed: Offset,
    /// A part goes when its last append is older than this, milliseconds; `None` = never for its age.
    pub max_age_millis: Option<u64>,
    /// A part goes when the stream has so many bytes without it; `None` = never for the size.
    pub max_bytes: Option<u64>,
    /// Broker clock now, milliseconds.
    pub now_millis: u64,
}

/// The part that no mark ends yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub start: Offset,
    /// Bytes of all entries before it.
    pub bytes_below: u64,
    /// Its first append; `None` = not looked up, or there is none.
    pub first_millis: Option<u64>,
}

/// The next commit at or past one of these needs a closer look. `u64::MAX` = none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trips {
    pub offset: u64,
    pub total_bytes: u64,
    pub millis: u64,
}

impl Rollover {
    /// Nothing ever closes.
    pub fn is_unlimited(&self) -> bool {
        (self.max_entries, self.max_bytes, self.max_millis, self.idle_millis) == (0, 0, 0, 0)
    }

    fn is_full(&self, entries: u64, bytes: u64) -> bool {
        (self.max_entries > 0 && entries >= self.max_entries) || (self.max_bytes > 0 && bytes >= self.max_bytes)
    }

    /// The first time at which a part may be closed.
    fn earliest(&self, first_millis: u64) -> u64 {
        match self.min_millis {
            0 => 0,
            min => first_millis.saturating_add(min).saturating_add(1),
        }
    }

    /// The time from which a part is closed however small it is.
    fn latest(&self, first_millis: u64) -> Option<u64> {
        (self.max_millis > 0).then(|| {
            let old = first_millis.saturating_add(self.max_millis);
            old.max(self.earliest(first_millis))
        })
    }
}

impl Retention {
    /// Nothing is ever let go.
    pub fn keeps_everything(&self) -> bool {
        self.max_age_millis.is_none() && self.max_bytes.is_none()
    }

    /// Whether the part that `mark` ends goes, in a stream of `total_bytes` ever appended.
    pub(super) fn lets_go(&self, mark: &TrimMark, total_bytes: u64) -> bool {
        if mark.offset > self.consumed {
            return false;
        }
        let age = self.now_millis.saturating_sub(mark.last_append_millis);
        let left = total_bytes.saturating_sub(mark.bytes_below);
        self.max_age_millis.is_some_and(|most| age > most) || self.max_bytes.is_some_and(|most| left >= most)
    }
}

impl Part {
    pub fn after(mark: &TrimMark) -> Part {
        Part {
            start: mark.offset,
            bytes_below: mark.bytes_below,
            first_millis: None,
        }
    }
}

impl Trips {
    pub const NEVER: Trips = Trips {
        offset: u64::MAX,
        total_bytes: u64::MAX,
        millis: u64::MAX,
    };
    pub const NEXT_COMMIT: Trips = Trips {
        offset: 0,
        ..Trips::NEVER
    };

    /// What to watch for after `end`, where the stream has `total_bytes`.
    pub fn of(rollover: &Rollover, part: &Part, end: Offset, total_bytes: u64) -> Trips {
        if rollover.is_unlimited() {
            return Trips::NEVER;
        }
        let Some(first) = part.first_millis else {
            return Trips::NEXT_COMMIT;
        };
        let latest = rollover.latest(first).unwrap_or(u64::MAX);
        let entries = end.get().saturating_sub(part.start.get());
        if rollover.is_full(entries, total_bytes.saturating_sub(part.bytes_below)) {
            return Trips {
                millis: rollover.earliest(first).min(latest),
                ..Trips::NEVER
            };
        }
        let bound = |limit: u64, below: u64| match limit {
            0 => u64::MAX,
            limit => below.saturating_add(limit),
        };
        Trips {
            offset: bound(rollover.max_entries, part.start.get()).saturating_sub(1),
            total_bytes: bound(rollover.max_bytes, part.bytes_below),
            millis: latest,
        }
    }

    /// Whether a commit that ends with `offset` and `total_bytes` at `millis` needs a closer look.
    pub fn hit(&self, offset: Offset, total_bytes: u64, millis: u64) -> bool {
        offset.get() >= self.offset || total_bytes >= self.total_bytes || millis >= self.millis
    }
}

impl Commits {
    /// Where `part` is closed; `None` = it is still open. With `now` also a part that only time closes, or that could have been
    /// closed since its last append. Fills in the first append of the part.
    pub async fn next_cut(&self, part: &mut Part, rollover: &Rollover, now: Option<u64>) -> Result<Option<TrimMark>> {
        let (end, last_millis) = self.head(|head| (head.end, head.last_append_millis))?;
        if part.start >= end || rollover.is_unlimited() {
            return Ok(None);
        }
        let first_millis = match part.first_millis {
            Some(known) => known,
            None => self.locate(part.start).await?.commit.append_millis,
        };
        part.first_millis = Some(first_millis);
        let (earliest, latest) = (rollover.earliest(first_millis), rollover.latest(first_millis));
        let full = self.filled(part, rollover).await?;
        let by_space = match full {
            Some((offset, reason)) => self.first_since(offset, earliest).await?.map(|offset| (offset, reason)),
            None => None,
        };
        let by_time = match latest {
            Some(latest) => self.first_since(part.start, latest).await?,
            None => None,
        };
        let by_time = by_time.map(|offset| (offset, TrimReason::Time));
        let by_now = now.filter(|now| *now >= earliest).and_then(|now| {
            let idle = rollover.idle_millis > 0 && now > last_millis.saturating_add(rollover.idle_millis);
            let old = latest.is_some_and(|latest| now >= latest) || idle;
            let reason = full.map(|(_, reason)| reason).or(old.then_some(TrimReason::Time));
            reason.map(|reason| (Offset::new(end.get() - 1), reason))
        });
        let cuts = [by_space, by_time, by_now].into_iter().flatten();
        let Some((offset, reason)) = cuts.min_by_key(|(offset, _)| *offset) else {
            return Ok(None);
        };
        let at = self.locate(offset).await?;
        Ok(Some(TrimMark {
            stream: self.stream,
            offset: at.commit.end().unwrap_or(Offset::MAX),
            bytes_below: at.bytes_to_end(),
            first_append_millis: first_millis,
            last_append_millis: at.commit.append_millis,
            reason,
        }))
    }

    /// An offset of the commit that fills the part; `None` = it is not full.
    async fn filled(&self, part: &Part, rollover: &Rollover) -> Result<Option<(Offset, TrimReason)>> {
        let (end, total_bytes) = self.head(|head| (head.end, head.total_bytes))?;
        let by_entries = (rollover.max_entries > 0)
            .then(|| part.start.get().saturating_add(rollover.max_entries - 1))
            .filter(|last| *last < end.get());
        let by_entries = by_entries.map(|last| (Offset::new(last), TrimReason::Entries));
        let target = part.bytes_below.saturating_add(rollover.max_bytes);
        let by_size = match rollover.max_bytes > 0 && total_bytes >= target {
            true => Some((self.reaches(part.start, target).await?, TrimReason::Size)),
            false => None,
        };
        Ok([by_entries, by_size]
            .into_iter()
            .flatten()
            .min_by_key(|(offset, _)| *offset))
    }

    /// An offset, from `from` on, of the commit with which the stream reaches `total_bytes`, which it has.
    async fn reaches(&self, from: Offset, total_bytes: u64) -> Result<Offset> {
        let (in_ring, ring_start) = self.head(|head| (reached_in_ring(head, total_bytes), ring_start(head)))?;
        if let Some(start) = in_ring {
            return Ok(start.max(from));
        }
        let (mut low, mut high) = (from, ring_start);
        while low < high {
            let middle = Offset::new(low.get() + (high.get() - low.get()) / 2);
            let found = self.locate(middle).await?;
            match found.bytes_to_end() >= total_bytes {
                true => high = found.commit.start.max(low),
                false => low = found.commit.end().unwrap_or(Offset::MAX).min(ring_start),
            }
        }
        Ok(low)
    }
}

fn ring_start(head: &StreamHead) -> Offset {
    head.ring.front().map_or(head.end, |first| first.start)
}

fn reached_in_ring(head: &StreamHead, total_bytes: u64) -> Option<Offset> {
    let mut bytes = head.bytes_before_ring();
    if bytes >= total_bytes {
        return None;
    }
    head.ring.iter().find_map(|commit| {
        bytes = bytes.saturating_add(commit.bytes);
        (bytes >= total_bytes).then_some(commit.start)
    })
}
