//! The lane: the only task that moves heads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::future::{select, Either};
use tokio::sync::{mpsc, oneshot, watch};

use super::attempt::{Attempt, Cause, ChangeReply, QueuedChange};
use super::before::{write_pages, write_slices, Draft};
use super::settle::{judge, settle, Settled};
use super::{closed, slice, Wal};
use crate::commit::{Append, AppendOutcome, Changed, Commit, HeadCell, HeadChange, ReadTarget, SliceEntry, StreamHead};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::metadata::{MetadataStore, Verdict, Version, Versioned, Write};
use crate::mutant::{active, Mutant};
use crate::record::{Key, Record};
use crate::types::{CommitId, StreamId};
use crate::wal::{SliceDescriptor, WalSlice};

/// Most entries and bytes of one slice; what does not fit joins the next.
const MAX_SLICE_ENTRIES: usize = 4096;
const MAX_SLICE_BYTES: u64 = 8 << 20;
/// How often a change is judged anew after losing against another writer of the head.
const MAX_TRIES: u32 = 16;

pub(super) enum Message {
    Load {
        stream: StreamId,
        reply: oneshot::Sender<Result<Option<Arc<HeadCell>>>>,
    },
    Loaded {
        stream: StreamId,
        result: Result<Option<Versioned>>,
    },
    Append(Append),
    Change {
        stream: StreamId,
        change: HeadChange,
        reply: ChangeReply,
    },
    /// `None` = stopped before it was settled.
    Settled {
        attempt: Box<Attempt>,
        settled: Option<Settled>,
    },
    Close(oneshot::Sender<()>),
}

enum Queued {
    Append(Append),
    Change(QueuedChange),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing is known of the stream yet.
    Unloaded,
    /// A read of the head is under way; the queue waits for it.
    Loading,
    /// The queue may go on.
    Free,
    /// An attempt's answer was lost; the queue waits (L6).
    Unsettled,
}

/// What the lane knows of one stream.
struct Line {
    phase: Phase,
    cell: Arc<HeadCell>,
    stored: Option<(StreamHead, Version)>,
    queue: VecDeque<Queued>,
    loads: Vec<oneshot::Sender<Result<Option<Arc<HeadCell>>>>>,
}

impl Line {
    fn new() -> Line {
        let cell = Arc::new(HeadCell::empty());
        Line {
            phase: Phase::Unloaded,
            cell,
            stored: None,
            queue: VecDeque::new(),
            loads: Vec::new(),
        }
    }

    /// Takes over what is stored now and publishes it if it is news.
    fn adopt(&mut self, stored: Option<(StreamHead, Version)>) {
        let known = self.stored.as_ref().map(|(_, version)| *version);
        if known == stored.as_ref().map(|(_, version)| *version) {
            return;
        }
        if self.stored.is_none() {
            // A stream that is born again never answers through the cell of its former life.
            self.cell = Arc::new(HeadCell::empty());
        }
        let head = stored.as_ref().map(|(head, _)| head.clone());
        self.stored = stored;
        self.cell.publish(|published| *published = head);
    }

    fn refuse_all(&mut self, error: &Error) {
        for queued in self.queue.drain(..) {
            match queued {
                Queued::Append(append) => append.reply.answer(AppendOutcome::NotCommitted(error.clone())),
                Queued::Change(queued) => drop(queued.reply.send(Err(error.clone()))),
            }
        }
        for load in self.loads.drain(..) {
            // A caller that left needs no answer.
            let _ = load.send(Err(error.clone()));
        }
    }
}

pub(super) struct Lane {
    env: Env,
    wal: Arc<dyn Wal>,
    store: Arc<dyn MetadataStore>,
    mailbox: mpsc::WeakUnboundedSender<Message>,
    stopped: watch::Receiver<bool>,
    lines: BTreeMap<StreamId, Line>,
    unsettled: usize,
    closing: Vec<oneshot::Sender<()>>,
}

impl Lane {
    pub fn new(
        env: Env,
        wal: Arc<dyn Wal>,
        store: Arc<dyn MetadataStore>,
        mailbox: mpsc::WeakUnboundedSender<Message>,
        stopped: watch::Receiver<bool>,
    ) -> Lane {
        Lane {
            env,
            wal,
            store,
            mailbox,
            stopped,
            lines: BTreeMap::new(),
            unsettled: 0,
            closing: Vec::new(),
        }
    }

    pub async fn run(mut self, mut mailbox: mpsc::UnboundedReceiver<Message>) {
        loop {
            while let Ok(message) = mailbox.try_recv() {
                self.take(message);
            }
            if !self.closing.is_empty() {
                // What waits behind an unsettled attempt is answered after it.
                let settled = self.lines.values_mut().filter(|line| line.phase != Phase::Unsettled);
                settled.for_each(|line| line.refuse_all(&closed()));
                if self.unsettled == 0 {
                    break;
                }
            } else if self.round().await {
                continue;
            }
            match mailbox.recv().await {
                Some(message) => self.take(message),
                None => break,
            }
        }
        mailbox.close();
        while let Ok(message) = mailbox.try_recv() {
            self.take(message);
        }
        self.lines.values_mut().for_each(|line| line.refuse_all(&closed()));
        for closing in self.closing {
            // A caller that left needs no answer.
            let _ = closing.send(());
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Load { stream, reply } => {
                let line = self.lines.entry(stream).or_insert_with(Line::new);
                line.loads.push(reply);
                match line.phase {
                    Phase::Free if !line.queue.is_empty() => self.answer_loads(stream),
                    // An idle head is read again: another owner may have moved it.
                    Phase::Unloaded | Phase::Free => self.load(stream),
                    Phase::Loading => {}
                    Phase::Unsettled => self.answer_loads(stream),
                }
            }
            Message::Loaded { stream, result } => self.loaded(stream, result),
            Message::Append(append) => self.queue(append.stream, Queued::Append(append)),
            Message::Change { stream, change, reply } => {
                self.queue(
                    stream,
                    Queued::Change(QueuedChange {
                        change,
                        reply,
                        tries: 0,
                    }),
                );
            }
            Message::Settled { attempt, settled } => {
                self.unsettled -= 1;
                if let Some(line) = self.lines.get_mut(&attempt.stream) {
                    line.phase = Phase::Free;
                }
                match settled {
                    Some(settled) => self.settled(*attempt, settled),
                    None => attempt.unknown(),
                }
            }
            Message::Close(reply) => self.closing.push(reply),
        }
    }

    fn queue(&mut self, stream: StreamId, queued: Queued) {
        let line = self.lines.entry(stream).or_insert_with(Line::new);
        line.queue.push_back(queued);
        if line.phase == Phase::Unloaded {
            self.load(stream);
        }
    }

    fn load(&mut self, stream: StreamId) {
        let Some(line) = self.lines.get_mut(&stream) else {
            return;
        };
        // Without a sender nobody waits for the answer any more.
        let Some(mailbox) = self.mailbox.upgrade() else { return };
        line.phase = Phase::Loading;
        let read = self.store.get(Key::stream_head(stream));
        let task = async move {
            drop(mailbox.send(Message::Loaded {
                stream,
                result: read.await,
            }))
        };
        self.env.spawner.spawn("head read", Box::pin(task));
    }

    fn loaded(&mut self, stream: StreamId, result: Result<Option<Versioned>>) {
        let Some(line) = self.lines.get_mut(&stream) else {
            return;
        };
        match result.and_then(|current| decode(stream, current)) {
            Ok(stored) => {
                line.phase = Phase::Free;
                line.adopt(stored);
                self.answer_loads(stream);
            }
            Err(error) => {
                line.phase = Phase::Unloaded;
                line.refuse_all(&error);
            }
        }
    }

    fn answer_loads(&mut self, stream: StreamId) {
        let Some(line) = self.lines.get_mut(&stream) else {
            return;
        };
        let cell = line.stored.is_some().then(|| line.cell.clone());
        for load in line.loads.drain(..) {
            // A caller that left needs no answer.
            let _ = load.send(Ok(cell.clone()));
        }
    }

    /// Writes and commits one attempt per stream that has something queued. False when there was nothing to do.
    async fn round(&mut self) -> bool {
        let free: Vec<StreamId> = self
            .lines
            .iter()
            .filter(|(_, l)| l.phase == Phase::Free && !l.queue.is_empty())
            .map(|(s, _)| *s)
            .collect();
        let mut drafts = Vec::new();
        for stream in &free {
            drafts.extend(self.draft(*stream));
        }
        let written = write_slices(&*self.wal, drafts).await;
        let paged = write_pages(&*self.store, written).await;
        self.write_heads(paged).await;
        !free.is_empty()
    }

    /// Takes from a stream's queue what one attempt can carry; answers what is refused at once.
    fn draft(&mut self, stream: StreamId) -> Option<Draft> {
        let now = self.env.clock.wall_millis();
        let line = self.lines.get_mut(&stream)?;
        let before = line.stored.as_ref().map(|(_, version)| *version);
        let mut appends: Vec<Append> = Vec::new();
        let mut bytes = 0u64;
        let mut tail = line.stored.as_ref().map(|(head, _)| head.tail());
        while let Some(queued) = line.queue.pop_front() {
            let append = match queued {
                Queued::Append(append) => append,
                Queued::Change(queued) if appends.is_empty() => {
                    let head = line.stored.as_ref().map(|(head, _)| head);
                    let next = match queued.change.judge(stream, head) {
                        Ok(Changed::Head(next)) => Some(*next),
                        Ok(Changed::Deleted) => None,
                        Ok(Changed::Nothing) => {
                            // A caller that left needs no answer.
                            let _ = queued.reply.send(Ok(line.cell.clone()));
                            return None;
                        }
                        Err(error) => {
                            // A caller that left needs no answer.
                            let _ = queued.reply.send(Err(error));
                            return None;
                        }
                    };
                    let cause = Cause::Change(queued);
                    return Some(Draft {
                        attempt: Attempt {
                            stream,
                            before,
                            next,
                            fold: None,
                            cause,
                        },
                        slice: None,
                    });
                }
                change @ Queued::Change(_) => {
                    line.queue.push_front(change);
                    break;
                }
            };
            let mut append = append;
            if active(Mutant::RetryUnknownAsNew) {
                append.offset = tail.map_or(append.offset, |tail| tail.end.max(append.offset));
            }
            let verdict = match &mut tail {
                Some(tail) => tail.take(append.epoch, append.offset),
                None => Err(Error::NotFound {
                    what: format!("stream {stream}"),
                }),
            };
            match verdict {
                Ok(()) => {
                    bytes = bytes.saturating_add(append.entry.len() as u64);
                    appends.push(append);
                    if appends.len() >= MAX_SLICE_ENTRIES || bytes >= MAX_SLICE_BYTES {
                        break;
                    }
                }
                Err(error) => append.reply.answer(AppendOutcome::NotCommitted(error)),
            }
        }
        let (head, _) = line.stored.as_ref()?;
        let first = appends.first()?;
        let id = CommitId::new(self.env.random.next_u128().max(1));
        let entries: Vec<SliceEntry> = appends
            .iter()
            .map(|a| SliceEntry {
                entry: a.entry.clone(),
                crc32c: a.crc32c,
            })
            .collect();
        let (body, crc32c) = slice::encode(&entries);
        let count = u32::try_from(appends.len()).unwrap_or(u32::MAX);
        let descriptor = SliceDescriptor {
            stream,
            incarnation: head.incarnation,
            epoch: first.epoch,
            start: first.offset,
            count,
            previous: head.last_commit,
            id,
            crc32c,
        };
        let commit = Commit {
            id,
            start: first.offset,
            count,
            bytes,
            messages: appends.iter().map(|a| u64::from(a.messages)).sum(),
            append_millis: now,
            target: ReadTarget::Memory { slice: 0 },
            crc32c,
        };
        let next = Some(head.clone());
        let cause = Cause::Appends {
            id,
            start: first.offset,
            append_millis: now,
            appends,
        };
        let attempt = Attempt {
            stream,
            before,
            next,
            fold: None,
            cause,
        };
        Some(Draft {
            attempt,
            slice: Some((WalSlice { descriptor, body }, commit)),
        })
    }

    /// Second step: the commit point of every attempt, in one batch with independent verdicts (L2).
    async fn write_heads(&mut self, attempts: Vec<Attempt>) {
        let mut sent = Vec::new();
        let mut batch = Vec::new();
        for attempt in attempts {
            match attempt.write() {
                Ok(write) => {
                    batch.push(write.clone());
                    sent.push((attempt, write));
                }
                Err(error) => attempt.refused(error),
            }
        }
        if batch.is_empty() {
            return;
        }
        let mut verdicts = self.store.write(batch).await.into_iter();
        for (attempt, write) in sent {
            match verdicts.next() {
                Some(Verdict::Applied(version)) => self.settled(attempt, Settled::Applied(version)),
                Some(Verdict::Refused(error)) => attempt.refused(error),
                Some(Verdict::Conflict(current)) => {
                    match judge(&*self.store, attempt.stream, &write, attempt.commit(), current).await {
                        Ok(settled) => self.settled(attempt, settled),
                        Err(_) => self.suspend(attempt, write),
                    }
                }
                Some(Verdict::Unknown(error)) if active(Mutant::LostMeansNotCommitted) => attempt.refused(error),
                Some(Verdict::Unknown(_)) if active(Mutant::LostMeansCommitted) => {
                    match self.lines.get(&attempt.stream).map(|line| line.cell.clone()) {
                        Some(cell) => attempt.done(&cell),
                        None => attempt.unknown(),
                    }
                }
                Some(Verdict::Unknown(_)) if active(Mutant::RetryUnknownAsNew) => self.retry_as_new(attempt),
                Some(Verdict::Unknown(_)) | None => self.suspend(attempt, write),
            }
        }
    }

    /// What [`Mutant::RetryUnknownAsNew`] does.
    fn retry_as_new(&mut self, attempt: Attempt) {
        let Some(line) = self.lines.get_mut(&attempt.stream) else {
            return attempt.unknown();
        };
        let again: Vec<Queued> = match attempt.cause {
            Cause::Appends { appends, .. } => appends.into_iter().map(Queued::Append).collect(),
            Cause::Change(queued) => vec![Queued::Change(queued)],
        };
        again.into_iter().rev().for_each(|queued| line.queue.push_front(queued));
        self.load(attempt.stream);
    }

    /// The answer was lost: the stream waits, a task of its own finds out.
    fn suspend(&mut self, attempt: Attempt, write: Write) {
        let (Some(mailbox), Some(line)) = (self.mailbox.upgrade(), self.lines.get_mut(&attempt.stream)) else {
            attempt.unknown();
            return;
        };
        tracing::warn!(stream = %attempt.stream, "the answer to a head update was lost; the stream waits until it is settled");
        line.phase = Phase::Unsettled;
        self.unsettled += 1;
        let search = settle(
            self.env.clone(),
            self.store.clone(),
            attempt.stream,
            write,
            attempt.commit(),
        );
        let mut stopped = self.stopped.clone();
        let attempt = Box::new(attempt);
        let task = async move {
            // An error means that the log is gone, which stops the search too.
            let stop = Box::pin(async move { drop(stopped.wait_for(|stop| *stop).await) });
            let settled = match select(Box::pin(search), stop).await {
                Either::Left((settled, _)) => Some(settled),
                Either::Right(_) => None,
            };
            // A lane that has ended drops the attempt, which answers `Unknown`.
            drop(mailbox.send(Message::Settled { attempt, settled }));
        };
        self.env.spawner.spawn("settle head update", Box::pin(task));
    }

    fn settled(&mut self, attempt: Attempt, settled: Settled) {
        let stream = attempt.stream;
        let Some(line) = self.lines.get_mut(&stream) else {
            return attempt.unknown();
        };
        match settled {
            Settled::Applied(version) => {
                let next = attempt.next.clone().map(|head| (head, version));
                line.adopt(next);
                let cell = line.cell.clone();
                attempt.done(&cell);
            }
            Settled::Found(current) => match decode(stream, Some(current)) {
                Ok(stored) => {
                    line.adopt(stored);
                    let cell = line.cell.clone();
                    attempt.done(&cell);
                }
                Err(_) => attempt.unknown(),
            },
            Settled::Lost(current) => match decode(stream, current) {
                Ok(stored) => {
                    line.adopt(stored);
                    self.lost(attempt);
                }
                Err(error) => attempt.refused(error),
            },
        }
    }

    /// The head moved on without the attempt: an append is refused, a change is judged anew on the head that won.
    fn lost(&mut self, attempt: Attempt) {
        let Some(line) = self.lines.get_mut(&attempt.stream) else {
            return attempt.unknown();
        };
        match attempt.cause {
            Cause::Change(mut queued) if queued.tries < MAX_TRIES => {
                queued.tries += 1;
                line.queue.push_front(Queued::Change(queued));
            }
            Cause::Appends { ref appends, start, .. } => {
                let verdict = match (&line.stored, appends.first()) {
                    (Some((head, _)), Some(first)) => head.tail().check(first.epoch, start),
                    _ => Err(Error::NotFound {
                        what: format!("stream {}", attempt.stream),
                    }),
                };
                let conflict = Error::Conflict {
                    what: format!("the head of stream {}", attempt.stream),
                };
                attempt.refused(verdict.err().unwrap_or(conflict));
            }
            Cause::Change(_) => {
                let what = format!("the head of stream {}", attempt.stream);
                attempt.refused(Error::Conflict { what });
            }
        }
    }
}

fn decode(stream: StreamId, current: Option<Versioned>) -> Result<Option<(StreamHead, Version)>> {
    let Some(current) = current else { return Ok(None) };
    Ok(Some((
        StreamHead::decode(&Key::stream_head(stream), &current.value)?,
        current.version,
    )))
}
