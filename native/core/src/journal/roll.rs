//! The segment being written, and the next one.
//!
//! Promises: a frame never crosses segments; the next segment is prepared in the background, so that rolling over costs no wait
//! as a rule. A full disk shows here, before a byte of a frame is written: it is a refusal, not a failed write.

use std::io;
use std::sync::Arc;

use futures::channel::oneshot;

use super::layout::Position;
use super::reclaim::Reclaim;
use super::segment::{SegmentHeader, Segments, HEADER_BYTES};
use crate::env::{DiskFile, Env};
use crate::error::Error;

/// How long a caller should wait before it asks a full disk again.
pub const SPACE_RETRY: std::time::Duration = std::time::Duration::from_secs(5);

/// The segment that takes frames.
pub struct Current {
    /// Its file.
    pub file: Arc<dyn DiskFile>,
    /// Its header.
    pub header: SegmentHeader,
}

/// Why there is no room for a frame.
pub enum NoRoom {
    /// The disk is full: refuse, and try again with the next group.
    Space(Error),
    /// The disk fails: stop.
    Broken(Error),
}

type Prepared = io::Result<Current>;

/// Moves from segment to segment.
pub struct Roll {
    segments: Arc<Segments>,
    reclaim: Arc<Reclaim>,
    current: Current,
    next: Option<oneshot::Receiver<Prepared>>,
}

impl Roll {
    /// Goes on in `current`.
    pub fn new(segments: Arc<Segments>, reclaim: Arc<Reclaim>, current: Current) -> Roll {
        Roll {
            segments,
            reclaim,
            current,
            next: None,
        }
    }

    /// The segment that takes frames.
    pub fn current(&self) -> &Current {
        &self.current
    }

    /// Where `offset` of the present segment is, for messages.
    pub fn place(&self, offset: u64) -> String {
        self.segments.place(self.current.header.sequence, offset)
    }

    /// Bytes that are free already: written once, in this segment, in the prepared one, and in dead files.
    pub fn preallocated(&self, offset: u64) -> u64 {
        let left = self.current.header.length.saturating_sub(offset);
        let next = if self.next.is_some() {
            self.current.header.length
        } else {
            0
        };
        let (_, dead) = self.segments.free_files();
        left.saturating_add(next).saturating_add(dead)
    }

    /// Starts to prepare the next segment once the present one is half full: not earlier, because the next checkpoint may set a dead
    /// file free for it until then.
    pub fn prepare(&mut self, env: &Env, offset: u64) {
        if self.next.is_none() && offset > self.current.header.length / 2 {
            let (send, receive) = oneshot::channel();
            let (segments, header) = (self.segments.clone(), self.next_header());
            env.spawner.run_blocking(Box::new(move || {
                let prepared = segments.create(&header).map(|file| Current { file, header });
                // A lane that is gone leaves an empty segment, which the next start removes.
                drop(send.send(prepared));
            }));
            self.next = Some(receive);
        }
    }

    /// Makes sure that `bytes` fit at `position`, which moves to the next segment otherwise.
    pub async fn room(&mut self, position: &mut Position, bytes: u64) -> Result<(), NoRoom> {
        if position.offset.saturating_add(bytes) <= self.current.header.length {
            return Ok(());
        }
        // A preparation that failed or was lost is tried once more, now that there is no way around it.
        let prepared = match self.next.take() {
            Some(coming) => coming.await.ok().and_then(Prepared::ok),
            None => None,
        };
        let next = match prepared {
            Some(next) => next,
            None => {
                let header = self.next_header();
                let file = self.segments.create(&header).map_err(|e| self.no_room(e))?;
                Current { file, header }
            }
        };
        position.segment = next.header.sequence;
        position.offset = HEADER_BYTES;
        self.current = next;
        Ok(())
    }

    fn next_header(&self) -> SegmentHeader {
        let header = self.current.header;
        SegmentHeader {
            sequence: header.sequence.saturating_add(1),
            previous_length: header.length,
            ..header
        }
    }

    fn no_room(&self, reason: io::Error) -> NoRoom {
        let directory = self.segments.directory().display();
        if !matches!(reason.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            let what = format!("a segment in {directory}; nothing is acknowledged any more by this process: check the disk and restart");
            return NoRoom::Broken(Error::io("create", what, reason));
        }
        let free = self.segments.free_bytes().unwrap_or(0);
        tracing::warn!(%directory, free, "no space for a journal segment");
        let what = format!(
            "no space for a journal segment of {} bytes in {directory}, {free} bytes are free ({reason}); {}free space on that file system, or \
             delete or trim topics",
            self.current.header.length,
            self.reclaim.kept_by()
        );
        NoRoom::Space(Error::Unavailable {
            what,
            retry: SPACE_RETRY,
        })
    }
}
