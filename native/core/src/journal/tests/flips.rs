//! Every byte of a small journal, flipped in turn: what recovery and reads make of each, compared with what the format promises.
//!
//! The journal has two runs, a checkpoint in the first, groups of one and of several streams, every kind of delta, and ends either
//! behind a frame that nothing proves or behind an idle marker. Expected is, by the place of the byte:
//! - header block of a segment, blocks without a frame: nothing;
//! - a frame that the checkpoint covers: a read of the commit it lies in is refused, nothing else;
//! - header or table of a proven frame: exactly the streams of that frame; a part: exactly its stream; padding: nothing;
//! - the last frame of an earlier run: its streams, wherever the byte is: it could be a torn tail whose place in the sequence a
//!   lost frame took again;
//! - the last frame, which nothing proves: a torn tail, as if it had never been written.
//!
//! Never: other bytes, a shorter stream that is not refused, a panic, another file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::support::*;
use crate::commit::{Commit, HeadChange, StreamHead};
use crate::env::sim::SimDisk;
use crate::env::Disk;
use crate::error::{Error, ErrorCode};
use crate::journal::frame::{Frame, Scope};
use crate::journal::layout::Position;
use crate::journal::recovery::recover;
use crate::journal::segment::{SegmentHeader, Segments, HEADER_BYTES};
use crate::journal::state::StateTable;
use crate::journal::{read, Found, Journal, ModelBackend, Scan};
use crate::metadata::Expected;
use crate::record::Key;
use crate::types::{Offset, StreamId};

const STREAMS: u128 = 6;
/// Padding and unused blocks are the same everywhere: one byte of so many is enough.
const SAMPLE: usize = 131;
/// Bytes behind the last frame.
const UNUSED: u64 = 3 * 4096;

/// How a run ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    LastFrameUnproven,
    IdleMarker,
}

/// The files of the journal, and everything known about them.
struct History {
    disk: SimDisk,
    backend: ModelBackend,
    checkpoint: Position,
    frames: Vec<Place>,
    /// As recovered when nothing is damaged, and when the last frame is torn.
    whole: Reference,
    torn: Reference,
}

struct Place {
    segment: u64,
    position: u64,
    frame: Frame,
    last_of_run: bool,
}

type Entries = Vec<Vec<u8>>;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Reference {
    heads: BTreeMap<StreamId, StreamHead>,
    /// By commit: where a flipped byte of a covered frame shows.
    entries: BTreeMap<(StreamId, Offset), Entries>,
}

/// What a flipped byte must lead to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expectation {
    damaged: BTreeSet<Scope>,
    torn: bool,
    /// Where the refusal must point to: from, to.
    within: Option<(u64, u64)>,
    /// The commit whose read is refused.
    unreadable: Option<(u64, u64)>,
}

fn write_history(ending: Ending) -> (World, Position) {
    let mut world = World::new(31);
    let journal = world.open();
    let id = |n: u128| stream(n);
    (1..=4).for_each(|n| drop(world.create(&journal, id(n))));
    (1..=4).for_each(|n| world.fill(&journal, id(n), 0, 2));
    let key = Key::stream_properties(id(3));
    let _ = world.write(&journal, key.clone(), Expected::Absent, b"first");
    world.executor.run(journal.checkpoint()).unwrap();
    let checkpoint = journal.shared.state.checkpoint_position();

    (1..=3).for_each(|n| world.fill(&journal, id(n), 2, 1));
    group(&mut world, &journal, 3, 3);
    let trim = HeadChange::Trim {
        epoch: epoch(1),
        before: Offset::new(1),
        trimmed_bytes: 20,
    };
    world.change(&journal, id(1), trim).unwrap();
    world.executor.run_for(Duration::from_millis(100));
    world
        .change(&journal, id(4), HeadChange::Terminate { epoch: epoch(1) })
        .unwrap();
    let _ = world.write(&journal, key.clone(), Expected::Any, b"second");
    let _ = world.write(&journal, Key::ledger_grant(), Expected::Absent, b"of no stream");
    let _ = world.write(&journal, key, Expected::Any, b"third");
    world.fill(&journal, id(2), 3, 1);
    if ending == Ending::IdleMarker {
        world.executor.run_for(Duration::from_millis(100));
    }

    let mut world = world.after_kill();
    let journal = world.open();
    world.fill(&journal, id(3), 5, 1);
    world
        .change(&journal, id(2), HeadChange::Claim { owner: "next".into() })
        .unwrap();
    for n in [5, 6] {
        world.create(&journal, id(n));
        world.fill(&journal, id(n), 0, 1);
    }
    world
        .change(&journal, id(6), HeadChange::Delete { epoch: None })
        .unwrap();
    group(&mut world, &journal, 5, 6);
    if ending == Ending::IdleMarker {
        world.executor.run_for(Duration::from_millis(100));
    }
    (world.after_kill(), checkpoint)
}

/// Two entries each for streams 1 and 3 in one frame, from these offsets on.
fn group(world: &mut World, journal: &Journal, first: u64, third: u64) {
    let asked: Vec<_> = [(1, first), (3, third), (1, first + 1), (3, third + 1)]
        .into_iter()
        .map(|(n, offset)| (offset, send(journal, stream(n), 1, offset, &entry(stream(n), offset))))
        .collect();
    for (offset, asked) in asked {
        committed(world.executor.run(asked).unwrap(), offset);
    }
}

impl History {
    fn of(ending: Ending) -> History {
        let (world, checkpoint) = write_history(ending);
        let (disk, backend) = (world.disk.clone(), world.backend.clone());
        shorten(&disk, 2);
        let mut frames = Vec::new();
        for segment in [1, 2] {
            let found = frames_of(&disk, segment);
            let count = found.len();
            frames.extend(found.into_iter().enumerate().map(|(at, (position, frame))| Place {
                segment,
                position,
                frame,
                last_of_run: at + 1 == count,
            }));
        }
        let mut history = History {
            disk,
            backend,
            checkpoint,
            frames,
            whole: Reference::default(),
            torn: Reference::default(),
        };
        history.whole = history.look(&history.disk).expect("an undamaged journal");
        let last = history.frames.last().unwrap();
        let (path, at) = (segment_path(last.segment), last.position as usize);
        flip(&history.disk, last.segment, last.position);
        history.torn = history.look(&history.disk).expect("a torn journal");
        history.disk.tamper(&path, |bytes| bytes[at] ^= bit(last.position));
        history
    }

    /// What recovery makes of the files as they are; an error when it refuses the whole journal.
    fn look(&self, disk: &SimDisk) -> Result<Reference, Error> {
        self.recover(disk, |state, segments| {
            let mut found = Reference::default();
            for id in (1..=STREAMS).map(stream) {
                if let Some(cell) = state.head(id)? {
                    let head = cell.with(|head| head.cloned()).unwrap();
                    for commit in &head.ring {
                        found
                            .entries
                            .insert((id, commit.start), entries(segments, state, id, commit)?);
                    }
                    found.heads.insert(id, head);
                }
            }
            Ok(found)
        })
    }

    fn recover<T>(
        &self,
        disk: &SimDisk,
        then: impl FnOnce(&StateTable, &Arc<Segments>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let segments = Arc::new(Segments::new(disk, "/data/journal".into())?);
        let state = StateTable::load(Arc::new(self.backend.clone()), DIRECTORY_ID, "/data/metadata")?.unwrap();
        recover(&segments, &state, DIRECTORY_ID)?;
        then(&state, &segments)
    }

    fn expect(&self, segment: u64, at: u64) -> Expectation {
        let within = |place: &&Place| {
            place.segment == segment && (place.position..place.position + place.frame.total_bytes as u64).contains(&at)
        };
        let Some(place) = self.frames.iter().find(within) else {
            return Expectation::default();
        };
        let (frame, from) = (&place.frame, place.position);
        let scopes: BTreeSet<Scope> = frame.scopes().into_iter().collect();
        let part = frame.deltas.iter().find(|(_, placed)| {
            let start = from + u64::from(placed.position);
            (start..start + u64::from(placed.length)).contains(&at)
        });
        if frame.header.sequence < self.checkpoint.sequence {
            let unreadable = part.map(|(_, placed)| (segment, from + u64::from(placed.position)));
            return Expectation {
                unreadable,
                ..Expectation::default()
            };
        }
        let last = self.frames.last().unwrap().frame.header.sequence;
        if frame.header.sequence == last {
            return Expectation {
                torn: true,
                ..Expectation::default()
            };
        }
        let damaged = match part {
            _ if place.last_of_run => scopes,
            _ if at < from + frame.head_bytes as u64 => scopes,
            Some((descriptor, _)) => [descriptor.scope()].into(),
            None => BTreeSet::new(),
        };
        Expectation {
            within: (!damaged.is_empty()).then_some((from, from + frame.total_bytes as u64)),
            damaged,
            ..Expectation::default()
        }
    }

    /// Flips one bit, looks, and flips it back.
    fn check(&self, disk: &SimDisk, segment: u64, at: u64) {
        let expected = self.expect(segment, at);
        flip(disk, segment, at);
        let context = format!("segment {segment}, byte {at}, {expected:?}");
        let looked = self.recover(disk, |state, segments| {
            self.compare(state, segments, segment, &expected, &context);
            Ok(())
        });
        looked.unwrap_or_else(|error| panic!("{context}: the journal does not open: {error}"));
        flip(disk, segment, at);
    }

    fn compare(
        &self,
        state: &StateTable,
        segments: &Arc<Segments>,
        segment: u64,
        expected: &Expectation,
        context: &str,
    ) {
        let wanted = if expected.torn { &self.torn } else { &self.whole };
        for n in 1..=STREAMS {
            let id = stream(n);
            match (state.head(id), expected.damaged.contains(&Some(id))) {
                // A deletion behind the damage ends it.
                (Ok(None), true) if !wanted.heads.contains_key(&id) => {}
                (Err(error), true) => names(&error, segment, expected.within, context),
                (Ok(cell), false) => {
                    let head = cell.and_then(|cell| cell.with(|head| head.cloned()));
                    assert_eq!(head.as_ref(), wanted.heads.get(&id), "{context}: stream {n}");
                    for commit in head.iter().flat_map(|head| &head.ring) {
                        let read = entries(segments, state, id, commit);
                        let target = match commit.target {
                            crate::commit::ReadTarget::Journal { segment, position, .. } => Some((segment, position)),
                            _ => None,
                        };
                        if expected.unreadable.is_some() && target == expected.unreadable {
                            let place = expected.unreadable.map(|(_, position)| (position, position + 1));
                            names(&read.expect_err(context), segment, place, context);
                        } else {
                            let whole = &self.whole.entries[&(id, commit.start)];
                            assert_eq!(&read.expect(context), whole, "{context}: stream {n}");
                        }
                    }
                }
                (outcome, _) => panic!("{context}: stream {n}: {:?}", outcome.map(|cell| cell.is_some())),
            }
        }
        let keys = [Key::stream_properties(stream(3)), Key::ledger_grant()];
        for key in keys {
            let found = state.get(&key);
            match expected.damaged.contains(&key.stream()) {
                true => names(&found.expect_err(context), segment, expected.within, context),
                false => assert_eq!(
                    found.expect(context).unwrap().value,
                    if key.stream().is_some() {
                        &b"third"[..]
                    } else {
                        b"of no stream"
                    },
                    "{context}"
                ),
            }
        }
    }
}

/// The error says which file, and where in it.
fn names(error: &Error, segment: u64, within: Option<(u64, u64)>, context: &str) {
    let text = error.to_string();
    assert_eq!(error.code(), ErrorCode::Corrupt, "{context}: {text}");
    assert!(text.contains(&format!("{segment:016x}")), "{context}: {text}");
    let (from, to) = within.expect("a place");
    let position = text.split("byte ").nth(1).and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse::<u64>().ok()
    });
    assert!(
        position.is_some_and(|position| (from..to).contains(&position)),
        "{context}: {text}"
    );
}

fn entries(segments: &Arc<Segments>, state: &StateTable, id: StreamId, commit: &Commit) -> Result<Entries, Error> {
    let pin = read::segment_of(commit).and_then(|segment| segments.pin(segment));
    let slice = read::slice(segments, state, id, commit, pin.as_ref())?;
    Ok(slice.entries.iter().map(|entry| entry.entry.to_vec()).collect())
}

fn frames_of(disk: &SimDisk, segment: u64) -> Vec<(u64, Frame)> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let segments = Arc::new(Segments::new(disk, "/data/journal".into()).unwrap());
    let mut scan = Scan::open(segments, &[segment], DIRECTORY_ID).unwrap();
    let (mut found, mut position) = (Vec::new(), HEADER_BYTES);
    while let Found::Frame(frame) = scan.at(0, position).unwrap() {
        found.push((position, *frame.clone()));
        position += frame.total_bytes as u64;
    }
    found
}

/// Makes a segment as if it had been created with a few unused blocks only: recovery looks at all of them each time.
fn shorten(disk: &SimDisk, segment: u64) {
    let (position, last) = frames_of(disk, segment).pop().unwrap();
    let length = position + last.total_bytes as u64 + UNUSED;
    disk.tamper(&segment_path(segment), |bytes| {
        let header = SegmentHeader::decode(&bytes[..HEADER_BYTES as usize]).unwrap();
        let header = SegmentHeader { length, ..header };
        bytes[..HEADER_BYTES as usize].copy_from_slice(&header.encode());
        bytes.truncate(length as usize);
    });
}

/// Another bit for neighbours, so that all eight are hit everywhere.
fn bit(at: u64) -> u8 {
    1 << (at % 8)
}

fn flip(disk: &SimDisk, segment: u64, at: u64) {
    disk.tamper(&segment_path(segment), |bytes| bytes[at as usize] ^= bit(at));
}

/// Every byte that means something; of the others every so many.
fn places(history: &History) -> Vec<(u64, u64)> {
    let mut places = Vec::new();
    for segment in [1, 2] {
        let header = (0..64)
            .chain((64..HEADER_BYTES).step_by(SAMPLE))
            .chain(HEADER_BYTES - 8..HEADER_BYTES);
        places.extend(header.map(|at| (segment, at)));
    }
    let mut ends = BTreeMap::new();
    for Place {
        segment,
        position,
        frame,
        ..
    } in &history.frames
    {
        let body: usize = frame.deltas.iter().map(|(_, placed)| placed.length as usize).sum();
        let used = frame.head_bytes + body;
        let padding = (used..frame.total_bytes)
            .step_by(SAMPLE)
            .chain(frame.total_bytes - 1..frame.total_bytes);
        places.extend((0..used).chain(padding).map(|at| (*segment, position + at as u64)));
        ends.insert(*segment, position + frame.total_bytes as u64);
    }
    // Behind the last frame; the first segment ends there.
    places.extend((ends[&2]..ends[&2] + UNUSED).step_by(SAMPLE).map(|at| (2, at)));
    places
}

fn every_byte(ending: Ending) {
    let history = History::of(ending);
    let places = places(&history);
    assert!(places.len() > 5000, "{} places", places.len());
    std::thread::scope(|scope| {
        for half in places.chunks(places.len().div_ceil(2)) {
            let (history, disk) = (&history, history.disk.after_kill());
            scope.spawn(move || {
                half.iter()
                    .for_each(|(segment, at)| history.check(&disk, *segment, *at))
            });
        }
    });
}

#[test]
fn l12_l16_every_flipped_byte_of_a_journal_without_a_marker_is_harmless_torn_or_refused_by_name() {
    every_byte(Ending::LastFrameUnproven);
}

#[test]
fn l12_l16_every_flipped_byte_of_a_journal_behind_a_marker_is_harmless_or_refused_by_name() {
    every_byte(Ending::IdleMarker);
}

#[test]
fn the_history_holds_every_class_of_position() {
    use crate::journal::frame::Descriptor;
    for ending in [Ending::LastFrameUnproven, Ending::IdleMarker] {
        let history = History::of(ending);
        let covered = |place: &Place| place.frame.header.sequence < history.checkpoint.sequence;
        let (before, after): (Vec<&Place>, Vec<&Place>) = history.frames.iter().partition(|place| covered(place));
        assert!(before.len() > 10 && after.len() > 10);
        let kinds = |wanted: fn(&Descriptor) -> bool| {
            after
                .iter()
                .any(|place| place.frame.deltas.iter().any(|(descriptor, _)| wanted(descriptor)))
        };
        assert!(kinds(|d| matches!(d, Descriptor::Slice { .. })));
        assert!(kinds(|d| matches!(d, Descriptor::Change { .. })));
        assert!(kinds(|d| matches!(d, Descriptor::Write { delete: false, .. })));
        assert!(
            after.iter().any(|place| place.frame.scopes().len() > 1),
            "a group of several streams"
        );
        assert!(
            after.iter().any(|place| place.frame.deltas.is_empty()),
            "a marker in the middle"
        );
        let last = history.frames.last().unwrap();
        assert_eq!(last.frame.deltas.is_empty(), ending == Ending::IdleMarker);
        assert_eq!(history.torn == history.whole, ending == Ending::IdleMarker);
    }
}
