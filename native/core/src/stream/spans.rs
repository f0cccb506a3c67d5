//! Sizes, times and spans out of commit metadata.
//!
//! Promises: sizes are exact where commits start and end, by proportion inside one, and add up: `size(a, b) + size(b, c) = size(a, c)`,
//! over the whole live range the bytes of the stream's state. Times are exact, also when the clock went back.
//! Cost: `size_between` two look-ups; a search by time one per halving of the range, unless the clock went back across its lower end: then
//! one per commit page up to the answer; `spans` two per live span of 65,536 offsets (neighbours share a page most of the time).

use super::locate::Commits;
use super::types::SpanInfo;
use crate::commit::Commit;
use crate::error::{Error, Result};
use crate::types::Offset;

/// Offsets of one span, whatever the projection calls them.
pub(super) const SPAN: u64 = 1 << 16;

impl Commits {
    /// Bytes of the entries `from..to`; both are moved into the live range first.
    pub async fn size_between(&self, from: Offset, to: Offset) -> Result<u64> {
        loop {
            let (trim, end) = self.head(|head| (head.trim, head.end))?;
            let (from, to) = (from.clamp(trim, end), to.clamp(trim, end));
            if from >= to {
                return Ok(0);
            }
            match self.bytes_in(from, to).await {
                Err(Error::OffsetTrimmed { trim: newer, .. }) if newer > trim => {}
                result => return result,
            }
        }
    }

    async fn bytes_in(&self, from: Offset, to: Offset) -> Result<u64> {
        let below_to = self.bytes_below(to).await?;
        Ok(below_to.saturating_sub(self.bytes_below(from).await?))
    }

    /// The first live offset that was appended at or after `millis`; `None` when all are older.
    pub async fn find_time(&self, millis: u64) -> Result<Option<Offset>> {
        loop {
            let trim = self.head(|head| head.trim)?;
            match self.first_since(trim, millis).await {
                Err(Error::OffsetTrimmed { trim: newer, .. }) if newer > trim => {}
                result => return result,
            }
        }
    }

    /// The first offset from `from` on, a live one, that was appended at or after `millis`.
    pub async fn first_since(&self, from: Offset, millis: u64) -> Result<Option<Offset>> {
        let (end, latest) = self.head(|head| (head.end, head.latest_append_millis()))?;
        if from >= end || latest < millis {
            return Ok(None);
        }
        let first = self.locate(from).await?;
        if first.commit.append_millis >= millis {
            return Ok(Some(from));
        }
        if first.latest_before >= millis {
            return self.walk_since(from, end, millis).await;
        }
        // Nothing up to `first` was appended at or after `millis`. Where the latest append time so far first reaches it, a commit of
        // that time stands; and unlike the times themselves, the latest one so far never goes back.
        let (mut low, mut high) = (first.commit.end().unwrap_or(Offset::MAX).min(end), end);
        while low < high {
            let middle = Offset::new(low.get() + (high.get() - low.get()) / 2);
            let found = self.locate(middle).await?;
            match found.latest() >= millis {
                true => high = found.commit.start.max(low),
                false => low = found.commit.end().unwrap_or(Offset::MAX).min(end),
            }
        }
        Ok((low < end).then_some(low))
    }

    /// As [`Commits::first_since`], commit page after commit page: the clock went back before `from`, across `millis`, so that the
    /// latest time so far says nothing.
    async fn walk_since(&self, from: Offset, end: Offset, millis: u64) -> Result<Option<Offset>> {
        let mut next = from;
        while next < end {
            let in_ring = self.head(|head| {
                let covered = head.ring.front().is_some_and(|first| first.start <= next);
                covered.then(|| since(&head.ring, from, millis))
            })?;
            if let Some(in_ring) = in_ring {
                return Ok(in_ring);
            }
            let page = self.page(next).await?;
            let (_, latest) = page.append_millis();
            if let Some(offset) = (latest >= millis).then(|| since(&page.commits, from, millis)).flatten() {
                return Ok(Some(offset));
            }
            next = page.end();
        }
        Ok(None)
    }

    /// Every live span, ascending.
    pub async fn spans(&self) -> Result<Vec<SpanInfo>> {
        loop {
            let (trim, end) = self.head(|head| (head.trim, head.end))?;
            match self.spans_between(trim, end).await {
                // Trimmed while we looked: begin again at the new trim offset.
                Err(Error::OffsetTrimmed { trim: newer, .. }) if newer > trim => {}
                result => return result,
            }
        }
    }

    async fn spans_between(&self, trim: Offset, end: Offset) -> Result<Vec<SpanInfo>> {
        let mut spans = Vec::new();
        let mut from = trim;
        while from < end {
            let first_offset = Offset::new(from.get() / SPAN * SPAN);
            let to = first_offset.checked_add(SPAN).unwrap_or(Offset::MAX).min(end);
            spans.push(SpanInfo {
                first_offset,
                entries: to.get() - from.get(),
                bytes: self
                    .bytes_below(to)
                    .await?
                    .saturating_sub(self.bytes_below(from).await?),
                first_append_millis: self.locate(from).await?.commit.append_millis,
                last_append_millis: self.locate(Offset::new(to.get() - 1)).await?.commit.append_millis,
            });
            from = to;
        }
        Ok(spans)
    }
}

/// The first offset from `from` on, in these commits, that was appended at or after `millis`.
fn since<'a>(commits: impl IntoIterator<Item = &'a Commit>, from: Offset, millis: u64) -> Option<Offset> {
    commits
        .into_iter()
        .find(|commit| commit.append_millis >= millis && commit.end().is_none_or(|end| from < end))
        .map(|commit| commit.start.max(from))
}
