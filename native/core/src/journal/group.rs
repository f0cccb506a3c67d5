//! When a group closes, and the verdict on everything in it. No disk in here.
//!
//! Promises: verdicts are taken in queue order against the published state and what the group itself will change, so that fence
//! and change are one step (L5) and ranges touch (L4). A verdict that rests on the group is answered with the group, also a
//! refusal (L2).
//! A group closes when it is full, or before an item that would have to follow a commit of its own stream inside the group
//! (a head change, after which the commit's place would have to be known).

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::oneshot;

use super::answer::{fail, Answers, Entries, Failed, Failure, Held};
use super::apply::{commit_of, Applied};
use super::by_stream::ByStream;
use super::delta;
use super::frame::{self, Descriptor, Header, Part, Placed, Scope};
use super::lookup::Lookup;
use super::state::{StateTable, Update};
use crate::commit::{Append, Changed, HeadCell, HeadChange, StreamHead, Tail};
use crate::env::AlignedBuffer;
use crate::error::{Error, Result};
use crate::metadata::{Expected, Verdict, Version, Versioned, Write};
use crate::record::{Key, RecordType};
use crate::types::{CommitId, CommitVersion, Incarnation, Offset, OwnerEpoch, StreamId};

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
            Work::Append(append) => {
                let (reply, offset, slice) = (append.reply, append.offset, 0);
                fail(Held::Taken { reply, offset, slice }, failure);
            }
            Work::Change { stream, reply, .. } => fail(
                Held::Changed {
                    reply,
                    outcome: Ok(stream),
                },
                failure,
            ),
            Work::Write { batch, reply } => {
                let verdicts = batch.iter().map(|_| Verdict::Applied(Version(0))).collect();
                fail(Held::Written { reply, verdicts }, failure);
            }
        }
    }
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

/// What a group knows of one stream.
struct Pending {
    base: Base,
    /// Runs ahead of the base by the open slice.
    tail: Option<Tail>,
    /// What a slice follows from; `None` without a head.
    intent: Option<Intent>,
    slice: Option<usize>,
}

/// The head that a group builds on.
enum Base {
    /// The published one, which stays as it is until this group is published: no copy of it is needed.
    Published(Option<Arc<HeadCell>>),
    /// As it was changed earlier in the group.
    Changed(Option<StreamHead>),
}

impl Base {
    fn with<T>(&self, look: impl FnOnce(Option<&StreamHead>) -> T) -> T {
        match self {
            Base::Published(None) => look(None),
            Base::Published(Some(cell)) => cell.with(look),
            Base::Changed(head) => look(head.as_ref()),
        }
    }
}

impl Pending {
    fn on(base: Base) -> Pending {
        let (tail, intent) = base.with(|head| (head.map(StreamHead::tail), head.map(Intent::of)));
        let slice = None;
        Pending {
            base,
            tail,
            intent,
            slice,
        }
    }
}

/// A slice that takes entries, or another finished delta.
enum Delta {
    Slice(Slice),
    Change {
        stream: StreamId,
        makes: CommitVersion,
        body: Bytes,
    },
    Write {
        key: Key,
        onto: Option<Version>,
        makes: Version,
        value: Option<Bytes>,
    },
}

struct Slice {
    stream: StreamId,
    /// Of the published head that it follows from; `None` when the group itself has changed the head before.
    cell: Option<Arc<HeadCell>>,
    intent: Intent,
    start: Offset,
    entries: Vec<(Bytes, u32)>,
    bytes: u64,
    messages: u64,
}

/// What a commit follows from: fixed when the slice is opened, because nothing of its stream may come in between.
#[derive(Clone, Copy)]
struct Intent {
    incarnation: Incarnation,
    epoch: OwnerEpoch,
    previous: CommitId,
    makes: CommitVersion,
}

impl Intent {
    fn of(head: &StreamHead) -> Intent {
        Intent {
            incarnation: head.incarnation,
            epoch: head.owner_epoch,
            previous: head.last_commit,
            makes: head.version.next().unwrap_or(head.version),
        }
    }
}

/// A group that is being filled.
pub struct Group {
    limits: Limits,
    heads: ByStream<Pending>,
    keys: HashMap<Key, Option<Versioned>>,
    deltas: Vec<Delta>,
    held: Vec<Held>,
    healed: Vec<StreamId>,
    versions: u64,
    size: Size,
}

/// How large a frame has become.
struct Size {
    table: usize,
    body: usize,
}

impl Size {
    /// Whether so much more fits; a group without a delta may take one large item.
    fn fits(&self, more: (usize, usize), has_deltas: bool, limits: &Limits) -> bool {
        let (table, body) = more;
        let limit = if has_deltas { limits.soft } else { limits.hard };
        frame::frame_bytes(self.table.saturating_add(table), self.body.saturating_add(body)) <= limit
    }

    fn grow(&mut self, table: usize, body: usize) {
        self.table = self.table.saturating_add(table);
        self.body = self.body.saturating_add(body);
    }
}

/// A group whose frame is in the buffer, to be written.
pub struct Sealed {
    applied: Applied,
    held: Vec<Held>,
    entries: Vec<Entries>,
    versions: u64,
    millis: u64,
    scopes: Vec<Scope>,
}

impl Group {
    /// An empty group behind a frame that touched `witnesses` scopes; `versions` is the newest version given.
    pub fn new(limits: Limits, witnesses: usize, versions: u64) -> Group {
        Group {
            limits,
            heads: ByStream::default(),
            keys: HashMap::new(),
            deltas: Vec::new(),
            held: Vec::new(),
            healed: Vec::new(),
            versions,
            size: Size {
                table: witnesses.saturating_mul(16),
                body: 0,
            },
        }
    }

    /// Whether there is nothing to write, only answers to give.
    pub fn has_no_deltas(&self) -> bool {
        self.deltas.is_empty()
    }

    /// Bytes of the frame that this group makes.
    pub fn frame_bytes(&self) -> usize {
        frame::frame_bytes(self.size.table, self.size.body)
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
        let body = frame::entry_bytes(append.entry.len());
        let admitted = match &self.limits.refuse_appends {
            Some(error) => Err(error.clone()),
            None => pending(&mut self.heads, state, stream).and_then(|pending| admit(pending, &append)),
        };
        let (pending, tail, intent) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => {
                self.held.push(Held::Refused {
                    reply: append.reply,
                    error,
                });
                return Ok(());
            }
        };
        let table = if pending.slice.is_some() { 0 } else { SLICE_ROW };
        if !self.size.fits((table, body), !self.deltas.is_empty(), &self.limits) {
            if !self.deltas.is_empty() {
                return Err(Box::new(Work::Append(append)));
            }
            let what = format!(
                "an entry of {} bytes does not fit into a journal segment",
                append.entry.len()
            );
            self.held.push(Held::Refused {
                reply: append.reply,
                error: Error::Invalid { what },
            });
            return Ok(());
        }
        self.size.grow(table, body);
        pending.tail = Some(tail);
        let slice = *pending.slice.get_or_insert_with(|| {
            let (start, entries) = (append.offset, Vec::new());
            let cell = match &pending.base {
                Base::Published(cell) => cell.clone(),
                Base::Changed(_) => None,
            };
            self.deltas.push(Delta::Slice(Slice {
                stream,
                cell,
                intent,
                start,
                entries,
                bytes: 0,
                messages: 0,
            }));
            self.deltas.len().saturating_sub(1)
        });
        if let Some(Delta::Slice(open)) = self.deltas.get_mut(slice) {
            open.bytes = open.bytes.saturating_add(append.entry.len() as u64);
            open.messages = open.messages.saturating_add(u64::from(append.messages));
            open.entries.push((append.entry, append.crc32c));
        }
        self.held.push(Held::Taken {
            reply: append.reply,
            offset: append.offset,
            slice,
        });
        Ok(())
    }

    fn change(
        &mut self,
        state: &StateTable,
        stream: StreamId,
        change: HeadChange,
        reply: oneshot::Sender<Result<Arc<HeadCell>>>,
    ) -> std::result::Result<(), Box<Work>> {
        let change = match change {
            HeadChange::Claim { owner } if owner.len() > delta::MAX_OWNER => HeadChange::Claim {
                owner: delta::cut(&owner).into(),
            },
            other => other,
        };
        // The one thing that can still be done with a damaged stream, and what ends its damage.
        let heals = matches!(change, HeadChange::Delete { epoch: None }) && state.is_damaged(stream);
        let pending = if heals {
            doomed(&mut self.heads, state, stream)
        } else {
            pending(&mut self.heads, state, stream)
        };
        let pending = match pending {
            Ok(pending) => pending,
            Err(error) => {
                self.held.push(Held::Changed {
                    reply,
                    outcome: Err(error),
                });
                return Ok(());
            }
        };
        if pending.slice.is_some() {
            return Err(Box::new(Work::Change { stream, change, reply }));
        }
        let (before, judged) = pending.base.with(|head| {
            let before = head.map_or(CommitVersion::new(0), |head| head.version);
            (before, change.judge(stream, head))
        });
        let gone = before.next().unwrap_or(before);
        let (next, makes) = match judged {
            Err(error) => {
                self.held.push(Held::Changed {
                    reply,
                    outcome: Err(error),
                });
                return Ok(());
            }
            Ok(Changed::Nothing) if heals => (None, gone),
            Ok(Changed::Nothing) => {
                self.held.push(Held::Changed {
                    reply,
                    outcome: Ok(stream),
                });
                return Ok(());
            }
            Ok(Changed::Head(next)) => {
                let makes = next.version;
                (Some(*next), makes)
            }
            Ok(Changed::Deleted) => (None, gone),
        };
        let body = delta::encode(&change);
        let table = Descriptor::Change { stream, makes }.table_bytes();
        let has_deltas = !self.deltas.is_empty();
        if has_deltas && !self.size.fits((table, body.len()), has_deltas, &self.limits) {
            return Err(Box::new(Work::Change { stream, change, reply }));
        }
        self.size.grow(table, body.len());
        *pending = Pending::on(Base::Changed(next));
        if heals {
            self.healed.push(stream);
        }
        self.deltas.push(Delta::Change { stream, makes, body });
        self.held.push(Held::Changed {
            reply,
            outcome: Ok(stream),
        });
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
        let (table, body) = sizes.fold((0usize, 0usize), |sum, one| {
            (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1))
        });
        if !self.size.fits((table, body), !self.deltas.is_empty(), &self.limits) {
            if !self.deltas.is_empty() {
                return Err(Box::new(Work::Write { batch, reply }));
            }
            let what = format!(
                "a batch of {} bytes does not fit into a journal segment",
                table.saturating_add(body)
            );
            let verdicts = batch
                .iter()
                .map(|_| Verdict::Refused(Error::Invalid { what: what.clone() }))
                .collect();
            self.held.push(Held::Written { reply, verdicts });
            return Ok(());
        }
        self.size.grow(table, body);
        let lookup = Lookup::of(state, &batch);
        let verdicts = batch
            .into_iter()
            .map(|write| self.judge(state, &lookup, write))
            .collect();
        self.held.push(Held::Written { reply, verdicts });
        Ok(())
    }

    fn judge(&mut self, state: &StateTable, lookup: &Lookup, write: Write) -> Verdict {
        if let Err(error) = check_write(&write) {
            return Verdict::Refused(error);
        }
        let found = match self.keys.get(&write.key) {
            Some(pending) => Ok(pending.clone()),
            None => lookup.get(state, &write.key),
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
            return Verdict::Refused(Error::Internal {
                what: "the journal has used up its versions".into(),
            });
        };
        self.versions = next;
        let makes = Version(next);
        let verdict = Verdict::Applied(if write.value.is_some() {
            makes
        } else {
            onto.unwrap_or(makes)
        });
        self.keys.insert(
            write.key.clone(),
            write.value.clone().map(|value| Versioned { value, version: makes }),
        );
        self.deltas.push(Delta::Write {
            key: write.key,
            onto,
            makes,
            value: write.value,
        });
        verdict
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
        out: &mut AlignedBuffer,
    ) -> std::result::Result<Sealed, (Failed, Error)> {
        let Group {
            heads,
            deltas,
            held,
            healed,
            versions,
            ..
        } = self;
        let (deltas, cells): (Vec<(Descriptor, Part)>, Vec<_>) =
            deltas.into_iter().map(|delta| descriptor(delta, &mut ids)).unzip();
        let places = frame::encode(header, &deltas, witnesses, out);
        let mut applied = Applied::default();
        healed.into_iter().for_each(|stream| applied.heal(stream));
        match apply(&deltas, cells, &places, heads, header, frame_position, &mut applied) {
            Ok(()) => {
                let scopes = frame::scopes(deltas.iter().map(|(descriptor, _)| descriptor));
                let entries = deltas.into_iter().map(|(_, part)| entries_of(part)).collect();
                Ok(Sealed {
                    applied,
                    held,
                    entries,
                    versions,
                    millis: header.time_millis,
                    scopes,
                })
            }
            Err(error) => Err((Failed(held), error)),
        }
    }

    /// Answers everything in a group that is not going to be written.
    pub fn fail(self, failure: &Failure) {
        Failed(self.held).answer(failure);
    }

    /// The answers of a group that has nothing to write.
    pub fn into_answers(self) -> Answers {
        Answers::new(self.held, 0, Vec::new())
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
        (
            self.applied.finish(),
            Answers::new(self.held, self.millis, self.entries),
        )
    }

    /// Answers everything after a failed write or sync.
    pub fn fail(self, failure: &Failure) {
        Failed(self.held).answer(failure);
    }
}

/// Bytes of the fixed parts of descriptors.
const SLICE_ROW: usize = 117;
const WRITE_ROW: usize = 27;

/// What the group knows of a stream, from the published head if it is the first look.
fn pending<'a>(heads: &'a mut ByStream<Pending>, state: &StateTable, stream: StreamId) -> Result<&'a mut Pending> {
    match heads.entry(stream) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(free) => Ok(free.insert(Pending::on(Base::Published(state.head(stream)?)))),
    }
}

/// The head of a damaged stream that is being deleted, whatever is left of it.
fn doomed<'a>(heads: &'a mut ByStream<Pending>, state: &StateTable, stream: StreamId) -> Result<&'a mut Pending> {
    let left = Pending::on(Base::Published(state.cell(stream)?));
    Ok(heads.entry(stream).or_insert(Pending { tail: None, ..left }))
}

/// The verdict on an append: the tail after it, and what a commit of it follows from.
fn admit<'a>(pending: &'a mut Pending, append: &Append) -> Result<(&'a mut Pending, Tail, Intent)> {
    let (Some(mut tail), Some(intent)) = (pending.tail, pending.intent) else {
        return Err(Error::NotFound {
            what: format!("stream {}", append.stream),
        });
    };
    tail.take(append.epoch, append.offset)?;
    Ok((pending, tail, intent))
}

/// What appends brought, to be given back.
fn entries_of(part: Part) -> Entries {
    match part {
        Part::Entries(entries) => entries.into_iter(),
        Part::Plain(_) => Entries::default(),
    }
}

/// A delta as it is written, and the cell of the published head that a slice follows from.
fn descriptor(delta: Delta, ids: &mut impl FnMut() -> CommitId) -> ((Descriptor, Part), Option<Arc<HeadCell>>) {
    match delta {
        Delta::Slice(slice) => {
            let Intent {
                incarnation,
                epoch,
                previous,
                makes,
            } = slice.intent;
            let descriptor = Descriptor::Slice {
                stream: slice.stream,
                incarnation,
                epoch,
                start: slice.start,
                count: u32::try_from(slice.entries.len()).unwrap_or(u32::MAX),
                bytes: slice.bytes,
                messages: slice.messages,
                previous,
                id: ids(),
                makes,
            };
            ((descriptor, Part::Entries(slice.entries)), slice.cell)
        }
        Delta::Change { stream, makes, body } => ((Descriptor::Change { stream, makes }, Part::Plain(body)), None),
        Delta::Write {
            key,
            onto,
            makes,
            value,
        } => {
            let delete = value.is_none();
            let descriptor = Descriptor::Write {
                key,
                onto,
                makes,
                delete,
            };
            ((descriptor, Part::Plain(value.unwrap_or_default())), None)
        }
    }
}

fn apply(
    deltas: &[(Descriptor, Part)],
    cells: Vec<Option<Arc<HeadCell>>>,
    places: &[Placed],
    heads: ByStream<Pending>,
    header: &Header,
    frame_position: u64,
    applied: &mut Applied,
) -> Result<()> {
    // Changes are in the pending heads already: they precede the slice of their stream.
    let mut heads = heads;
    for (((descriptor, part), cell), placed) in deltas.iter().zip(cells).zip(places) {
        match descriptor {
            Descriptor::Slice { stream, .. } | Descriptor::Change { stream, .. } => {
                let commit = commit_of(descriptor, placed, header, frame_position);
                if let (Some(commit), Some(cell)) = (commit, cell) {
                    applied.commit_in_place(*stream, cell, commit)?;
                    continue;
                }
                if let Some(Base::Changed(head)) = heads.remove(stream).map(|pending| pending.base) {
                    applied.set_head(*stream, head);
                }
                if let Some(commit) = commit {
                    applied.commit(*stream, commit)?;
                }
            }
            Descriptor::Write { key, makes, delete, .. } => {
                let value = match part {
                    Part::Plain(value) if !delete => Some(Versioned {
                        value: value.clone(),
                        version: *makes,
                    }),
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
    let invalid = |why: String| {
        Err(Error::Invalid {
            what: format!("write of key {}: {why}", write.key),
        })
    };
    let length = write.value.as_ref().map_or(0, Bytes::len);
    match (write.key.kind(), &write.value) {
        (Some(RecordType::StreamHead), _) => invalid("heads change through the log only".into()),
        (Some(RecordType::CommitPage), Some(_)) => invalid("commit pages are made by the log only".into()),
        _ if length > MAX_VALUE => invalid(format!("{length} bytes, at most {MAX_VALUE} are allowed")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
