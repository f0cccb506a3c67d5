//! What crosses the border between cursors in memory (the facade) and their durable form.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::types::Offset;

/// Acks of the offsets `[page_no << 16, (page_no + 1) << 16)`, complete for that range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AckPage {
    /// Number of the page.
    pub page_no: u64,
    /// Portable RoaringBitmap of the low 16 bits of wholly acknowledged offsets. Zero bytes = none.
    pub acked: Bytes,
    /// Partly acknowledged batches: low 16 bits of the offset → words in which a set bit is still unacknowledged.
    pub batches: BTreeMap<u16, Vec<i64>>,
}

impl AckPage {
    /// Nothing is acknowledged: such a page is removed instead of stored.
    pub fn is_empty(&self) -> bool {
        self.acked.is_empty() && self.batches.is_empty()
    }
}

/// The durable state of a cursor, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorState {
    /// Name of the subscription.
    pub name: String,
    /// All offsets below are acknowledged.
    pub mark_delete_end: Offset,
    /// Properties stored with the mark-delete position.
    pub position_properties: BTreeMap<String, i64>,
    /// Properties of the cursor itself.
    pub cursor_properties: BTreeMap<String, String>,
    /// Ack pages, ascending, none wholly below `mark_delete_end`.
    pub pages: Vec<AckPage>,
}

/// A change of a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorUpdate {
    /// Name of the subscription, 1 to 65,535 bytes.
    pub name: String,
    /// Create: `AlreadyExists` when there is one. Otherwise absence is `NotFound`.
    pub create: bool,
    /// Pages that are not listed are dropped.
    pub full: bool,
    /// All offsets below are acknowledged. May go back (reset). At most the committed end.
    pub mark_delete_end: Offset,
    /// New position properties; `None` keeps them.
    pub position_properties: Option<BTreeMap<String, i64>>,
    /// New cursor properties; `None` keeps them.
    pub cursor_properties: Option<BTreeMap<String, String>>,
    /// Changed pages, complete; an empty one removes the page. Pages wholly below `mark_delete_end` are dropped in any case.
    pub pages: Vec<AckPage>,
}

impl CursorUpdate {
    /// About the bytes that it holds besides itself.
    pub fn carries(&self) -> u64 {
        let batches = |page: &AckPage| page.batches.values().map(|words| 32 + words.len() * 8).sum::<usize>();
        let pages = self
            .pages
            .iter()
            .map(|page| page.acked.len() + batches(page))
            .sum::<usize>();
        let properties = self.cursor_properties.iter().flatten();
        (self.name.len() + pages + properties.map(|(key, value)| key.len() + value.len()).sum::<usize>()) as u64
    }
}
