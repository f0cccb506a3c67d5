//! Which dead segment files wait to become segments again.
//!
//! Overwriting blocks that were written once takes half the time of a first write, and spares writing a segment full of zeros.
//! Promises: at most so many files, all of one size: that of the segments made at present.
//! Does not: touch a file (`segment`).

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Fewest files kept: the next segment, and one more while that is written.
const FEWEST: u64 = 2;
/// Most files kept, however small segments are beside a checkpoint's interval.
const MOST: u64 = 16;

/// Names of dead files, by their former sequence, oldest first.
pub struct Pool {
    bound: usize,
    file_bytes: u64,
    waiting: Mutex<VecDeque<u64>>,
}

impl Pool {
    /// Keeps nothing.
    pub fn none() -> Pool {
        Pool::of(0, 0)
    }

    /// For segments of `segment_bytes` and a checkpoint every `checkpoint_bytes`: keeps what one checkpoint sets free under an
    /// even load, and one more; 2 to 16 files.
    pub fn new(segment_bytes: u64, checkpoint_bytes: u64) -> Pool {
        let freed = checkpoint_bytes.checked_div(segment_bytes).unwrap_or(0);
        let bound = freed.saturating_add(1).clamp(FEWEST, MOST);
        Pool::of(usize::try_from(bound).unwrap_or(0), segment_bytes)
    }

    fn of(bound: usize, file_bytes: u64) -> Pool {
        Pool {
            bound,
            file_bytes,
            waiting: Mutex::default(),
        }
    }

    /// Whether files of this length may be re-used.
    pub fn wants(&self, length: u64) -> bool {
        self.bound > 0 && length == self.file_bytes
    }

    /// Whether one more would be kept.
    pub fn has_room(&self) -> bool {
        self.waiting.lock().len() < self.bound
    }

    /// Keeps a file; false when there are enough.
    pub fn put(&self, dead: u64) -> bool {
        let mut waiting = self.waiting.lock();
        let room = waiting.len() < self.bound;
        if room {
            waiting.push_back(dead);
        }
        room
    }

    /// A file for a segment of `length` bytes.
    pub fn take(&self, length: u64) -> Option<u64> {
        self.wants(length).then(|| self.take_any()).flatten()
    }

    /// Any file.
    pub fn take_any(&self) -> Option<u64> {
        self.waiting.lock().pop_front()
    }

    /// Files, and bytes of them.
    pub fn size(&self) -> (usize, u64) {
        let files = self.waiting.lock().len();
        (files, self.file_bytes.saturating_mul(files as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_are_kept_as_a_checkpoint_sets_free_and_one_more_within_bounds() {
        let bound = |segment, checkpoint| Pool::new(segment, checkpoint).bound;
        assert_eq!(bound(128 << 20, 256 << 20), 3);
        assert_eq!(bound(1 << 30, 256 << 20), 2);
        assert_eq!(bound(16 << 20, 256 << 20), 16);
        let pool = Pool::new(10, 10);
        assert!(pool.put(1) && pool.put(2) && !pool.put(3));
        assert_eq!((pool.size(), pool.take(11), pool.take(10)), ((2, 20), None, Some(1)));
    }
}
