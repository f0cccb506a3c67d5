//! The commit log in two steps: bytes into a [`Wal`], then one batch of per-stream conditional head updates on a `MetadataStore`.
//!
//! Owns: the [lane](lane), the only task that moves heads; [settling](settle) of attempts whose answer was lost.
//! Promises: the contract of [`Log`]. One commit batch is in flight at a time; everything queued meanwhile joins the next. Verdicts
//! are independent: a stream that is fenced, refused or unsettled delays no other.
//! Keeps: L2, L3 (a slice is durable with its descriptor before its head is sent, a commit page before the head that no longer
//! names its commits), L5, L6.
//! Does not: choose a WAL or a store, or outlive `close`.

mod attempt;
mod before;
mod lane;
mod settle;

#[cfg(test)]
mod case_tests;
#[cfg(test)]
mod model;
#[cfg(test)]
mod takeover_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use self::lane::{Lane, Message};
use super::{slice, Wal};
use crate::commit::{Append, AppendOutcome, Commit, HeadCell, HeadChange, Log, Slice};
use crate::env::{BoxFuture, Env};
use crate::error::{Error, Result};
use crate::metadata::MetadataStore;
use crate::types::StreamId;

/// A commit log over any WAL and any store.
pub struct TwoStep {
    mailbox: mpsc::UnboundedSender<Message>,
    /// True (or gone) = stop settling.
    stop: watch::Sender<bool>,
    wal: Arc<dyn Wal>,
    store: Arc<dyn MetadataStore>,
}

impl TwoStep {
    /// Starts the lane.
    pub fn start(env: Env, wal: Arc<dyn Wal>, store: Arc<dyn MetadataStore>) -> TwoStep {
        let (mailbox, receiver) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(false);
        let lane = Lane::new(env.clone(), wal.clone(), store.clone(), mailbox.downgrade(), stopped);
        env.spawner.spawn("two-step lane", Box::pin(lane.run(receiver)));
        TwoStep {
            mailbox,
            stop,
            wal,
            store,
        }
    }

    /// Stops: what is queued is refused, what is in flight is settled if its answer comes, unsettled attempts end as `Unknown`.
    /// Idempotent.
    pub fn close(&self) -> BoxFuture<()> {
        let (reply, closed) = oneshot::channel();
        self.stop.send_replace(true);
        let sent = self.mailbox.send(Message::Close(reply)).is_ok();
        Box::pin(async move {
            if sent {
                // An error means that the lane has ended, which is what was asked for.
                let _ = closed.await;
            }
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T>>) -> Message,
    ) -> BoxFuture<Result<T>> {
        let (reply, answer) = oneshot::channel();
        // When the lane has ended the message is dropped, and its reply with it.
        let _ = self.mailbox.send(message(reply));
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(closed())) })
    }
}

impl Log for TwoStep {
    fn load(&self, stream: StreamId) -> BoxFuture<Result<Option<Arc<HeadCell>>>> {
        self.ask(|reply| Message::Load { stream, reply })
    }

    fn append(&self, append: Append) {
        if let Err(mpsc::error::SendError(Message::Append(append))) = self.mailbox.send(Message::Append(append)) {
            append.reply.answer(AppendOutcome::NotCommitted(closed()));
        }
    }

    fn change(&self, stream: StreamId, change: HeadChange) -> BoxFuture<Result<Arc<HeadCell>>> {
        self.ask(|reply| Message::Change { stream, change, reply })
    }

    fn read(&self, stream: StreamId, commit: Commit) -> BoxFuture<Result<Slice>> {
        let wal = self.wal.clone();
        Box::pin(async move {
            let raw = wal.read(commit.target).await?;
            slice::decode(&raw, commit.count).map_err(|detail| Error::Corrupt {
                what: format!(
                    "stream {stream}, offsets {} to {}",
                    commit.start,
                    commit.start.get() + u64::from(commit.count)
                ),
                place: format!("{:?}", commit.target),
                detail,
            })
        })
    }

    fn store(&self) -> Arc<dyn MetadataStore> {
        self.store.clone()
    }
}

fn closed() -> Error {
    Error::Closed { what: "the log".into() }
}
