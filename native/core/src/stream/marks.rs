//! Trim marks of one open stream: cut as the settings say, durable before retention uses one.
//!
//! Owns: the account of the part that no mark ends yet, and what is known of the first mark.
//! Promises: an append pays three comparisons; a mark is cut by a step of its own, one small write per part. After a take-over or a
//! crash the marks go on from the last durable one; what should have been cut since is cut first. A cut that fails is made up at
//! the next retention pass. No timer: what only time closes is closed when retention looks.
//! Keeps: L5 (only the owner's handle cuts), L16 (retention moves from mark to mark, never past what is consumed).
//! Does not: move the trim offset (`control`), know cursors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;

use super::common::Trunk;
use super::rollover::{Part, Retention, Rollover, Trips};
use crate::env::Sequence;
use crate::error::{Error, Result};
use crate::metadata::settle::write_settled;
use crate::metadata::{Expected, Verdict, Versioned, Write};
use crate::record::{Key, Record, RecordType, TrimMark};
use crate::types::{Offset, OwnerEpoch};

/// Most marks that are written, or read, at once.
const BATCH: usize = 64;

/// The marks of a stream, for one owner epoch.
pub(super) struct Marks {
    trunk: Arc<Trunk>,
    epoch: OwnerEpoch,
    steps: Arc<Sequence>,
    /// Bytes of all entries committed, as the replies count them: one thread at a time, in offset order.
    total_bytes: AtomicU64,
    trip_offset: AtomicU64,
    trip_bytes: AtomicU64,
    trip_millis: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rollover: Rollover,
    /// `None` = the durable marks were not looked at yet.
    part: Option<Part>,
    /// The first mark above the trim offset; `None` = not known.
    front: Option<Front>,
    /// A step that cuts is on its way.
    cutting: bool,
}

#[derive(Clone)]
enum Front {
    NoMark,
    /// On the heap: most streams have none, and there may be many streams.
    Mark(Box<TrimMark>),
}

impl Marks {
    pub fn new(trunk: Arc<Trunk>, epoch: OwnerEpoch, steps: Arc<Sequence>) -> Arc<Marks> {
        let total = trunk.commits.cell.with(|head| head.map_or(0, |head| head.total_bytes));
        Arc::new(Marks {
            trunk,
            epoch,
            steps,
            total_bytes: AtomicU64::new(total),
            trip_offset: AtomicU64::new(u64::MAX),
            trip_bytes: AtomicU64::new(u64::MAX),
            trip_millis: AtomicU64::new(u64::MAX),
            state: Mutex::default(),
        })
    }

    /// New settings: they hold from the next commit or retention pass on, for the part that is open too.
    pub fn set_rollover(&self, rollover: Rollover) {
        let mut state = self.state.lock();
        if state.rollover != rollover {
            state.rollover = rollover;
            self.arm(match rollover.is_unlimited() {
                true => Trips::NEVER,
                false => Trips::NEXT_COMMIT,
            });
        }
    }

    /// An entry was committed. Called in offset order, by one thread at a time.
    pub fn committed(self: &Arc<Self>, offset: Offset, bytes: u64, millis: u64) {
        let total = self.total_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        self.total_bytes.store(total, Ordering::Relaxed);
        let trips = Trips {
            offset: self.trip_offset.load(Ordering::Relaxed),
            total_bytes: self.trip_bytes.load(Ordering::Relaxed),
            millis: self.trip_millis.load(Ordering::Relaxed),
        };
        if trips.hit(offset, total, millis) {
            self.look(offset, total, millis);
        }
    }

    fn arm(&self, trips: Trips) {
        self.trip_offset.store(trips.offset, Ordering::Relaxed);
        self.trip_bytes.store(trips.total_bytes, Ordering::Relaxed);
        self.trip_millis.store(trips.millis, Ordering::Relaxed);
    }

    /// Once or twice per part: is it time to cut?
    fn look(self: &Arc<Self>, offset: Offset, total: u64, millis: u64) {
        let mut state = self.state.lock();
        if state.cutting {
            return;
        }
        let rollover = state.rollover;
        if let Some(part) = &mut state.part {
            if offset >= part.start {
                part.first_millis.get_or_insert(millis);
            }
            let end = offset.checked_add(1).unwrap_or(Offset::MAX);
            let trips = Trips::of(&rollover, part, end, total);
            if !trips.hit(offset, total, millis) {
                self.arm(trips);
                return;
            }
        }
        state.cutting = true;
        self.arm(Trips::NEVER);
        drop(state);
        self.cut_soon();
    }

    fn cut_soon(self: &Arc<Self>) {
        let marks = self.clone();
        // Nobody waits for this one: it says itself when it fails, and the next retention pass makes up for it.
        drop(self.steps.run(async move {
            let cut = marks.cut(None).await;
            cut.inspect_err(|error| {
                let stream = marks.trunk.commits.stream;
                tracing::debug!(%stream, %error, "a trim mark could not be cut; the next retention pass tries again");
            })
        }));
    }

    /// Cuts every mark that is due, [`BATCH`] at a time; what is left is cut by further steps. Only inside a step of the stream.
    pub async fn cut(self: &Arc<Self>, now: Option<u64>) -> Result<()> {
        let cut = self.cut_batch(now).await;
        let mut state = self.state.lock();
        let more = matches!(cut, Ok(true));
        state.cutting = more;
        // After a failure nothing is watched until retention looks: a store that refuses is not asked again at every append.
        self.arm(Trips::NEVER);
        if cut.is_ok() && !more {
            if let Some(part) = &state.part {
                let (end, total) = self.trunk.commits.head(|head| (head.end, head.total_bytes))?;
                self.arm(Trips::of(&state.rollover, part, end, total));
            }
        }
        drop(state);
        if more {
            self.cut_soon();
        }
        cut.map(drop)
    }

    /// True = there may be more to cut.
    async fn cut_batch(&self, now: Option<u64>) -> Result<bool> {
        let owner = self.trunk.commits.head(|head| head.owner_epoch)?;
        if owner != self.epoch {
            return Err(Error::Fenced {
                what: format!("stream {}", self.trunk.commits.stream),
                by_epoch: owner,
            });
        }
        let rollover = self.state.lock().rollover;
        let mut part = self.open_part().await?;
        // Kept whatever becomes of the batch: a mark that is refused is cut again, also when one behind it was written.
        self.state.lock().part = Some(part);
        let mut batch: Vec<TrimMark> = Vec::new();
        while batch.len() < BATCH {
            let Some(mark) = self.trunk.commits.next_cut(&mut part, &rollover, now).await? else {
                break;
            };
            part = Part::after(&mark);
            batch.push(mark);
        }
        self.write(&batch).await?;
        let mut state = self.state.lock();
        if let (Some(Front::NoMark), Some(first)) = (&state.front, batch.first()) {
            state.front = Some(Front::Mark(Box::new(first.clone())));
        }
        state.part = Some(part);
        Ok(batch.len() == BATCH)
    }

    /// The part after the last durable mark, or after the trim offset where that lies further.
    async fn open_part(&self) -> Result<Part> {
        let (trim, trimmed_bytes, end) = self
            .trunk
            .commits
            .head(|head| (head.trim, head.trimmed_bytes, head.end))?;
        let known = self.state.lock().part;
        let part = match known {
            Some(part) => Some(part),
            None => self.last(end).await?.as_ref().map(Part::after),
        };
        Ok(part.filter(|part| part.start >= trim).unwrap_or(Part {
            start: trim,
            bytes_below: trimmed_bytes,
            first_millis: None,
        }))
    }

    async fn last(&self, end: Offset) -> Result<Option<TrimMark>> {
        let stream = self.trunk.commits.stream;
        let (from, to) = Key::stream_range(RecordType::TrimMark, stream);
        let Some(found) = self.trunk.commits.store.last(from, to).await? else {
            return Ok(None);
        };
        let mark = decode(&found)?;
        match mark.offset <= end {
            true => Ok(Some(mark)),
            false => Err(Error::Corrupt {
                what: format!("stream {stream}"),
                place: format!("key {}", found.0),
                detail: format!("the mark lies past the committed end {end}; restore the data directory from a copy"),
            }),
        }
    }

    async fn write(&self, batch: &[TrimMark]) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut writes = Vec::with_capacity(batch.len());
        for mark in batch {
            writes.push(Write {
                key: mark.key()?,
                expected: Expected::Absent,
                value: Some(mark.encode()?),
            });
        }
        for verdict in write_settled(&*self.trunk.commits.store, &*self.trunk.common.env.clock, writes).await {
            match verdict {
                // One that is there already ends a part at the same place.
                Verdict::Applied(_) | Verdict::Conflict(Some(_)) => {}
                Verdict::Conflict(None) => {
                    return Err(Error::Internal {
                        what: "a metadata store refused a new trim mark for its absence".into(),
                    })
                }
                Verdict::Refused(error) | Verdict::Unknown(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The furthest mark up to which everything may go; `None` = nothing may. Only inside a step of the stream.
    pub async fn let_go(&self, retention: &Retention) -> Result<Option<Offset>> {
        let (trim, total_bytes) = self.trunk.commits.head(|head| (head.trim, head.total_bytes))?;
        if retention.keeps_everything() || retention.consumed <= trim {
            return Ok(None);
        }
        let front = self.state.lock().front.clone();
        match front {
            Some(Front::NoMark) => return Ok(None),
            Some(Front::Mark(mark)) if mark.offset > trim && !retention.lets_go(&mark, total_bytes) => return Ok(None),
            _ => {}
        }
        let mut furthest = trim;
        loop {
            let marks = self.above(furthest, BATCH).await?;
            let kept = marks.iter().find(|mark| !retention.lets_go(mark, total_bytes));
            let going = marks.iter().take_while(|mark| retention.lets_go(mark, total_bytes));
            furthest = going.last().map_or(furthest, |mark| mark.offset);
            if kept.is_some() || marks.len() < BATCH {
                self.state.lock().front = Some(kept.map_or(Front::NoMark, |mark| Front::Mark(Box::new(mark.clone()))));
                return Ok((furthest > trim).then_some(furthest));
            }
        }
    }

    /// The first marks above `offset`, ascending, at most `limit`.
    pub async fn above(&self, offset: Offset, limit: usize) -> Result<Vec<TrimMark>> {
        let stream = self.trunk.commits.stream;
        let from = Key::trim_mark(stream, offset.checked_add(1).unwrap_or(Offset::MAX));
        let (_, to) = Key::stream_range(RecordType::TrimMark, stream);
        let found = self.trunk.commits.store.scan(from, to, limit).await?;
        found.iter().map(decode).collect()
    }
}

fn decode((key, found): &(Key, Versioned)) -> Result<TrimMark> {
    TrimMark::decode(key, &found.value)
}
