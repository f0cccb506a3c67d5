//! What all streams of an engine have in common. One stream points to it once: with 100,000 of them every word counts.

use std::sync::Arc;

use crate::cache::Caches;
use crate::commit::Log;
use crate::env::Env;

/// What streams are opened on.
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
