//! What a journal is opened with.

use std::path::PathBuf;
use std::time::Duration;

use super::group::MAX_VALUE;
use super::lane::largest_frame;
use crate::error::{Error, Result};

/// Settings of one journal. [`Options::new`] gives the usual ones.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory; `journal` and `metadata` lie below it.
    pub directory: PathBuf,
    /// Identity of the data directory: files of another one are refused.
    pub directory_id: u128,
    /// Bytes of a segment file.
    pub segment_bytes: u64,
    /// A group of more than one item closes before its frame gets larger, bytes.
    pub group_bytes: usize,
    /// Largest entry, bytes.
    pub max_entry: usize,
    /// Largest value of a key that a frame has room for in any case, bytes.
    pub max_value: usize,
    /// Free bytes below which appends are refused.
    pub reserve_bytes: u64,
    /// Bytes of frames after which a checkpoint is due: bounds the time of a recovery.
    pub checkpoint_bytes: u64,
    /// Heads and keys newer than the backend after which a checkpoint is due: bounds memory.
    pub checkpoint_dirty: usize,
    /// Idle time after which the last frame is proven by a marker.
    pub marker_delay: Duration,
    /// Bytes of RocksDB: cached blocks, and the write buffers that are charged to them.
    pub metadata_cache_bytes: usize,
}

impl Options {
    /// The usual settings for segments of `segment_bytes` and entries of up to `max_entry` bytes.
    pub fn new(directory: PathBuf, directory_id: u128, segment_bytes: u64, max_entry: usize) -> Options {
        Options {
            directory,
            directory_id,
            segment_bytes,
            group_bytes: usize::try_from(segment_bytes / 4).unwrap_or(usize::MAX).min(8 << 20),
            max_entry,
            max_value: MAX_VALUE,
            // Two segments and a flush of the metadata.
            reserve_bytes: segment_bytes.saturating_mul(2).saturating_add(64 << 20),
            checkpoint_bytes: 256 << 20,
            checkpoint_dirty: 20_000,
            marker_delay: Duration::from_millis(5),
            metadata_cache_bytes: 32 << 20,
        }
    }

    /// # Errors
    /// `Invalid` naming the setting.
    pub(super) fn check(&self) -> Result<()> {
        let largest = largest_frame(self.segment_bytes);
        let entry = self.max_entry.max(self.max_value).saturating_add(64 << 10);
        // A frame holds one entry at least, and the witnesses of the frame before.
        let wanted = entry.max(self.group_bytes).saturating_mul(2);
        if self.segment_bytes > u64::from(u32::MAX) / 2 || largest < wanted {
            let what = format!(
                "journal segments of {} bytes: entries of up to {} bytes and groups of {} bytes need at least {wanted} bytes, at most {} \
                 are allowed",
                self.segment_bytes,
                self.max_entry,
                self.group_bytes,
                u32::MAX / 2
            );
            return Err(Error::Invalid { what });
        }
        Ok(())
    }
}
