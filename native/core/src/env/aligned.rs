//! Memory as a file wants it that is written past the page cache.
//!
//! Promises: the first byte lies at a multiple of [`ALIGNMENT`], as long as no more is put in than room was made for.

use std::ops::{Deref, DerefMut};

/// What memory, position and length of such a write are multiples of, bytes. No disk in use asks for more.
pub const ALIGNMENT: usize = 4096;

/// A vector of bytes that begins at a multiple of [`ALIGNMENT`].
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    /// Bytes of `memory` before the first one that counts.
    start: usize,
}

impl AlignedBuffer {
    /// An empty buffer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::default();
        buffer.reset(capacity);
        buffer
    }

    /// Empties it and makes room for `capacity` bytes. Beyond those it still grows, but may lose its alignment.
    pub fn reset(&mut self, capacity: usize) {
        if self.memory.capacity().saturating_sub(self.start) >= capacity {
            self.memory.truncate(self.start);
            return;
        }
        self.memory = Vec::with_capacity(capacity.saturating_add(ALIGNMENT));
        // A vector of bytes can always tell; the bound only keeps a wrong answer harmless.
        self.start = self.memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        self.memory.resize(self.start, 0);
    }

    /// Cuts it, or lengthens it with zeros.
    pub fn resize(&mut self, length: usize) {
        self.memory.resize(self.start.saturating_add(length), 0);
    }

    /// Puts bytes at the end.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.memory.extend_from_slice(bytes);
    }

    /// Bytes of memory that it takes.
    pub fn footprint(&self) -> usize {
        self.memory.capacity()
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.get(self.start..).unwrap_or_default()
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_aligned(buffer: &AlignedBuffer) -> bool {
        buffer.as_ptr().align_offset(ALIGNMENT) == 0
    }

    #[test]
    fn bytes_stay_aligned_within_the_room_that_was_made() {
        let mut buffer = AlignedBuffer::default();
        for capacity in [1, 4096, 100_000, 5, 4097] {
            buffer.reset(capacity);
            assert!(buffer.is_empty());
            buffer.resize(capacity / 2);
            buffer.extend_from_slice(&vec![7; capacity - capacity / 2]);
            assert_eq!(buffer.len(), capacity);
            assert!(buffer[..capacity / 2].iter().all(|byte| *byte == 0));
            assert!(buffer[capacity / 2..].iter().all(|byte| *byte == 7));
            assert!(is_aligned(&buffer), "{capacity}");
        }
    }

    #[test]
    fn more_than_room_was_made_for_is_kept() {
        let mut buffer = AlignedBuffer::with_capacity(10);
        buffer.extend_from_slice(&[1; 100_000]);
        assert_eq!(*buffer, [1; 100_000]);
        buffer.reset(200_000);
        assert!(buffer.is_empty() && is_aligned(&buffer));
    }
}
