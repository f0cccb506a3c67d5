//! Commit pages: immutable once written, so a cached one is never stale.

use std::sync::Arc;

use parking_lot::Mutex;

use super::lru::Lru;
use super::{Account, Permit};
use crate::commit::Commit;
use crate::record::CommitPage;
use crate::types::{Offset, StreamId};

/// Pages of all streams of an engine.
pub struct PageCache {
    pages: Mutex<Lru<(StreamId, Offset), Paid>>,
}

#[derive(Clone)]
struct Paid {
    page: Arc<CommitPage>,
    _room: Arc<Permit>,
}

/// What a page costs besides its commits: its slots in the cache.
const PAGE_OVERHEAD: usize = 256;

impl PageCache {
    pub(super) fn new(account: Arc<Account>) -> Self {
        PageCache {
            pages: Mutex::new(Lru::new(account)),
        }
    }

    /// The cached page that covers `offset`.
    pub fn covering(&self, stream: StreamId, offset: Offset) -> Option<Arc<CommitPage>> {
        let found = self.pages.lock().last((stream, Offset::ZERO), (stream, offset))?;
        (offset < found.page.end()).then_some(found.page)
    }

    /// Keeps a page that was read.
    pub fn insert(&self, page: Arc<CommitPage>) {
        let bytes = (size_of::<CommitPage>() + page.commits.len() * size_of::<Commit>() + PAGE_OVERHEAD) as u64;
        let mut pages = self.pages.lock();
        if let Some(room) = pages.room(bytes) {
            let key = (page.stream, page.first());
            let room = Arc::new(room);
            pages.insert(key, Paid { page, _room: room }, bytes);
        }
    }
}
