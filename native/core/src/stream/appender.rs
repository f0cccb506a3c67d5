//! Reservation: offsets are given out in call order, before anything is written.
//!
//! Promises: push order is offset order; after a failed append everything behind it fails, its offset is given back, and nothing
//! new is taken until [`Appender::resume`]. An attempt that is not settled stays pending.
//! Keeps: L4 (an offset is given out once, and again only after its attempt certainly failed), L6.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::ReentrantMutex;
use tokio::sync::Notify;

use super::common::Trunk;
use super::marks::Marks;
use crate::cache::Account;
use crate::commit::{Append, AppendOutcome, AppendReply};
use crate::env::BoxFuture;
use crate::error::{Error, Result};
use crate::mutant::{active, Mutant};
use crate::types::{Offset, OwnerEpoch, StreamId};

/// The writing side of one open stream. Only handles of one owner epoch share it.
pub(super) struct Appender {
    trunk: Arc<Trunk>,
    epoch: OwnerEpoch,
    marks: Arc<Marks>,
    /// Held while an append is pushed, so that push order is offset order. Reentrant because a log may answer inside the push;
    /// the cell inside is never borrowed across one.
    tail: ReentrantMutex<RefCell<Tail>>,
    ended: Ended,
    all_answered: Notify,
}

/// What became of attempts, counted without `tail`: a group's replies do not meet the next group's pushes at a lock, nor in a cache line.
#[derive(Default)]
#[repr(align(64))]
struct Ended {
    /// Attempts that were settled.
    settled: AtomicU64,
    /// Attempts whose reply has returned.
    answered: AtomicU64,
    /// Somebody waits for all to be answered.
    draining: AtomicBool,
}

struct Tail {
    next: Offset,
    /// Attempts so far.
    attempts: u64,
    /// Why nothing is taken. The first reason stays until `resume`. On the heap: of most streams there is none.
    refusing: Option<Box<Error>>,
    /// `refusing` is for ever: fenced, terminated, closed, or an outcome that nobody will find out.
    for_good: bool,
}

impl Appender {
    pub fn new(trunk: Arc<Trunk>, epoch: OwnerEpoch, marks: Arc<Marks>) -> Appender {
        let next = trunk
            .commits
            .cell
            .with(|head| head.map_or(Offset::ZERO, |head| head.end));
        let tail = ReentrantMutex::new(RefCell::new(Tail {
            next,
            attempts: 0,
            refusing: None,
            for_good: false,
        }));
        Appender {
            trunk,
            epoch,
            marks,
            tail,
            ended: Ended::default(),
            all_answered: Notify::new(),
        }
    }

    fn stream(&self) -> StreamId {
        self.trunk.commits.stream
    }

    /// What entries on their way to the log are counted in.
    fn memory(&self) -> &Arc<Account> {
        &self.trunk.common.caches.budget.open_groups
    }

    pub fn epoch(&self) -> OwnerEpoch {
        self.epoch
    }

    /// Reserves the next offset and pushes the entry. An error = nothing was reserved and `reply` is dropped uncalled.
    pub fn append(
        self: &Arc<Self>,
        entry: Bytes,
        messages: u32,
        reply: impl FnOnce(AppendOutcome) + Send + 'static,
    ) -> Result<Offset> {
        if entry.len() as u64 > u64::from(self.trunk.common.max_entry) {
            let what = format!(
                "entry of {} bytes; the largest allowed is {} bytes",
                entry.len(),
                self.trunk.common.max_entry
            );
            return Err(Error::Invalid { what });
        }
        let permit = self
            .memory()
            .reserve(entry.len() as u64)
            .ok_or_else(|| self.out_of_memory())?;
        let crc32c = crc32c::crc32c(&entry);

        let tail = self.tail.lock();
        let offset = {
            let mut tail = tail.borrow_mut();
            if let Some(reason) = &tail.refusing {
                return Err(self.refusal(reason, tail.for_good));
            }
            let offset = tail.next;
            tail.next = offset.checked_add(1).ok_or_else(|| Error::Invalid {
                what: format!("stream {} has used up its offsets", self.stream()),
            })?;
            tail.attempts = tail.attempts.saturating_add(1);
            offset
        };
        let appender = self.clone();
        let bytes = entry.len() as u64;
        let settle = move |outcome: AppendOutcome, entry: Option<Bytes>| {
            let outcome = appender.settle(bytes, entry, outcome);
            drop(permit);
            reply(outcome);
            appender.answered();
        };
        let (stream, epoch, reply) = (self.stream(), self.epoch, AppendReply::with_entry(settle));
        self.trunk.common.log.append(Append {
            stream,
            epoch,
            offset,
            entry,
            crc32c,
            messages,
            reply,
        });
        Ok(offset)
    }

    /// Takes appends again after a failed one, from the committed end. `Suspended` while attempts are unsettled.
    pub fn resume(&self) -> Result<()> {
        let tail = self.tail.lock();
        let mut tail = tail.borrow_mut();
        let Some(reason) = &tail.refusing else { return Ok(()) };
        if tail.for_good {
            return Err(Error::clone(reason));
        }
        let pending = tail.attempts.saturating_sub(self.ended.settled.load(Ordering::SeqCst));
        if pending > 0 {
            let reason = format!("{pending} appends are not settled yet; first failure: {reason}");
            return Err(Error::Suspended {
                stream: self.stream(),
                reason,
            });
        }
        let behind = tail.next;
        tail.next = self
            .trunk
            .commits
            .cell
            .with(|head| head.map(|head| head.end))
            .ok_or_else(|| Error::NotFound {
                what: format!("stream {}", self.stream()),
            })?;
        if active(Mutant::ResumeBehindGap) {
            tail.next = behind;
        }
        tail.refusing = None;
        Ok(())
    }

    /// Refuses appends from now on with `reason`, for good. A reason that is for good already stays.
    pub fn stop(&self, reason: Error) {
        refuse(&mut self.tail.lock().borrow_mut(), reason, true);
    }

    /// Appends are refused because an earlier one failed, or nobody knows how it ended.
    pub fn suspended(&self) -> bool {
        let tail = self.tail.lock();
        let tail = tail.borrow();
        match tail.refusing.as_deref() {
            Some(Error::Fenced { .. } | Error::Terminated { .. } | Error::Closed { .. } | Error::NotFound { .. }) => {
                false
            }
            refusing => refusing.is_some(),
        }
    }

    /// `Fenced` once a newer owner is known.
    pub fn check_owner(&self) -> Result<()> {
        match self.tail.lock().borrow().refusing.as_deref() {
            Some(fenced @ Error::Fenced { .. }) => Err(fenced.clone()),
            _ => Ok(()),
        }
    }

    /// Resolves once every reserved append is answered.
    pub fn drained(self: &Arc<Self>) -> BoxFuture<()> {
        let appender = self.clone();
        Box::pin(async move {
            appender.ended.draining.store(true, Ordering::SeqCst);
            loop {
                let mut answered = std::pin::pin!(appender.all_answered.notified());
                answered.as_mut().enable();
                if appender.is_drained() {
                    return;
                }
                answered.await;
            }
        })
    }

    fn is_drained(&self) -> bool {
        let attempts = self.tail.lock().borrow().attempts;
        self.ended.answered.load(Ordering::SeqCst) == attempts
    }

    /// Books one outcome; gives the one to hand on. What failed behind a failure carries the first reason.
    fn settle(&self, bytes: u64, entry: Option<Bytes>, outcome: AppendOutcome) -> AppendOutcome {
        if let AppendOutcome::Committed { offset, append_millis } = outcome {
            // The cache comes first: whoever hears of the commit finds the entry there. Without one the cache has a gap.
            if let Some(entry) = entry {
                self.trunk.recent.push(offset, entry);
            }
            self.marks.committed(offset, bytes, append_millis);
            self.ended.settled.fetch_add(1, Ordering::SeqCst);
            return outcome;
        }
        let tail = self.tail.lock();
        let mut tail = tail.borrow_mut();
        self.ended.settled.fetch_add(1, Ordering::SeqCst);
        match outcome {
            AppendOutcome::Committed { .. } => outcome,
            AppendOutcome::NotCommitted(error) => {
                let error = match (&tail.refusing, error) {
                    (Some(first), Error::Suspended { .. }) => self.refusal(first, tail.for_good),
                    (_, error) => error,
                };
                let for_good = matches!(
                    error,
                    Error::Fenced { .. } | Error::Terminated { .. } | Error::Closed { .. } | Error::NotFound { .. }
                );
                refuse(&mut tail, error.clone(), for_good);
                AppendOutcome::NotCommitted(error)
            }
            AppendOutcome::Unknown(error) => {
                refuse(&mut tail, error.clone(), true);
                AppendOutcome::Unknown(error)
            }
        }
    }

    /// A reply has returned. Apart from settling: whoever hears of a failure may call `resume` inside the reply.
    fn answered(&self) {
        self.ended.answered.fetch_add(1, Ordering::SeqCst);
        // Whoever waits has said so before it counted.
        if self.ended.draining.load(Ordering::SeqCst) {
            self.all_answered.notify_waiters();
        }
    }

    /// How an append learns of an earlier failure.
    fn refusal(&self, reason: &Error, for_good: bool) -> Error {
        match reason {
            reason if for_good => reason.clone(),
            Error::Suspended { .. } => reason.clone(),
            reason => Error::Suspended {
                stream: self.stream(),
                reason: reason.to_string(),
            },
        }
    }

    fn out_of_memory(&self) -> Error {
        Error::Unavailable {
            what: format!(
                "stream {}: {} of {} bytes for entries on their way to the log are in use",
                self.stream(),
                self.memory().used(),
                self.memory().limit()
            ),
            retry: std::time::Duration::from_millis(10),
        }
    }
}

fn refuse(tail: &mut Tail, reason: Error, for_good: bool) {
    if tail.refusing.is_none() || (for_good && !tail.for_good) {
        tail.refusing = Some(Box::new(reason));
        tail.for_good = for_good;
    }
}
