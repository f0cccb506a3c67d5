//! Reads: exact start, verified bytes, at least one entry.
//!
//! Keeps: L10 (a view never answers for another), L11 (below trim `OffsetTrimmed`, at the end an empty batch, anything else an
//! error), L12 (entries come from the tail cache or through `Log::read`, which verifies each).

use std::collections::VecDeque;
use std::sync::Arc;

use super::locate::Commits;
use super::types::{ReadBatch, ReadEntry, ReadRequest};
use crate::cache::{SliceCache, StreamTail};
use crate::commit::{Commit, Log, Slice};
use crate::env::{BoxFuture, Spawner};
use crate::error::{Error, Result};
use crate::types::{Offset, ReadView};

/// How many slices one read fetches at the same time.
const AHEAD: usize = 8;

/// The reading side of one open stream.
pub(super) struct Reader {
    pub commits: Commits,
    pub log: Arc<dyn Log>,
    pub spawner: Arc<dyn Spawner>,
    pub slices: Arc<SliceCache>,
    pub cached: Arc<StreamTail>,
}

/// What is left of a request after the checks.
struct Wanted {
    start: Offset,
    up_to: Offset,
    max_entries: u32,
    max_bytes: u64,
}

impl Reader {
    /// Answers without I/O if it can; `None` = it takes [`Reader::read`].
    pub fn try_cached(&self, request: &ReadRequest) -> Option<Result<ReadBatch>> {
        match self.check(request) {
            Err(error) => Some(Err(error)),
            Ok(None) => Some(Ok(ReadBatch::default())),
            Ok(Some(wanted)) => self.read_tail(&wanted).map(Ok),
        }
    }

    /// Reads from wherever the bytes are.
    pub async fn read(&self, request: &ReadRequest) -> Result<ReadBatch> {
        let Some(wanted) = self.check(request)? else {
            return Ok(ReadBatch::default());
        };
        if let Some(batch) = self.read_tail(&wanted) {
            return Ok(batch);
        }
        match self.read_log(&wanted).await {
            // The range may have been trimmed, and its place recycled, after the check: then that is the answer.
            Err(error) => match self.check(request) {
                Ok(_) => Err(error),
                Err(newer) => Err(newer),
            },
            ok => ok,
        }
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
        let (trim, end) = self.commits.head(|head| (head.trim, head.end))?;
        let up_to = request.up_to.min(end);
        if request.start >= end {
            return Ok(None);
        }
        // The very last entry stays readable after it was trimmed: Pulsar asks it for the last message id.
        if request.start < trim && request.start.get() + 1 != end.get() {
            return Err(Error::OffsetTrimmed {
                stream: self.commits.stream,
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

    fn read_tail(&self, wanted: &Wanted) -> Option<ReadBatch> {
        let found = self
            .cached
            .read(wanted.start, wanted.up_to, wanted.max_entries, wanted.max_bytes)?;
        let offsets = (wanted.start.get()..).map(Offset::new);
        Some(ReadBatch {
            entries: offsets
                .zip(found)
                .map(|(offset, entry)| ReadEntry { offset, entry })
                .collect(),
        })
    }

    async fn read_log(&self, wanted: &Wanted) -> Result<ReadBatch> {
        let mut batch = ReadBatch::default();
        let mut bytes = 0u64;
        let mut next = wanted.start;
        // Slices under way, in order, and the offset from which the next one has to be asked for.
        let mut ahead: VecDeque<(Commit, BoxFuture<Result<Slice>>)> = VecDeque::new();
        let mut asked_to = wanted.start;
        let mut asked_bytes = 0u64;
        let last = wanted
            .start
            .checked_add(u64::from(wanted.max_entries))
            .unwrap_or(Offset::MAX)
            .min(wanted.up_to);
        while next < last {
            while ahead.len() < AHEAD && asked_to < last && (ahead.is_empty() || bytes + asked_bytes < wanted.max_bytes)
            {
                let commit = self.commits.locate(asked_to).await?.commit;
                asked_to = commit.end().unwrap_or(Offset::MAX);
                asked_bytes = asked_bytes.saturating_add(commit.bytes);
                ahead.push_back((commit, self.slice(commit)));
            }
            let Some((commit, slice)) = ahead.pop_front() else {
                break;
            };
            let slice = slice.await?;
            asked_bytes = asked_bytes.saturating_sub(commit.bytes);
            let skip = usize::try_from(next.get() - commit.start.get()).unwrap_or(usize::MAX);
            for found in slice.entries.iter().skip(skip) {
                bytes = bytes.saturating_add(found.entry.len() as u64);
                if next >= last || (bytes > wanted.max_bytes && !batch.entries.is_empty()) {
                    return Ok(batch);
                }
                batch.entries.push(ReadEntry {
                    offset: next,
                    entry: found.entry.clone(),
                });
                next = Offset::new(next.get() + 1);
            }
            if commit.end() != Some(next) {
                return Err(Error::Corrupt {
                    what: format!("stream {}", self.commits.stream),
                    place: format!("{:?}", commit.target),
                    detail: format!(
                        "{} entries read, the commit at {} has {}",
                        slice.entries.len(),
                        commit.start,
                        commit.count
                    ),
                });
            }
        }
        Ok(batch)
    }

    fn slice(&self, commit: Commit) -> BoxFuture<Result<Slice>> {
        let (log, stream) = (self.log.clone(), self.commits.stream);
        self.slices
            .get((stream, commit.id), &*self.spawner, || log.read(stream, commit))
    }
}
