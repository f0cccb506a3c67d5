//! When a group closes, and the verdict on everything in it. No disk in here.
//!
//! Promises: verdicts are taken in queue order against the published state and what the group itself will change, so that fence
//! and change are one step (L5) and ranges touch (L4). A verdict that rests on the group is answered with the group, also a
//! refusal (L2).
//! A group closes when it is full, or before an item that would have to follow a commit of its own stream inside the group
//! (a head change, after which the commit's place would have to be known).

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::oneshot;

use super::apply::{commit_of, Applied};
use super::delta;
use super::frame::{self, Descriptor, Header, Part, Placed, Scope};
use super::state::{empty_cell, StateTable, Update};
use crate::commit::{Append, AppendOutcome, AppendReply, Changed, HeadCell, HeadChange, StreamHead, Tail};
use crate::error::{Error, Result};
use crate::metadata::{Expected, Verdict, Version, Versioned, Write};
use crate::record::{Key, RecordType};
use crate::types::{CommitId, CommitVersion, Offset, StreamId};

/// Largest value of a key, bytes.
pub const MAX_VALUE: usize = 1 << 20;

/// What the lane is asked for. A dropped reply is heard by its receiver.
pub enum Work {
    /// One append.
    Append(Append),
    /// One change of a head.
    Change {
        /// The stream.
        stream: StreamId,
        /// The change.
        change: HeadChange,
        /// Hears of the outcome.
        reply: oneshot::Sender<Result<Arc<HeadCell>>>,
    },
    /// A batch of key writes: one frame, or none.
    Write {
        /// The writes.
        batch: Vec<Write>,
        /// Hears one verdict per write.
        reply: oneshot::Sender<Vec<Verdict>>,
    },
}

impl Work {
    /// Answers work that no frame holds.
    pub fn fail(self, failure: &Failure) {
        match self {
            Work::Append(append) => fail(Held::Taken { reply: append.reply, offset: append.offset }, failure),
            Work::Change { stream, reply, .. } => fail(Held::Changed { reply, outcome: Ok(stream) }, failure),
            Work::Write { batch, reply } => {
                let verdicts = batch.iter().map(|_| Verdict::Applied(Version(0))).collect();
                fail(Held::Written { reply, verdicts }, failure);
            }
        }
    }
}

/// Why a whole group came to nothing.
#[derive(Debug, Clone)]
pub enum Failure {
    /// No byte of its frame was written.
    NeverWritten(Error),
    /// Its frame may be on disk, now or later.
    Unknown(Error),
}

/// What bounds a group.
#[derive(Debug, Clone)]
pub struct Limits {
    /// A group of more than one item closes before it gets larger, bytes of the frame.
    pub soft: usize,
    /// Largest frame, bytes.
    pub hard: usize,
    /// Why appends are refused at present, if they are.
    pub refuse_appends: Option<Error>,
}

struct Pending {
    head: Option<StreamHead>,
    /// Runs ahead of `head` by the open slice.
    tail: Option<Tail>,
    slice: Option<usize>,
}

/// A slice that takes entries, or another finished delta.
enum Delta {
    Slice(Slice),
    Change { stream: StreamId, makes: CommitVersion, body: Bytes },
    Write { key: Key, onto: Option<Version>, makes: Version, value: Option<Bytes> },
}

struct Slice {
    stream: StreamId,
    start: Offset,
    entries: Vec<(Bytes, u32)>,
    bytes: u64,
    messages: u64,
}

enum Held {
    Taken { reply: AppendReply, offset: Offset },
    Refused { reply: AppendReply, error: Error },
    Changed { reply: oneshot::Sender<Result<Arc<HeadCell>>>, outcome: Result<StreamId> },
    Written { reply: oneshot::Sender<Vec<Verdict>>, verdicts: Vec<Verdict> },
}

/// A group that is being filled.
pub struct Group {
    limits: Limits,
    heads: HashMap<StreamId, Pending>,
    keys: HashMap<Key, Option<Versioned>>,
    deltas: Vec<Delta>,
    held: Vec<Held>,
    versions: u64,
    table: usize,
    body: usize,
}

/// A group whose frame is in the buffer, to be written.
pub struct Sealed {
    applied: Applied,
    held: Vec<Held>,
    versions: u64,
    millis: u64,
    scopes: Vec<Scope>,
}

impl Group {
    /// An empty group behind a frame that touched `witnesses` scopes; `versions` is the newest version given.
    pub fn new(limits: Limits, witnesses: usize, versions: u64) -> Group {
        Group {
            limits,
            heads: HashMap::new(),
            keys: HashMap::new(),
            deltas: Vec::new(),
            held: Vec::new(),
            versions,
            table: witnesses.saturating_mul(16),
            body: 0,
        }
    }

    /// Whether there is nothing to write, only answers to give.
    pub fn has_no_deltas(&self) -> bool {
        self.deltas.is_empty()
    }

    /// Bytes of the frame that this group makes.
    pub fn frame_bytes(&self) -> usize {
        frame::frame_bytes(self.table, self.body)
    }

    /// Takes one item with its verdict, or gives it back: the group is to be closed before it.
    ///
    /// Reads heads and versions that are not in memory: blocking.
    pub fn offer(&mut self, state: &StateTable, work: Work) -> std::result::Result<(), Box<Work>> {
        match work {
            Work::Append(append) => self.append(state, append),
            Work::Change { stream, change, reply } => self.change(state, stream, change, reply),
            Work::Write { batch, reply } => self.write(state, batch, reply),
        }
    }

    fn append(&mut self, state: &StateTable, append: Append) -> std::result::Result<(), Box<Work>> {
        let stream = append.stream;
        if let Err(error) = self.admit(state, &append) {
            self.held.push(Held::Refused { reply: append.reply, error });
            return Ok(());
        }
        let slice = self.heads.get(&stream).and_then(|pending| pending.slice);
        let table = if slice.is_some() { 0 } else { SLICE_ROW };
        let body = frame::entry_bytes(append.entry.len());
        if !self.fits(table, body) {
            if self.deltas.is_empty() {
                let what = format!("an entry of {} bytes does not fit into a journal segment", append.entry.len());
                self.held.push(Held::Refused { reply: append.reply, error: Error::Invalid { what } });
                return Ok(());
            }
            return Err(Box::new(Work::Append(append)));
        }
        self.grow(table, body);
        let slice = slice.unwrap_or_else(|| {
            self.deltas.push(Delta::Slice(Slice {
                stream,
                start: append.offset,
                entries: Vec::new(),
                bytes: 0,
                messages: 0,
            }));
            self.deltas.len().saturating_sub(1)
        });
        if let Some(pending) = self.heads.get_mut(&stream) {
            pending.slice = Some(slice);
            if let Some(tail) = &mut pending.tail {
                // Checked by `admit`: it cannot fail here.
                let taken = tail.take(append.epoch, append.offset);
                assert!(taken.is_ok(), "an admitted append was not the next one: {taken:?}");
            }
        }
        if let Some(Delta::Slice(open)) = self.deltas.get_mut(slice) {
            open.bytes = open.bytes.saturating_add(append.entry.len() as u64);
            open.messages = open.messages.saturating_add(u64::from(append.messages));
            open.entries.push((append.entry, append.crc32c));
        }
        self.held.push(Held::Taken { reply: append.reply, offset: append.offset });
        Ok(())
    }

    fn admit(&mut self, state: &StateTable, append: &Append) -> Result<()> {
        if let Some(error) = &self.limits.refuse_appends {
            return Err(error.clone());
        }
        let pending = self.pending(state, append.stream)?;
        let tail = pending.tail.ok_or_else(|| Error::NotFound { what: format!("stream {}", append.stream) })?;
        tail.check(append.epoch, append.offset)
    }

    fn change(
        &mut self,
        state: &StateTable,
        stream: StreamId,
        change: HeadChange,
        reply: oneshot::Sender<Result<Arc<HeadCell>>>,
    ) -> std::result::Result<(), Box<Work>> {
        let change = match change {
            HeadChange::Claim { owner } => HeadChange::Claim { owner: delta::cut(&owner).to_owned() },
            other => other,
        };
        let pending = match self.pending(state, stream) {
            Ok(pending) => pending,
            Err(error) => {
                self.held.push(Held::Changed { reply, outcome: Err(error) });
                return Ok(());
            }
        };
        if pending.slice.is_some() {
            return Err(Box::new(Work::Change { stream, change, reply }));
        }
        let before = pending.head.as_ref().map_or(CommitVersion::new(0), |head| head.version);
        let (next, makes) = match change.judge(stream, pending.head.as_ref()) {
            Err(error) => {
                self.held.push(Held::Changed { reply, outcome: Err(error) });
                return Ok(());
            }
            Ok(Changed::Nothing) => {
                self.held.push(Held::Changed { reply, outcome: Ok(stream) });
                return Ok(());
            }
            Ok(Changed::Head(next)) => {
                let makes = next.version;
                (Some(*next), makes)
            }
            Ok(Changed::Deleted) => (None, before.next().unwrap_or(before)),
        };
        let body = delta::encode(&change);
        let table = Descriptor::Change { stream, makes }.table_bytes();
        if !self.fits(table, body.len()) && !self.deltas.is_empty() {
            return Err(Box::new(Work::Change { stream, change, reply }));
        }
        self.grow(table, body.len());
        let tail = next.as_ref().map(StreamHead::tail);
        self.heads.insert(stream, Pending { head: next, tail, slice: None });
        self.deltas.push(Delta::Change { stream, makes, body });
        self.held.push(Held::Changed { reply, outcome: Ok(stream) });
        Ok(())
    }

    fn write(
        &mut self,
        state: &StateTable,
        batch: Vec<Write>,
        reply: oneshot::Sender<Vec<Verdict>>,
    ) -> std::result::Result<(), Box<Work>> {
        let sizes = batch.iter().map(|write| {
            let table = WRITE_ROW.saturating_add(write.key.as_bytes().len());
            (table, write.value.as_ref().map_or(0, Bytes::len))
        });
        let (table, body) = sizes.fold((0usize, 0usize), |sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)));
        if !self.fits(table, body) {
            if !self.deltas.is_empty() {
                return Err(Box::new(Work::Write { batch, reply }));
            }
            let what = format!("a batch of {} bytes does not fit into a journal segment", table.saturating_add(body));
            let verdicts = batch.iter().map(|_| Verdict::Refused(Error::Invalid { what: what.clone() })).collect();
            self.held.push(Held::Written { reply, verdicts });
            return Ok(());
        }
        self.grow(table, body);
        let verdicts = batch.into_iter().map(|write| self.judge(state, write)).collect();
        self.held.push(Held::Written { reply, verdicts });
        Ok(())
    }

    fn judge(&mut self, state: &StateTable, write: Write) -> Verdict {
        if let Err(error) = check_write(&write) {
            return Verdict::Refused(error);
        }
        let found = match self.keys.get(&write.key) {
            Some(pending) => Ok(pending.clone()),
            None => state.get(&write.key),
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => return Verdict::Refused(error),
        };
        let onto = found.as_ref().map(|found| found.version);
        let expected = match write.expected {
            Expected::Any => true,
            Expected::Absent => onto.is_none(),
            Expected::Version(version) => onto == Some(version),
        };
        if !expected {
            return Verdict::Conflict(found);
        }
        if write.value.is_none() && onto.is_none() {
            return Verdict::Applied(Version(0));
        }
        let Some(next) = self.versions.checked_add(1) else {
            return Verdict::Refused(Error::Internal { what: "the journal has used up its versions".into() });
        };
        self.versions = next;
        let makes = Version(next);
        let verdict = Verdict::Applied(if write.value.is_some() { makes } else { onto.unwrap_or(makes) });
        self.keys.insert(write.key.clone(), write.value.clone().map(|value| Versioned { value, version: makes }));
        self.deltas.push(Delta::Write { key: write.key, onto, makes, value: write.value });
        verdict
    }

    fn pending(&mut self, state: &StateTable, stream: StreamId) -> Result<&mut Pending> {
        use std::collections::hash_map::Entry;
        match self.heads.entry(stream) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(free) => {
                let head = state.head(stream)?.and_then(|cell| cell.with(|head| head.cloned()));
                let tail = head.as_ref().map(StreamHead::tail);
                Ok(free.insert(Pending { head, tail, slice: None }))
            }
        }
    }

    fn fits(&self, table: usize, body: usize) -> bool {
        let limit = if self.deltas.is_empty() { self.limits.hard } else { self.limits.soft };
        frame::frame_bytes(self.table.saturating_add(table), self.body.saturating_add(body)) <= limit
    }

    fn grow(&mut self, table: usize, body: usize) {
        self.table = self.table.saturating_add(table);
        self.body = self.body.saturating_add(body);
    }

    /// Writes the group's frame into `out`, to stand at `frame_position` of its segment. `ids` gives the commits their identity.
    ///
    /// # Errors
    /// A defect: the group did not follow from its own heads. Nothing may be written then.
    pub fn seal(
        self,
        header: &Header,
        frame_position: u64,
        witnesses: &[Scope],
        mut ids: impl FnMut() -> CommitId,
        out: &mut Vec<u8>,
    ) -> std::result::Result<Sealed, (Failed, Error)> {
        let Group { heads, deltas, held, versions, .. } = self;
        let deltas: Vec<(Descriptor, Part)> = deltas.into_iter().map(|delta| descriptor(delta, &heads, &mut ids)).collect();
        let places = frame::encode(header, &deltas, witnesses, out);
        let mut applied = Applied::default();
        let result = apply(&deltas, &places, heads, header, frame_position, &mut applied);
        match result {
            Ok(()) => {
                let scopes = frame::scopes(deltas.iter().map(|(descriptor, _)| descriptor));
                Ok(Sealed { applied, held, versions, millis: header.time_millis, scopes })
            }
            Err(error) => Err((Failed(held), error)),
        }
    }

    /// Answers everything in a group that is not going to be written.
    pub fn fail(self, failure: &Failure) {
        Failed(self.held).answer(failure);
    }

    /// Answers a group that has nothing to write.
    pub fn answer_without_deltas(self, state: &StateTable) {
        let cells = |stream: StreamId| state.head(stream).map(|cell| cell.unwrap_or_else(empty_cell));
        self.held.into_iter().for_each(|held| succeed(held, 0, &cells));
    }
}

/// The waiters of a group that failed.
pub struct Failed(Vec<Held>);

impl Failed {
    /// Answers all of them, in queue order.
    pub fn answer(self, failure: &Failure) {
        self.0.into_iter().for_each(|held| fail(held, failure));
    }
}

impl Sealed {
    /// Every scope of the frame: the witnesses of the next one.
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// The newest version given, this group's included.
    pub fn versions(&self) -> u64 {
        self.versions
    }

    /// Takes the update out; the answers are given once it is published.
    pub fn split(self) -> (Update, Answers) {
        (self.applied.finish(), Answers { held: self.held, millis: self.millis })
    }

    /// Answers everything after a failed write or sync.
    pub fn fail(self, failure: &Failure) {
        Failed(self.held).answer(failure);
    }
}

/// The good news of a group.
pub struct Answers {
    held: Vec<Held>,
    millis: u64,
}

impl Answers {
    /// How many waiters there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Answers all of them, in queue order. `cells` are the heads that the group changed; others come from `state`.
    pub fn give(self, cells: &HashMap<StreamId, Arc<HeadCell>>, state: &StateTable) {
        let cell = |stream: StreamId| match cells.get(&stream) {
            Some(cell) => Ok(cell.clone()),
            None => state.head(stream).map(|cell| cell.unwrap_or_else(empty_cell)),
        };
        self.held.into_iter().for_each(|held| succeed(held, self.millis, &cell));
    }
}

/// Bytes of the fixed parts of descriptors.
const SLICE_ROW: usize = 117;
const WRITE_ROW: usize = 27;

fn descriptor(delta: Delta, heads: &HashMap<StreamId, Pending>, ids: &mut impl FnMut() -> CommitId) -> (Descriptor, Part) {
    match delta {
        Delta::Slice(slice) => {
            let head = heads.get(&slice.stream).and_then(|pending| pending.head.as_ref());
            // Admitted against this very head, which no later delta of the group changed.
            let head = head.expect("a slice is only opened on a head");
            let descriptor = Descriptor::Slice {
                stream: slice.stream,
                incarnation: head.incarnation,
                epoch: head.owner_epoch,
                start: slice.start,
                count: u32::try_from(slice.entries.len()).unwrap_or(u32::MAX),
                bytes: slice.bytes,
                messages: slice.messages,
                previous: head.last_commit,
                id: ids(),
                makes: head.version.next().unwrap_or(head.version),
            };
            (descriptor, Part::Entries(slice.entries))
        }
        Delta::Change { stream, makes, body } => (Descriptor::Change { stream, makes }, Part::Plain(body)),
        Delta::Write { key, onto, makes, value } => {
            let delete = value.is_none();
            (Descriptor::Write { key, onto, makes, delete }, Part::Plain(value.unwrap_or_default()))
        }
    }
}

fn apply(
    deltas: &[(Descriptor, Part)],
    places: &[Placed],
    heads: HashMap<StreamId, Pending>,
    header: &Header,
    frame_position: u64,
    applied: &mut Applied,
) -> Result<()> {
    // Changes are in the pending heads already: they precede the slice of their stream.
    let mut heads = heads;
    for ((descriptor, part), placed) in deltas.iter().zip(places) {
        match descriptor {
            Descriptor::Slice { stream, .. } | Descriptor::Change { stream, .. } => {
                if let Some(pending) = heads.remove(stream) {
                    applied.set_head(*stream, pending.head);
                }
                if let Some(commit) = commit_of(descriptor, placed, header, frame_position) {
                    applied.commit(*stream, commit)?;
                }
            }
            Descriptor::Write { key, makes, delete, .. } => {
                let value = match part {
                    Part::Plain(value) if !delete => Some(Versioned { value: value.clone(), version: *makes }),
                    _ => None,
                };
                applied.key(key.clone(), value);
            }
        }
    }
    Ok(())
}

/// What a store refuses whatever the key holds.
fn check_write(write: &Write) -> Result<()> {
    let invalid = |why: String| Err(Error::Invalid { what: format!("write of key {}: {why}", write.key) });
    let length = write.value.as_ref().map_or(0, Bytes::len);
    match (write.key.kind(), &write.value) {
        (Some(RecordType::StreamHead), _) => invalid("heads change through the log only".into()),
        (Some(RecordType::CommitPage), Some(_)) => invalid("commit pages are made by the log only".into()),
        _ if length > MAX_VALUE => invalid(format!("{length} bytes, at most {MAX_VALUE} are allowed")),
        _ => Ok(()),
    }
}

fn succeed(held: Held, millis: u64, cell: &impl Fn(StreamId) -> Result<Arc<HeadCell>>) {
    match held {
        Held::Taken { reply, offset } => reply.answer(AppendOutcome::Committed { offset, append_millis: millis }),
        Held::Refused { reply, error } => reply.answer(AppendOutcome::NotCommitted(error)),
        // A caller that left does not want the answer.
        Held::Changed { reply, outcome } => drop(reply.send(outcome.and_then(cell))),
        Held::Written { reply, verdicts } => drop(reply.send(verdicts)),
    }
}

fn fail(held: Held, failure: &Failure) {
    match held {
        Held::Taken { reply, .. } => reply.answer(match failure {
            Failure::NeverWritten(error) => AppendOutcome::NotCommitted(error.clone()),
            Failure::Unknown(error) => AppendOutcome::Unknown(error.clone()),
        }),
        Held::Refused { reply, error } => reply.answer(AppendOutcome::NotCommitted(error)),
        Held::Changed { reply, outcome } => {
            let (Failure::NeverWritten(error) | Failure::Unknown(error)) = failure;
            drop(reply.send(outcome.and(Err(error.clone()))));
        }
        Held::Written { reply, verdicts } => {
            let changed = verdicts.into_iter().map(|verdict| match (verdict, failure) {
                (Verdict::Refused(error) | Verdict::Unknown(error), _) => Verdict::Refused(error),
                (Verdict::Applied(_), Failure::Unknown(error)) => Verdict::Unknown(error.clone()),
                // A conflict may rest on a write of the same group: what is there is not known now.
                (_, Failure::Unknown(error) | Failure::NeverWritten(error)) => Verdict::Refused(error.clone()),
            });
            drop(reply.send(changed.collect()));
        }
    }
}

#[cfg(test)]
mod tests;
