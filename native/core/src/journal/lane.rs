//! The one task that writes: takes what is queued, makes it one frame, writes, syncs, publishes, answers, repeats.
//!
//! Promises: one un-synced frame at a time, so any later frame proves the one before. Nothing is published or answered before its
//! sync (L1, L2). The first failed write or sync poisons: what was in that frame is `Unknown`, everything after it is refused
//! with the first reason, for the life of the journal (L6); reads go on.
//! Does not: take verdicts (`group`), choose segments to remove (`checkpoint`).

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{select, Either};

use super::answer::Failure;
use super::checkpoint::Checkpoints;
use super::frame::{self, Header, Scope};
use super::group::{Group, Limits, Work};
use super::layout::Position;
use super::queue::{refuse, Item, Queue};
use super::roll::{Current, NoRoom, Roll};
use super::space::Space;
use super::state::{StateTable, Update};
use super::stats::Counters;
use crate::env::{AlignedBuffer, Env};
use crate::error::{Error, Result};
use crate::mutant::{active, Mutant};
use crate::types::CommitId;

/// What the lane shares with the journal's handles.
pub struct Shared {
    /// What is waiting.
    pub queue: Queue,
    /// What is published.
    pub state: Arc<StateTable>,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// Why nothing is acknowledged any more, once that is so.
    pub poison: OnceLock<Error>,
}

/// How a lane behaves.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// A group of more than one item closes before its frame gets larger, bytes.
    pub group_bytes: usize,
    /// Largest frame, bytes.
    pub frame_bytes: usize,
    /// Idle time after which the last frame is proven by a marker.
    pub marker_delay: Duration,
}

/// The task's own state: nobody else touches it.
pub struct Lane {
    env: Env,
    shared: Arc<Shared>,
    tuning: Tuning,
    roll: Roll,
    space: Space,
    checkpoints: Checkpoints,
    run: u64,
    commits: u64,
    position: Position,
    witnesses: Vec<Scope>,
    backlog: VecDeque<Item>,
    buffer: AlignedBuffer,
    marker_due: bool,
}

/// Where a lane starts.
pub struct Start {
    /// Random number of this run.
    pub run: u64,
    /// Position of the next frame.
    pub position: Position,
    /// Scopes of the last frame on disk.
    pub witnesses: Vec<Scope>,
}

impl Lane {
    /// A lane that goes on at `start`.
    pub fn new(
        env: Env,
        shared: Arc<Shared>,
        tuning: Tuning,
        roll: Roll,
        space: Space,
        checkpoints: Checkpoints,
        start: Start,
    ) -> Lane {
        let Start {
            run,
            position,
            witnesses,
        } = start;
        let (backlog, buffer) = (VecDeque::new(), AlignedBuffer::default());
        Lane {
            env,
            shared,
            tuning,
            roll,
            space,
            checkpoints,
            run,
            commits: 0,
            position,
            witnesses,
            backlog,
            buffer,
            marker_due: true,
        }
    }

    /// Works until it is closed, or nobody holds the journal any more.
    pub async fn run(mut self) {
        while !self.shared.queue.is_closed() {
            self.shared.queue.take(&mut self.backlog);
            match self.backlog.pop_front() {
                None => self.idle().await,
                Some(Item::Work(work)) => self.group(work).await,
                Some(Item::Checkpoint(reply)) => {
                    let done = self.checkpoints.complete(&self.env, &self.shared).await;
                    drop(reply.send(done));
                }
                Some(Item::Close(reply)) => {
                    let done = self.close().await;
                    // Whoever closed may open the directory again at once: nothing of it is held here any more.
                    drop(self);
                    drop(reply.send(done));
                    return;
                }
            }
            self.checkpoints.keep_up(&self.env, &self.shared).await;
        }
    }

    /// Waits for work. The last frame of a busy period is proven by a marker once the lane has been idle for a moment: writing it
    /// at once would make a lone producer wait for two syncs instead of one.
    async fn idle(&mut self) {
        let shared = self.shared.clone();
        let filled = std::pin::pin!(shared.queue.filled());
        if !self.marker_due || shared.poison.get().is_some() || active(Mutant::ForgetIdleMarker) {
            return filled.await;
        }
        let pause = self.env.clock.sleep(self.tuning.marker_delay);
        if let Either::Right(_) = select(filled, pause).await {
            self.marker().await;
        }
    }

    async fn marker(&mut self) {
        self.marker_due = false;
        let group = Group::new(self.limits(None), self.witnesses.len(), self.position.versions);
        // A full disk is no reason to stop: the next frame proves as well.
        if let Ok(header) = self.room(group.frame_bytes()).await {
            let position = self.position.offset;
            let sealed = group.seal(&header, position, &self.witnesses, || CommitId::NONE, &mut self.buffer);
            if let Ok(sealed) = sealed {
                if let Some(position) = self.write(sealed.versions(), sealed.scopes().to_vec()) {
                    self.shared.state.publish(Update::default(), position);
                    Counters::add(&self.shared.counters.markers, 1);
                }
            }
        }
    }

    async fn group(&mut self, first: Work) {
        if let Some(reason) = self.shared.poison.get() {
            return first.fail(&Failure::NeverWritten(reason.clone()));
        }
        let refuse_appends = self.space.refusal(&self.env, &self.roll, self.position.offset);
        if refuse_appends.is_some() {
            self.checkpoints.hurry();
        }
        let mut group = Group::new(
            self.limits(refuse_appends),
            self.witnesses.len(),
            self.position.versions,
        );
        let mut next = Some(Item::Work(first));
        while let Some(item) = next.take() {
            match item {
                Item::Work(work) => {
                    if let Err(work) = group.offer(&self.shared.state, work) {
                        self.backlog.push_front(Item::Work(*work));
                        break;
                    }
                }
                other => {
                    self.backlog.push_front(other);
                    break;
                }
            }
            if self.backlog.is_empty() {
                self.shared.queue.take(&mut self.backlog);
            }
            next = self.backlog.pop_front();
        }
        if group.has_no_deltas() {
            return group.into_answers().give(&self.shared.state);
        }
        self.commit(group).await;
    }

    async fn commit(&mut self, group: Group) {
        let header = match self.room(group.frame_bytes()).await {
            Ok(header) => header,
            Err(reason) => return group.fail(&Failure::NeverWritten(reason)),
        };
        let (run, commits) = (self.run, &mut self.commits);
        let ids = || {
            *commits = commits.saturating_add(1);
            CommitId::new((u128::from(run) << 64) | u128::from(*commits))
        };
        let sealed = match group.seal(&header, self.position.offset, &self.witnesses, ids, &mut self.buffer) {
            Ok(sealed) => sealed,
            Err((waiting, reason)) => {
                let reason = Error::Internal {
                    what: format!("a group does not follow from its heads: {reason}"),
                };
                self.poison(reason.clone());
                return waiting.answer(&Failure::NeverWritten(reason));
            }
        };
        let Some(position) = self.write(sealed.versions(), sealed.scopes().to_vec()) else {
            let reason = self.shared.poison.get().map(Error::to_string).unwrap_or_default();
            return sealed.fail(&Failure::Unknown(Error::Unknown { what: reason }));
        };
        let (update, answers) = sealed.split();
        self.shared.state.publish(update, position);
        Counters::add(&self.shared.counters.answered, answers.len() as u64);
        answers.give(&self.shared.state);
        if active(Mutant::AnswerBeforeSync) {
            drop(self.roll.current().file.sync_data());
        }
        self.marker_due = true;
        self.roll.prepare(&self.env, self.position.offset);
    }

    /// Writes and syncs the frame in the buffer; answers the position after it, or `None` after poisoning.
    fn write(&mut self, versions: u64, scopes: Vec<Scope>) -> Option<Position> {
        let Current { file, .. } = self.roll.current();
        let at = self.position.offset;
        let began = self.env.clock.monotonic();
        let written = match active(Mutant::SkipFrameSync) || active(Mutant::AnswerBeforeSync) {
            true => file.write_all_at(&self.buffer, at),
            false => file.write_durably_at(&self.buffer, at),
        };
        let written = match written {
            Err(_) if active(Mutant::RetryFailedSync) => file.sync_data(),
            done => done,
        };
        let took = self.env.clock.monotonic().saturating_sub(began);
        if let Err(reason) = written {
            self.poison_io(reason);
            return None;
        }
        let bytes = self.buffer.len() as u64;
        self.position.offset = self.position.offset.saturating_add(bytes);
        self.position.sequence = self.position.sequence.saturating_add(1);
        self.position.versions = versions;
        self.witnesses = scopes;
        let counters = &self.shared.counters;
        Counters::add(&counters.frames, 1);
        Counters::add(&counters.syncs, 1);
        Counters::add(&counters.sync_nanos, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        Counters::add(&counters.bytes, bytes);
        self.checkpoints.grown(bytes, counters);
        // A buffer that one large group needed does not stay for ever.
        if self.buffer.footprint() > self.tuning.group_bytes.saturating_mul(2) {
            self.buffer = AlignedBuffer::default();
        }
        Some(self.position)
    }

    /// Makes room for a frame, in the next segment if need be, and answers its header.
    async fn room(&mut self, bytes: usize) -> Result<Header> {
        match self.roll.room(&mut self.position, bytes as u64).await {
            Ok(()) => Ok(self.header()),
            Err(NoRoom::Space(reason)) => Err(reason),
            Err(NoRoom::Broken(reason)) => {
                self.poison(reason.clone());
                Err(reason)
            }
        }
    }

    fn header(&self) -> Header {
        Header {
            segment: self.position.segment,
            sequence: self.position.sequence,
            durable_through: self.position.sequence.saturating_sub(1),
            run: self.run,
            time_millis: self.env.clock.wall_millis(),
        }
    }

    fn limits(&self, refuse_appends: Option<Error>) -> Limits {
        Limits {
            soft: self.tuning.group_bytes,
            hard: self.tuning.frame_bytes,
            refuse_appends,
        }
    }

    fn poison_io(&self, reason: io::Error) {
        let what = format!(
            "{}; nothing is acknowledged any more by this process: check the disk and restart the broker",
            self.roll.place(self.position.offset)
        );
        self.poison(Error::io("write", what, reason));
    }

    fn poison(&self, reason: Error) {
        tracing::error!(%reason, "the journal stopped");
        // The first reason stays.
        let _ = self.shared.poison.set(reason);
    }

    async fn close(&mut self) -> Result<()> {
        if self.marker_due && self.shared.poison.get().is_none() && !active(Mutant::ForgetIdleMarker) {
            self.marker().await;
        }
        let done = match self.shared.poison.get() {
            Some(reason) => Err(reason.clone()),
            None => self.checkpoints.complete(&self.env, &self.shared).await,
        };
        self.shared.queue.close(&closed());
        done
    }
}

impl Drop for Lane {
    /// Also after a panic: nobody waits for ever, and nothing is acknowledged by a lane that is gone.
    fn drop(&mut self) {
        if !self.shared.queue.is_closed() {
            self.poison(Error::Internal {
                what: "the journal's writer ended unexpectedly".into(),
            });
        }
        let reason = self.shared.poison.get().cloned().unwrap_or_else(closed);
        self.shared.queue.close(&reason);
        self.backlog.drain(..).for_each(|item| refuse(item, &reason));
    }
}

/// Why a closed journal takes nothing.
pub fn closed() -> Error {
    Error::Closed {
        what: "the journal".into(),
    }
}

/// The largest frame that fits into a segment of `segment_bytes`.
pub fn largest_frame(segment_bytes: u64) -> usize {
    let room = usize::try_from(segment_bytes.saturating_sub(super::segment::HEADER_BYTES)).unwrap_or(usize::MAX);
    room / frame::BLOCK * frame::BLOCK
}
