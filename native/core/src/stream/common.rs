//! What the parts of an open stream stand on. Each part points to it once: with 100,000 idle streams every word counts.

use std::sync::Arc;

use super::locate::Commits;
use crate::cache::{Caches, StreamTail};
use crate::commit::Log;
use crate::env::Env;

/// What all streams of an engine have in common.
pub struct Common {
    /// What commits.
    pub log: Arc<dyn Log>,
    /// The world.
    pub env: Arc<Env>,
    /// The engine's caches.
    pub caches: Caches,
    /// Largest entry, bytes.
    pub max_entry: u32,
}

/// What reader, appender and marks of one stream share.
pub(super) struct Trunk {
    /// Commit metadata, and the head.
    pub commits: Commits,
    /// The stream's recent appends.
    pub recent: StreamTail,
    pub common: Arc<Common>,
}
