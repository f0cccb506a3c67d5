//! What is waiting for the lane, in order.
//!
//! Promises: pushing never blocks; what is pushed after the lane has ended is answered at once. Bytes are bounded by those who
//! push (the streams' budget).

use std::collections::VecDeque;

use futures::channel::oneshot;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::answer::Failure;
use super::group::Work;
use crate::error::{Error, Result};

/// One thing for the lane to do.
pub enum Item {
    /// Goes into a group.
    Work(Work),
    /// Answers after a completed checkpoint of everything before.
    Checkpoint(oneshot::Sender<Result<()>>),
    /// Ends the lane after everything before; answers after a last checkpoint.
    Close(oneshot::Sender<Result<()>>),
}

#[derive(Default)]
struct Inner {
    items: VecDeque<Item>,
    closed: Option<Error>,
}

/// The queue; any thread pushes, the lane takes.
#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    filled: Notify,
}

impl Queue {
    /// Puts one item at the end, or answers it if nobody will.
    pub fn push(&self, item: Item) {
        let mut inner = self.inner.lock();
        if let Some(reason) = inner.closed.clone() {
            drop(inner);
            return refuse(item, &reason);
        }
        // Whoever pushed the first of what waits has woken the lane, or is about to: it takes everything before it sleeps again.
        let first = inner.items.is_empty();
        inner.items.push_back(item);
        drop(inner);
        if first {
            self.filled.notify_one();
        }
    }

    /// Moves everything that waits to the end of `backlog`.
    pub fn take(&self, backlog: &mut VecDeque<Item>) {
        let mut inner = self.inner.lock();
        if backlog.is_empty() {
            std::mem::swap(backlog, &mut inner.items);
        } else {
            backlog.append(&mut inner.items);
        }
    }

    /// Resolves when something was pushed, or the queue closed, since the last time.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Whether nobody takes from it any more.
    pub fn is_closed(&self) -> bool {
        self.inner.lock().closed.is_some()
    }

    /// From now on everything is refused for `reason`, what waits included. The first reason stays.
    pub fn close(&self, reason: &Error) {
        let waiting = {
            let mut inner = self.inner.lock();
            inner.closed.get_or_insert_with(|| reason.clone());
            std::mem::take(&mut inner.items)
        };
        self.filled.notify_one();
        waiting.into_iter().for_each(|item| refuse(item, reason));
    }
}

/// Answers an item that no frame will hold.
pub fn refuse(item: Item, reason: &Error) {
    match item {
        Item::Work(work) => work.fail(&Failure::NeverWritten(reason.clone())),
        Item::Checkpoint(reply) | Item::Close(reply) => drop(reply.send(Err(reason.clone()))),
    }
}

/// What a caller of the lane waits for.
pub async fn answered<T>(receiver: oneshot::Receiver<Result<T>>, what: &str) -> Result<T> {
    let lost = |_| {
        Err(Error::Unknown {
            what: format!("{what}: the journal ended before it answered"),
        })
    };
    receiver.await.unwrap_or_else(lost)
}
