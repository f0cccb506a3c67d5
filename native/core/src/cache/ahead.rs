//! Where the readers of one open stream are, and how far ahead of each it is worth reading.
//!
//! Promises: the window of a reader that goes on where it stopped doubles, from [`FIRST`] up to the most; one that jumps starts
//! without a window; one that is refused memory has half of it at its next read. A handful of readers per stream are told apart by their position.
//! A stream that is not read from the log holds an empty vector: no task, no timer.
//! Does not: read anything.

use crate::types::Offset;

/// Window of a reader at its second read, bytes: about what one small read of a dispatcher takes.
pub const FIRST: u64 = 256 << 10;
/// Largest window, bytes: some milliseconds of a fast device, so that it always has something to do.
pub const MOST: u64 = 8 << 20;
/// Readers told apart. Further ones take the place of the one that has not read for longest.
const READERS: usize = 8;

/// The readers of one stream.
#[derive(Debug, Default)]
pub struct ReadAhead {
    readers: Vec<Reader>,
    clock: u64,
}

#[derive(Debug)]
struct Reader {
    next: Offset,
    ahead: Ahead,
    window: u64,
    used_at: u64,
}

/// Up to where slices were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// The first offset not asked for.
    pub offset: Offset,
    /// Bytes of the stream below it.
    pub bytes: u64,
}

/// What a read may do ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Bytes beyond the read itself; 0 = nothing.
    pub bytes: u64,
    /// What earlier reads asked for already.
    pub asked: Ahead,
}

impl ReadAhead {
    /// A read begins at `start`. A reader that skips a part of what was read ahead for it still goes on.
    pub fn begin(&mut self, start: Offset, most: u64) -> Window {
        self.clock += 1;
        let goes_on = |reader: &&mut Reader| reader.next <= start && start <= reader.next.max(reader.ahead.offset);
        let nothing = Ahead {
            offset: start,
            bytes: 0,
        };
        // The nearest one, when several are on the same way.
        if let Some(reader) = self.readers.iter_mut().filter(goes_on).max_by_key(|reader| reader.next) {
            reader.window = reader.window.saturating_mul(2).clamp(FIRST, MOST).min(most);
            reader.used_at = self.clock;
            reader.next = start;
            return Window {
                bytes: reader.window,
                asked: reader.ahead,
            };
        }
        if self.readers.len() >= READERS {
            let oldest = self.readers.iter().enumerate().min_by_key(|(_, reader)| reader.used_at);
            if let Some(index) = oldest.map(|(index, _)| index) {
                self.readers.swap_remove(index);
            }
        }
        self.readers.push(Reader {
            next: start,
            ahead: nothing,
            window: 0,
            used_at: self.clock,
        });
        Window {
            bytes: 0,
            asked: nothing,
        }
    }

    /// The read that began at `start` gave entries up to `next` and asked for slices up to `ahead`; `refused` = there was no room
    /// for all that its window allowed.
    pub fn end(&mut self, start: Offset, next: Offset, ahead: Ahead, refused: bool) {
        if let Some(reader) = self.readers.iter_mut().find(|reader| reader.next == start) {
            reader.next = next;
            if ahead.offset > reader.ahead.offset {
                reader.ahead = ahead;
            }
            if refused {
                // The next read doubles it.
                reader.window /= 4;
            }
        }
    }

    /// Forgets every reader.
    pub fn clear(&mut self) {
        self.readers = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(n: u64) -> Offset {
        Offset::new(n)
    }

    fn ahead(n: u64) -> Ahead {
        Ahead {
            offset: offset(n),
            bytes: n * 10,
        }
    }

    #[test]
    fn window_doubles_while_a_reader_goes_on_and_ends_when_it_jumps() {
        let mut readers = ReadAhead::default();
        let mut windows = Vec::new();
        for read in 0..8 {
            let start = offset(read * 10);
            windows.push(readers.begin(start, MOST).bytes);
            readers.end(start, offset(read * 10 + 10), ahead(read * 10 + 15), false);
        }
        assert_eq!(
            windows,
            [0, FIRST, FIRST * 2, FIRST * 4, FIRST * 8, FIRST * 16, MOST, MOST]
        );
        assert_eq!(readers.begin(offset(500), MOST).bytes, 0);
        assert_eq!(
            readers.begin(offset(80), FIRST).bytes,
            FIRST,
            "the caller's bound holds"
        );
    }

    #[test]
    fn skipping_inside_what_was_read_ahead_is_going_on() {
        let mut readers = ReadAhead::default();
        readers.begin(offset(0), MOST);
        readers.end(offset(0), offset(10), ahead(40), false);
        let window = readers.begin(offset(25), MOST);
        assert_eq!((window.bytes, window.asked), (FIRST, ahead(40)));
        assert_eq!(readers.begin(offset(41), MOST).bytes, 0);
    }

    #[test]
    fn two_readers_of_one_stream_have_windows_of_their_own() {
        let mut readers = ReadAhead::default();
        for read in 0..4 {
            for base in [0, 1000] {
                let start = base + read * 10;
                let window = readers.begin(offset(start), MOST).bytes;
                assert_eq!(window, if read == 0 { 0 } else { FIRST << (read - 1) });
                readers.end(offset(start), offset(start + 10), ahead(start + 12), false);
            }
        }
        for other in 2000..2100 {
            readers.begin(offset(other * 100), MOST);
        }
        assert_eq!(readers.readers.len(), READERS);
    }

    #[test]
    fn refused_memory_halves_the_window() {
        let mut readers = ReadAhead::default();
        let mut windows = Vec::new();
        for read in 0..6 {
            windows.push(readers.begin(offset(read), MOST).bytes);
            readers.end(offset(read), offset(read + 1), ahead(read + 1), read >= 3);
        }
        assert_eq!(windows, [0, FIRST, FIRST * 2, FIRST * 4, FIRST * 2, FIRST]);
    }
}
