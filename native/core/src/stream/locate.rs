//! Commit metadata: which commit holds an offset, how many bytes lie below it, when it was appended. No entry is read.
//!
//! Promises: each answer costs at most one look-up of a commit page, and none while the page is cached.

use std::sync::Arc;

use crate::cache::PageCache;
use crate::commit::{Commit, HeadCell, StreamHead};
use crate::error::{Error, Result};
use crate::metadata::MetadataStore;
use crate::record::{CommitPage, Key, Record};
use crate::types::{Offset, StreamId};

/// The commits of one stream.
#[derive(Clone)]
pub(super) struct Commits {
    pub stream: StreamId,
    pub cell: Arc<HeadCell>,
    pub store: Arc<dyn MetadataStore>,
    pub pages: Arc<PageCache>,
}

/// A commit, and the bytes of all entries before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located {
    pub commit: Commit,
    pub bytes_before: u64,
    /// Latest append time of all commits before it, also of trimmed ones; 0 = it is the first.
    pub latest_before: u64,
}

impl Located {
    /// Latest append time up to and with this commit: never goes back from one commit to the next, unlike the clock.
    pub fn latest(&self) -> u64 {
        self.latest_before.max(self.commit.append_millis)
    }

    /// Bytes of all entries up to the end of this commit.
    pub fn bytes_to_end(&self) -> u64 {
        self.bytes_before.saturating_add(self.commit.bytes)
    }
}

enum Place {
    Found(Located),
    Paged,
}

impl Commits {
    /// Looks at the head; `NotFound` once the stream is deleted.
    pub fn head<T>(&self, look: impl FnOnce(&StreamHead) -> T) -> Result<T> {
        self.cell.with(|head| head.map(look)).ok_or_else(|| Error::NotFound {
            what: format!("stream {}", self.stream),
        })
    }

    /// The commit that holds a committed `offset`. A committed offset without one is damage, never absence.
    pub async fn locate(&self, offset: Offset) -> Result<Located> {
        match self.head(|head| in_ring(head, offset))? {
            Some(Place::Found(located)) => Ok(located),
            Some(Place::Paged) => {
                let page = self.page(offset).await?;
                in_page(&page, offset).ok_or_else(|| self.hole(offset))
            }
            None => Err(Error::Internal {
                what: format!("stream {}: offset {offset} is not committed", self.stream),
            }),
        }
    }

    /// Bytes of all entries below `offset`: exact where a commit starts, by proportion inside one.
    pub async fn bytes_below(&self, offset: Offset) -> Result<u64> {
        let (end, total) = self.head(|head| (head.end, head.total_bytes))?;
        if offset >= end {
            return Ok(total);
        }
        let Located {
            commit, bytes_before, ..
        } = self.locate(offset).await?;
        let inside = u128::from(offset.get() - commit.start.get());
        let share = u128::from(commit.bytes) * inside / u128::from(commit.count.max(1));
        Ok(bytes_before.saturating_add(u64::try_from(share).unwrap_or(commit.bytes)))
    }

    /// The page that covers a committed offset older than the ring.
    pub async fn page(&self, offset: Offset) -> Result<Arc<CommitPage>> {
        if let Some(page) = self.pages.covering(self.stream, offset) {
            return Ok(page);
        }
        let from = Key::commit_page(self.stream, Offset::ZERO);
        let to = Key::commit_page(self.stream, Offset::new(offset.get().saturating_add(1)));
        let Some((key, found)) = self.store.last(from, to).await? else {
            return Err(self.hole(offset));
        };
        let page = Arc::new(CommitPage::decode(&key, &found.value)?);
        if offset >= page.end() {
            return Err(self.hole(offset));
        }
        self.pages.insert(page.clone());
        Ok(page)
    }

    /// Why no page covers a committed offset: trimmed or deleted while we looked, or damage.
    fn hole(&self, offset: Offset) -> Error {
        match self.head(|head| head.trim) {
            Err(deleted) => deleted,
            Ok(trim) if offset < trim => Error::OffsetTrimmed {
                stream: self.stream,
                wanted: offset,
                trim,
            },
            Ok(_) => Error::Corrupt {
                what: format!("stream {}", self.stream),
                place: format!("commit pages, offset {offset}"),
                detail: "the offset is committed but no commit page covers it; restore the data directory from a copy"
                    .into(),
            },
        }
    }
}

fn in_ring(head: &StreamHead, offset: Offset) -> Option<Place> {
    if offset >= head.end {
        return None;
    }
    if head.ring.front().is_none_or(|first| offset < first.start) {
        return Some(Place::Paged);
    }
    let before = (head.bytes_before_ring(), head.folded_append_millis);
    Some(among(&head.ring, before, offset).map_or(Place::Paged, Place::Found))
}

fn in_page(page: &CommitPage, offset: Offset) -> Option<Located> {
    among(&page.commits, (page.bytes_before, page.latest_before), offset)
}

/// The commit that holds `offset` among contiguous ones; `before` = bytes and latest append time before the first.
fn among<'a>(commits: impl IntoIterator<Item = &'a Commit>, before: (u64, u64), offset: Offset) -> Option<Located> {
    let (mut bytes_before, mut latest_before) = before;
    for commit in commits {
        let located = Located {
            commit: *commit,
            bytes_before,
            latest_before,
        };
        if commit.end().is_none_or(|end| offset < end) {
            return (commit.start <= offset).then_some(located);
        }
        (bytes_before, latest_before) = (located.bytes_to_end(), located.latest());
    }
    None
}
