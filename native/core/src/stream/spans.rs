//! Sizes, times and spans out of commit metadata.
//!
//! Cost: `size_between` two look-ups, `find_time` one per halving of the live range, `spans` two per live span of 65,536 offsets
//! (neighbours share a page most of the time).

use super::locate::Commits;
use super::types::SpanInfo;
use crate::error::{Error, Result};
use crate::types::Offset;

/// Offsets of one span, whatever the projection calls them.
pub(super) const SPAN: u64 = 1 << 16;

impl Commits {
    /// Bytes of the entries `from..to`; both are moved into the live range first.
    pub async fn size_between(&self, from: Offset, to: Offset) -> Result<u64> {
        let (trim, end) = self.head(|head| (head.trim, head.end))?;
        let (from, to) = (from.clamp(trim, end), to.clamp(trim, end));
        if from >= to {
            return Ok(0);
        }
        Ok(self
            .bytes_below(to)
            .await?
            .saturating_sub(self.bytes_below(from).await?))
    }

    /// The first live offset that was appended at or after `millis`; `None` when all are older. Exact for a clock that never went
    /// back; otherwise some offset at which the times cross `millis`.
    pub async fn find_time(&self, millis: u64) -> Result<Option<Offset>> {
        let (trim, end) = self.head(|head| (head.trim, head.end))?;
        let (mut low, mut high) = (trim, end);
        while low < high {
            let middle = Offset::new(low.get() + (high.get() - low.get()) / 2);
            let commit = self.locate(middle).await?.commit;
            if commit.append_millis >= millis {
                high = middle.min(commit.start.max(low));
            } else {
                low = commit.end().unwrap_or(Offset::MAX).min(high);
            }
        }
        Ok((low < end).then_some(low))
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
