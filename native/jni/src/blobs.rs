//! Byte results that wait for Java to copy them out.
//!
//! Owns: the process-wide table from blob handle to bytes. Promises: a handle is used once and never given out again, so freeing
//! twice or copying a freed blob is harmless; the number of live blobs is known at any time. A blob belongs to an engine, and whatever
//! that engine leaves behind is dropped with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::LazyLock;

use bytes::Bytes;
use nereus_core::stream::Held;
use parking_lot::Mutex;

/// Number of the engine a blob belongs to.
pub type Owner = u64;

/// Bytes in one or several parts, copied out back to back.
pub struct Blob {
    owner: Owner,
    parts: Vec<Bytes>,
    length: usize,
    /// Keeps the bytes on their account until Java has copied them, or let them go.
    _held: Held,
}

impl Blob {
    /// The parts, in order.
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    /// Sum of the parts' lengths.
    pub fn length(&self) -> usize {
        self.length
    }
}

/// Handle and length of a stored blob, as they travel in a record. `(0, 0)` stands for "no bytes".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobRef {
    /// The handle; 0 = none.
    pub handle: i64,
    /// Bytes.
    pub length: i64,
}

/// Why a blob could not be taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// No such blob: copied or freed before, or its engine is gone.
    Gone,
    /// The blob is larger than the room offered; it stays.
    TooLarge,
}

/// The table of the process.
pub static BLOBS: LazyLock<Blobs> = LazyLock::new(Blobs::default);

/// A table of blobs.
#[derive(Default)]
pub struct Blobs {
    last: AtomicI64,
    live: Mutex<HashMap<i64, Blob>>,
}

impl Blobs {
    /// Stores `parts` for `owner`, and `held` with them.
    pub fn store(&self, owner: Owner, parts: Vec<Bytes>, held: Held) -> BlobRef {
        let length = parts.iter().map(Bytes::len).sum();
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let blob = Blob {
            owner,
            parts,
            length,
            _held: held,
        };
        self.live.lock().insert(handle, blob);
        BlobRef {
            handle,
            length: i64::try_from(length).unwrap_or(i64::MAX),
        }
    }

    /// Takes a blob out of the table if it fits into `capacity` bytes.
    pub fn take(&self, handle: i64, capacity: usize) -> Result<Blob, Refused> {
        let mut live = self.live.lock();
        match live.get(&handle) {
            None => Err(Refused::Gone),
            Some(blob) if blob.length > capacity => Err(Refused::TooLarge),
            Some(_) => live.remove(&handle).ok_or(Refused::Gone),
        }
    }

    /// Drops a blob; a handle that is gone is ignored.
    pub fn free(&self, handle: i64) {
        let freed = self.live.lock().remove(&handle);
        drop(freed); // outside the lock: it may be many megabytes
    }

    /// Drops everything that `owner` left behind.
    pub fn free_all_of(&self, owner: Owner) {
        let freed: Vec<Blob> = {
            let mut live = self.live.lock();
            let handles: Vec<i64> = live
                .iter()
                .filter(|(_, blob)| blob.owner == owner)
                .map(|(h, _)| *h)
                .collect();
            handles.into_iter().filter_map(|handle| live.remove(&handle)).collect()
        };
        drop(freed);
    }

    /// Blobs that nobody has copied or freed yet.
    pub fn live(&self) -> usize {
        self.live.lock().len()
    }

    /// Those of one engine; looks at every one.
    pub fn live_of(&self, owner: Owner) -> usize {
        self.live.lock().values().filter(|blob| blob.owner == owner).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_taken_once_and_only_into_enough_room() {
        let blobs = Blobs::default();
        let stored = blobs.store(
            1,
            vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"c")],
            Held::default(),
        );
        assert_eq!(stored.length, 3);
        assert_eq!(blobs.take(stored.handle, 2).err(), Some(Refused::TooLarge));
        let blob = blobs.take(stored.handle, 3).ok().unwrap();
        assert_eq!((blob.parts().concat(), blob.length()), (b"abc".to_vec(), 3));
        assert_eq!(blobs.take(stored.handle, 3).err(), Some(Refused::Gone));
        blobs.free(stored.handle);
        assert_eq!(blobs.live(), 0);
    }

    #[test]
    fn what_an_engine_leaves_behind_goes_with_it() {
        let blobs = Blobs::default();
        let kept = blobs.store(1, vec![Bytes::from_static(b"kept")], Held::default());
        blobs.store(2, vec![Bytes::from_static(b"left")], Held::default());
        blobs.store(2, vec![], Held::default());
        blobs.free_all_of(2);
        assert_eq!(blobs.live(), 1);
        assert!(blobs.take(kept.handle, 4).is_ok());
    }
}
