//! The reserve: space kept for what makes space.
//!
//! Promises: below the reserve appends are refused, naming what keeps the oldest segment, while head changes and key writes (trims, deletions, cursors) go on.
//! Does not: reserve anything on the file system; another process may take it.

use std::sync::Arc;
use std::time::Duration;

use super::reclaim::Reclaim;
use super::roll::{Roll, SPACE_RETRY};
use super::segment::Segments;
use crate::env::Env;
use crate::error::Error;

/// How long an answer of the file system is believed.
const FRESH: Duration = Duration::from_millis(100);

/// Watches the free bytes.
pub struct Space {
    segments: Arc<Segments>,
    reclaim: Arc<Reclaim>,
    reserve: u64,
    asked: Option<(Duration, u64)>,
}

impl Space {
    /// Keeps `reserve` bytes free.
    pub fn new(segments: Arc<Segments>, reclaim: Arc<Reclaim>, reserve: u64) -> Space {
        Space {
            segments,
            reclaim,
            reserve,
            asked: None,
        }
    }

    /// Why appends are refused at present. What is preallocated counts as free. A file system that does not answer refuses
    /// nothing: running out shows at the next segment.
    pub fn refusal(&mut self, env: &Env, roll: &Roll, offset: u64) -> Option<Error> {
        let now = env.clock.monotonic();
        let fresh = self.asked.filter(|(when, _)| now.saturating_sub(*when) < FRESH);
        let free = match fresh {
            Some((_, free)) => free,
            None => {
                let free = self.segments.free_bytes().unwrap_or(u64::MAX);
                self.asked = Some((now, free));
                free
            }
        };
        let available = free.saturating_add(roll.preallocated(offset));
        (available < self.reserve).then(|| Error::Unavailable {
            what: format!(
                "the file system of {} has {free} bytes free, {} are kept for trims, deletions and acknowledgements; {}free space, or \
                 delete or trim topics",
                self.segments.directory().display(),
                self.reserve,
                self.reclaim.kept_by()
            ),
            retry: SPACE_RETRY,
        })
    }
}
