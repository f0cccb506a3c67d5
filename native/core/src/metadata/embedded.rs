//! The provider on the embedded journal: reads from its published state (without a thread of their own where memory knows the
//! answer), writes as deltas of its frames.
//!
//! Promises: a batch is one frame, so it becomes durable as a whole; versions rise over all keys and are never given twice, also
//! across deletion and restart.
//! Does not: accept heads and commit pages (they change through `commit::Log`; pages may be removed).

use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::ready;

use super::{Capabilities, MetadataStore, Verdict, Versioned, Write};
use crate::env::{BoxFuture, Env};
use crate::error::{Error, Result};
use crate::journal::blocking;
use crate::journal::internal::{Item, Shared, Work};
use crate::record::Key;

/// The store of one journal.
pub struct Embedded {
    env: Env,
    shared: Arc<Shared>,
    max_value: usize,
}

impl Embedded {
    /// The store of the journal that owns `shared`.
    pub(crate) fn new(env: Env, shared: Arc<Shared>, max_value: usize) -> Self {
        Embedded { env, shared, max_value }
    }
}

impl MetadataStore for Embedded {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_value: self.max_value,
            ordered_scan: true,
            batch_atomic: true,
            deletes: true,
            late_writes: false,
        }
    }

    fn get(&self, key: Key) -> BoxFuture<Result<Option<Versioned>>> {
        if let Some(known) = self.shared.state.get_in_memory(&key) {
            return Box::pin(ready(known));
        }
        let state = self.shared.state.clone();
        blocking(&self.env, move || state.get(&key))
    }

    fn write(&self, batch: Vec<Write>) -> BoxFuture<Vec<Verdict>> {
        let (reply, receive) = oneshot::channel();
        let count = batch.len();
        self.shared.queue.push(Item::Work(Work::Write { batch, reply }));
        Box::pin(async move {
            receive.await.unwrap_or_else(|_| {
                let lost = || Error::Unknown {
                    what: "a write of metadata: the journal ended before it answered".into(),
                };
                (0..count).map(|_| Verdict::Unknown(lost())).collect()
            })
        })
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> BoxFuture<Result<Vec<(Key, Versioned)>>> {
        let state = self.shared.state.clone();
        blocking(&self.env, move || state.scan(&from, &to, limit))
    }

    fn last(&self, from: Key, to: Key) -> BoxFuture<Result<Option<(Key, Versioned)>>> {
        let state = self.shared.state.clone();
        blocking(&self.env, move || state.last(&from, &to))
    }
}
