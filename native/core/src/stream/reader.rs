//! Reads: exact start, verified bytes, at least one entry.
//!
//! Promises: recent appends and cached slices never wait for a cold permit; a read that holds entries never waits for a permit,
//! it ends early instead, so reads cannot wait for each other.
//! Keeps: L10 (a view never answers for another), L11 (below trim `OffsetTrimmed`, at the end an empty batch, anything else an
//! error), L12 (entries come from the tail cache or through `Log::read`, which verifies each).

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::cold;
use super::common::Trunk;
use super::types::{ReadBatch, ReadEntry, ReadRequest};
use crate::cache::{Caches, Permit, ReadAhead};
use crate::error::{Error, Result};
use crate::types::{Offset, ReadView};

/// What a read costs while it waits, bytes: its task and what it has looked up.
const WAITING_READ: u64 = 2 << 10;

/// The reading side of one open stream.
pub(super) struct Reader {
    pub trunk: Arc<Trunk>,
    pub ahead: Mutex<ReadAhead>,
    /// Wakes reads that wait when the stream closes.
    pub closing: Notify,
}

/// What is left of a request after the checks.
pub(super) struct Wanted {
    pub start: Offset,
    pub up_to: Offset,
    pub max_entries: u32,
    pub max_bytes: u64,
}

impl Reader {
    pub fn caches(&self) -> &Caches {
        &self.trunk.common.caches
    }

    /// Answers without I/O if it can; `None` = it takes [`Reader::read`].
    pub fn try_cached(&self, request: &ReadRequest) -> Option<Result<ReadBatch>> {
        match self.check(request) {
            Err(error) => Some(Err(error)),
            Ok(None) => Some(Ok(ReadBatch::default())),
            Ok(Some(wanted)) => {
                let (mut batch, bytes) = self.read_tail(&wanted)?;
                batch.held.keep(Arc::new(self.caches().hot.try_pass(bytes, 0)?));
                self.caches().slices.answered_by_tail();
                Some(Ok(batch))
            }
        }
    }

    /// Reads from wherever the bytes are. `Unavailable` when too many callers wait already.
    pub async fn read(&self, request: &ReadRequest) -> Result<ReadBatch> {
        let Some(wanted) = self.check(request)? else {
            return Ok(ReadBatch::default());
        };
        let _waiting = self.enter(WAITING_READ)?;
        if let Some((batch, bytes)) = self.read_tail(&wanted) {
            // Nothing is held while it waits; what was evicted meanwhile comes from the log.
            drop(batch);
            let pass = self.caches().hot.pass(self.trunk.commits.stream, bytes).await;
            if let Some((mut batch, _)) = self.read_tail(&wanted) {
                batch.held.keep(Arc::new(pass));
                self.caches().slices.answered_by_tail();
                return Ok(batch);
            }
        }
        match Box::pin(cold::read(self, &wanted)).await {
            // The range may have been trimmed, and its place recycled, after the check: then that is the answer.
            Err(error) => match self.check(request) {
                Ok(_) => Err(error),
                Err(newer) => Err(newer),
            },
            ok => ok,
        }
    }

    /// A place of `bytes` among the requests that wait; `Unavailable` when they are too many. What is larger than a quarter of all
    /// counts as a quarter, so that it has a chance beside the others.
    pub fn enter(&self, bytes: u64) -> Result<Permit> {
        let requests = &self.caches().budget.requests;
        let bytes = bytes.min(requests.limit() / 4);
        requests.reserve(bytes).ok_or_else(|| Error::Unavailable {
            what: format!(
                "stream {}: requests that wait hold {} of {} bytes",
                self.trunk.commits.stream,
                requests.used(),
                requests.limit()
            ),
            retry: std::time::Duration::from_millis(100),
        })
    }

    /// Every reason to answer without looking for entries. `None` = nothing there (yet).
    fn check(&self, request: &ReadRequest) -> Result<Option<Wanted>> {
        if request.view != ReadView::Committed {
            return Err(Error::Unsupported {
                feature: format!("reads of the view {}", request.view),
            });
        }
        if request.max_entries == 0 {
            return Err(Error::Invalid {
                what: "a read of at most 0 entries; at least 1 must be allowed".into(),
            });
        }
        let (trim, end) = self.trunk.commits.head(|head| (head.trim, head.end))?;
        let up_to = request.up_to.min(end);
        if request.start >= end {
            return Ok(None);
        }
        // The very last entry stays readable after it was trimmed: Pulsar asks it for the last message id.
        if request.start < trim && request.start.get() + 1 != end.get() {
            return Err(Error::OffsetTrimmed {
                stream: self.trunk.commits.stream,
                wanted: request.start,
                trim,
            });
        }
        if request.start >= up_to {
            return Ok(None);
        }
        Ok(Some(Wanted {
            start: request.start,
            up_to,
            max_entries: request.max_entries,
            max_bytes: request.max_bytes,
        }))
    }

    /// Entries out of the tail cache, and the bytes that they weigh.
    fn read_tail(&self, wanted: &Wanted) -> Option<(ReadBatch, u64)> {
        let mut batch = ReadBatch::default();
        let (up_to, most) = (wanted.up_to, wanted.max_entries);
        let bytes = self
            .trunk
            .recent
            .read(wanted.start, up_to, most, wanted.max_bytes, |offset, entry| {
                batch.entries.push(ReadEntry {
                    offset,
                    entry: entry.clone(),
                });
            })?;
        Some((batch, bytes))
    }
}
