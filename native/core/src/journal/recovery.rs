//! From the files back to the state.
//!
//! Phases: (1) scan from the position that the backend covers, replaying each frame that is whole; (2) at the first that is not,
//! look for proof that it had been synced; (3) write the last accepted frame once more and sync it; (4) say where to go on.
//!
//! *Torn or damaged* (2): frames are written one at a time, each only after the one before was synced. So the header of any later
//! frame proves all before it, and a frame without such proof was never acknowledged with certainty: a torn tail, dropped. Proven
//! damage concerns the streams of the frame's table whose own parts fail; if the table itself is unreadable, those that the next
//! frame names as witnesses; if that is not the very next frame, everything is in doubt and refused.
//!
//! *Why (3) is enough*: a page cache that verifies is no proof after a failed sync, but only the last frame can be in that state,
//! because a later frame exists only when the sync of the one before succeeded. Writing the same bytes to the same place dirties
//! the pages again, so the sync is a real one; read targets stay as they are; a crash in the middle leaves each sector in one of
//! two states that are equal for every acknowledged frame. Nothing opens before that sync.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::apply::{commit_of, Applied};
use super::delta;
use super::frame::{Descriptor, Frame, Placed, Scope, BLOCK};
use super::layout::{Damage, Position};
use super::scan::{Found, Later, Scan};
use super::segment::{Segments, HEADER_BYTES};
use super::state::StateTable;
use crate::commit::HeadChange;
use crate::error::{Error, Result};
use crate::metadata::{Version, Versioned};
use crate::mutant::{active, Mutant};
use crate::record::Key;
use crate::types::StreamId;

/// What an operator can do about a damaged stream.
const RESCUE: &str = "restore the data directory from a copy, or delete the topic";

/// What a recovery found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Position behind the last accepted frame.
    pub position: Position,
    /// Scopes of the last accepted frame; empty when none was replayed.
    pub witnesses: Vec<Scope>,
    /// Frames replayed.
    pub frames: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The segment that the journal goes on in; it is still to be made, in place of an empty one of this number.
    pub next_segment: u64,
    /// Bytes that the segment before it keeps.
    pub previous_length: u64,
    /// Whether the segment before it is longer than that.
    pub shorten: bool,
}

/// Replays the journal into `state`, which holds what the backend had.
///
/// # Errors
/// `Corrupt` when whole segments are missing or cut, `Unsupported` for a newer format, `Io` when a file cannot be read: nothing has
/// been changed then. Damage inside segments is marked in `state` instead.
pub fn recover(segments: &Arc<Segments>, state: &StateTable, directory_id: u128) -> Result<Recovered> {
    let start = state.position();
    let sequences = needed(segments, start.segment)?;
    let mut scan = Scan::open(segments.clone(), &sequences, directory_id)?;
    let mut replay = Replay {
        segments,
        state,
        position: start,
        index: 0,
        last: None,
        frames: 0,
        bytes: 0,
    };
    replay.check_start(&scan)?;
    replay.run(&mut scan)?;
    replay.check_cut(&scan)?;
    replay.secure_last()?;
    replay.finish(&scan)
}

/// The segments from `first` on, without a gap.
fn needed(segments: &Segments, first: u64) -> Result<Vec<u64>> {
    let found: Vec<u64> = segments
        .list()?
        .into_iter()
        .filter(|sequence| *sequence >= first)
        .collect();
    // The position comes from a file: it may be any number.
    let wanted = (0..).map(|ahead| first.saturating_add(ahead));
    let missing = wanted
        .zip(&found)
        .find(|(wanted, found)| wanted != *found)
        .map(|(wanted, _)| wanted);
    match missing.or(found.is_empty().then_some(first)) {
        None => Ok(found),
        Some(missing) => Err(Error::Corrupt {
            what: "the journal".into(),
            place: segments.path(missing).display().to_string(),
            detail:
                "the segment is missing, and what it held cannot be told: restore the whole data directory from a copy"
                    .into(),
        }),
    }
}

struct Last {
    sequence: u64,
    position: u64,
    bytes: Vec<u8>,
    scopes: Vec<Scope>,
}

struct Replay<'a> {
    segments: &'a Segments,
    state: &'a StateTable,
    position: Position,
    index: usize,
    last: Option<Last>,
    frames: u64,
    bytes: u64,
}

impl Replay<'_> {
    /// The first segment must reach to where the backend is: heads name frames up to there.
    fn check_start(&self, scan: &Scan) -> Result<()> {
        let Some(first) = scan
            .segments()
            .first()
            .filter(|first| first.length < self.position.offset)
        else {
            return Ok(());
        };
        let detail = format!(
            "the file ends at byte {}, the checkpoint covers it up to byte {}: it was cut; {RESCUE}",
            first.length, self.position.offset
        );
        for stream in self.state.uses(first.sequence)?.into_keys() {
            let damage = Damage {
                segment: first.sequence,
                position: first.length,
                detail: detail.clone(),
            };
            self.state.mark_damaged(Some(Some(stream)), damage);
        }
        Ok(())
    }

    fn run(&mut self, scan: &mut Scan) -> Result<()> {
        loop {
            let wanted = self.position.sequence;
            let found = match scan.at(self.index, self.position.offset)? {
                Found::Frame(frame) if frame.header.sequence == wanted || active(Mutant::AcceptStaleFrame) => {
                    Some(frame)
                }
                _ => None,
            };
            if let Some(frame) = &found {
                let bytes = scan.bytes(self.index, self.position.offset, frame)?;
                let mut unproven = || Ok::<_, Error>(scan.later(self.index, self.position.offset, wanted)?.is_none());
                if active(Mutant::DropUnprovenFrame) && unproven()? {
                    return Ok(());
                }
                if frame.body_is_intact(&bytes) || active(Mutant::TrustUnverifiedFrame) {
                    self.accept(scan, frame, bytes);
                    continue;
                }
            }
            let later = scan.later(self.index, self.position.offset, wanted)?;
            let Some(later) = later.filter(|_| !active(Mutant::DamageIsTornTail)) else {
                return Ok(());
            };
            match found {
                // Of another run, it is what an earlier torn tail left: not the frame that is missing.
                Some(frame) if later.frame.header.sequence > wanted && later.frame.header.run == frame.header.run => {
                    let bytes = scan.bytes(self.index, self.position.offset, &frame)?;
                    self.accept(scan, &frame, bytes);
                }
                _ => self.jump(scan, &later),
            }
        }
    }

    /// Replays a frame whose table is right; parts of it may be damaged.
    fn accept(&mut self, scan: &Scan, frame: &Frame, bytes: Vec<u8>) {
        let sequence = scan.segments().get(self.index).map_or(0, |open| open.sequence);
        let next = Position {
            segment: sequence,
            offset: self.position.offset.saturating_add(frame.total_bytes as u64),
            sequence: frame.header.sequence.saturating_add(1),
            versions: self.position.versions.max(newest_version(frame)),
        };
        let update = self.apply(frame, &bytes).finish();
        self.state.publish(update, next);
        self.last = Some(Last {
            sequence,
            position: self.position.offset,
            bytes,
            scopes: frame.scopes(),
        });
        self.frames = self.frames.saturating_add(1);
        self.bytes = self.bytes.saturating_add(frame.total_bytes as u64);
        self.position = next;
    }

    fn apply(&self, frame: &Frame, bytes: &[u8]) -> Applied {
        let mut applied = Applied::default();
        let mut broken: BTreeSet<Scope> = BTreeSet::new();
        for (descriptor, placed) in &frame.deltas {
            let scope = descriptor.scope();
            if broken.contains(&scope) || self.state.check(scope).is_err() {
                if let Some(stream) = self.deletion(descriptor, placed, bytes) {
                    applied.set_head(stream, None);
                    applied.heal(stream);
                }
                continue;
            }
            if let Err(detail) = self.delta(&mut applied, frame, bytes, descriptor, placed) {
                broken.insert(scope);
                let position = self.position.offset.saturating_add(u64::from(placed.position));
                let detail = format!("frame {}: {detail}", frame.header.sequence);
                self.state.mark_damaged(
                    Some(scope),
                    Damage {
                        segment: frame.header.segment,
                        position,
                        detail,
                    },
                );
            }
        }
        applied
    }

    /// The damaged stream that this delta deletes: all that still applies to one.
    fn deletion(&self, descriptor: &Descriptor, placed: &Placed, bytes: &[u8]) -> Option<StreamId> {
        let Descriptor::Change { stream, .. } = descriptor else {
            return None;
        };
        let change = placed.part(bytes).and_then(delta::decode)?;
        (change == HeadChange::Delete { epoch: None } && self.state.is_damaged(*stream)).then_some(*stream)
    }

    fn delta(
        &self,
        applied: &mut Applied,
        frame: &Frame,
        bytes: &[u8],
        descriptor: &Descriptor,
        placed: &Placed,
    ) -> std::result::Result<(), String> {
        let part = placed
            .part(bytes)
            .ok_or_else(|| format!("the checksum of its part is wrong; {RESCUE}"))?;
        match descriptor {
            Descriptor::Slice {
                stream,
                incarnation,
                epoch,
                previous,
                makes,
                ..
            } => {
                self.load(applied, *stream)?;
                let head = applied
                    .head(*stream)
                    .and_then(Option::as_ref)
                    .ok_or("a commit onto a stream without a head")?;
                if head.version.next() != Some(*makes) && !active(Mutant::ReplayOntoWrongVersion) {
                    return Err(format!(
                        "a commit that makes version {makes} onto version {}",
                        head.version
                    ));
                }
                if (head.incarnation, head.owner_epoch, head.last_commit) != (*incarnation, *epoch, *previous) {
                    return Err(format!(
                        "a commit of incarnation {incarnation}, epoch {epoch}, after commit {previous}, onto incarnation {}, epoch \
                         {}, commit {}",
                        head.incarnation, head.owner_epoch, head.last_commit
                    ));
                }
                let commit =
                    commit_of(descriptor, placed, &frame.header, self.position.offset).ok_or("not a commit")?;
                applied.commit(*stream, commit).map_err(|e| e.to_string())
            }
            Descriptor::Change { stream, makes } => {
                self.load(applied, *stream)?;
                let change = delta::decode(part).ok_or("a head change that makes no sense")?;
                let lost = match change {
                    HeadChange::Delete { .. } => active(Mutant::LoseDeleteOnReplay),
                    HeadChange::Terminate { .. } => active(Mutant::LoseTerminateOnReplay),
                    _ => false,
                };
                if lost {
                    return Ok(());
                }
                applied.change(*stream, &change, *makes).map_err(|e| e.to_string())
            }
            Descriptor::Write {
                key,
                onto,
                makes,
                delete,
            } => {
                self.check_version(applied, key, *onto)?;
                let value = || Versioned {
                    value: bytes::Bytes::copy_from_slice(part),
                    version: *makes,
                };
                applied.key(key.clone(), (!delete).then(value));
                Ok(())
            }
        }
    }

    fn load(&self, applied: &mut Applied, stream: StreamId) -> std::result::Result<(), String> {
        if applied.head(stream).is_none() {
            let cell = self.state.cell(stream).map_err(|e| e.to_string())?;
            applied.set_head(stream, cell.and_then(|cell| cell.with(|head| head.cloned())));
        }
        Ok(())
    }

    fn check_version(&self, applied: &Applied, key: &Key, onto: Option<Version>) -> std::result::Result<(), String> {
        let found = match applied.written(key) {
            Some(version) => version,
            None => self
                .state
                .get(key)
                .map_err(|e| e.to_string())?
                .map(|found| found.version),
        };
        let show = |version: Option<Version>| version.map_or("none".to_owned(), |version| version.0.to_string());
        match found == onto || active(Mutant::ReplayOntoWrongVersion) {
            true => Ok(()),
            false => Err(format!(
                "a write of key {key} onto version {}, the key has {}",
                show(onto),
                show(found)
            )),
        }
    }

    /// Goes to a later frame. When frames are missing in between, whom they concern is refused.
    fn jump(&mut self, scan: &Scan, later: &Later) {
        let (wanted, found) = (self.position.sequence, later.frame.header.sequence);
        let next_segment = scan.segments().get(later.index).map(|open| open.sequence);
        let (segment, position) = match next_segment {
            // Frames follow each other without a hole: a single one that is missing before this one stands at the very start.
            Some(next)
                if found == wanted.saturating_add(1) && later.index != self.index && later.position > HEADER_BYTES =>
            {
                (next, HEADER_BYTES)
            }
            _ => (self.position.segment, self.position.offset),
        };
        let damage = |detail: String| Damage {
            segment,
            position,
            detail,
        };
        if found == wanted.saturating_add(1) {
            for scope in &later.frame.witnesses {
                let detail = format!("frame {wanted} is unreadable, and it concerned this stream; {RESCUE}");
                self.state.mark_damaged(Some(*scope), damage(detail));
            }
        } else if found > wanted {
            let detail = format!(
                "frames {wanted} to {} are unreadable; restore the data directory from a copy",
                found.saturating_sub(1)
            );
            self.state.mark_damaged(None, damage(detail));
        }
        self.index = later.index;
        self.position.segment = next_segment.unwrap_or(self.position.segment);
        self.position.offset = later.position;
        self.position.sequence = found;
    }

    /// Where the frames end, and behind, no file may be shorter than it was made, unless zeros show that nothing was there.
    fn check_cut(&self, scan: &Scan) -> Result<()> {
        for (index, open) in scan.segments().iter().enumerate().skip(self.index) {
            let end = if index == self.index {
                self.position.offset
            } else {
                HEADER_BYTES
            };
            let follower = scan
                .segments()
                .get(index.saturating_add(1))
                .and_then(|next| next.header);
            let whole = match follower.map(|next| next.previous_length).filter(|length| *length > 0) {
                Some(length) => length,
                None => open
                    .header
                    .map_or(open.length.max(HEADER_BYTES), |header| header.length),
            };
            let blank = open.length.saturating_sub(end) >= BLOCK as u64 && scan.behind(index, end)?.end == end;
            if open.length < whole && !blank {
                return Err(Error::Corrupt {
                    what: "the journal".into(),
                    place: self.segments.path(open.sequence).display().to_string(),
                    detail: format!(
                        "the file has {} bytes of {whole}: it was cut, and what is missing cannot be told. Restore it from a copy",
                        open.length
                    ),
                });
            }
        }
        Ok(())
    }

    fn secure_last(&self) -> Result<()> {
        let Some(last) = self.last.as_ref().filter(|_| !active(Mutant::SkipTailRewrite)) else {
            return Ok(());
        };
        let place = || self.segments.place(last.sequence, last.position);
        let file = self
            .segments
            .writer(last.sequence)
            .map_err(|e| Error::io("open", place(), e))?;
        file.write_all_at(&last.bytes, last.position)
            .map_err(|e| Error::io("write", place(), e))?;
        file.sync_data().map_err(|e| Error::io("sync", place(), e))
    }

    /// The journal goes on in a segment of its own, behind the last one with an accepted frame. What a torn tail left there stays:
    /// it is cheap and may be looked at.
    fn finish(self, scan: &Scan) -> Result<Recovered> {
        let (mut next_segment, mut previous_length, mut shorten) = (self.position.segment, 0, false);
        if let Some(open) = scan.segments().get(self.index) {
            if self.position.offset > HEADER_BYTES {
                next_segment = open.sequence.saturating_add(1);
                previous_length = scan.behind(self.index, self.position.offset.min(open.length))?.end;
                shorten = previous_length < open.length;
            } else {
                previous_length = open.header.map_or(0, |header| header.previous_length);
            }
        }
        let witnesses = self.last.map(|last| last.scopes).unwrap_or_default();
        let (position, frames, bytes) = (self.position, self.frames, self.bytes);
        Ok(Recovered {
            position,
            witnesses,
            frames,
            bytes,
            next_segment,
            previous_length,
            shorten,
        })
    }
}

fn newest_version(frame: &Frame) -> u64 {
    let versions = frame.deltas.iter().map(|(descriptor, _)| match descriptor {
        Descriptor::Write { makes, .. } => makes.0,
        _ => 0,
    });
    versions.max().unwrap_or(0)
}
