//! Commit pages: immutable once written, so a cached one is never stale.

use std::sync::Arc;

use parking_lot::Mutex;

use super::lru::Lru;
use super::Account;
use crate::commit::Commit;
use crate::record::CommitPage;
use crate::types::{Offset, StreamId};

/// Pages of all streams of an engine.
pub struct PageCache {
    pages: Mutex<Lru<(StreamId, Offset), Arc<CommitPage>>>,
}

impl PageCache {
    pub(super) fn new(account: Arc<Account>) -> Self {
        PageCache {
            pages: Mutex::new(Lru::new(account)),
        }
    }

    /// The cached page that covers `offset`.
    pub fn covering(&self, stream: StreamId, offset: Offset) -> Option<Arc<CommitPage>> {
        let page = self.pages.lock().last((stream, Offset::ZERO), (stream, offset))?;
        (offset < page.end()).then_some(page)
    }

    /// Keeps a page that was read.
    pub fn insert(&self, page: Arc<CommitPage>) {
        let bytes = size_of::<CommitPage>() + page.commits.len() * size_of::<Commit>() + 128;
        self.pages
            .lock()
            .insert((page.stream, page.first()), page, bytes as u64);
    }
}
