//! Memory of Java that a call lends to native code for its duration. The only file besides the table of entry points that touches
//! raw addresses.

use bytes::{Bytes, BytesMut};
use nereus_core::{Error, Result};

use crate::blobs::Blob;
use crate::completions::Record;

/// Most pieces an entry may arrive in.
const MAX_PARTS: usize = 1024;
/// Largest entry that is looked at; the engine's own limit is lower.
const MAX_ENTRY: usize = i32::MAX as usize;

/// Copies `length` bytes at `address` into one allocation.
///
/// # Safety
/// `address` must point to `length` readable bytes that nobody writes during the call, or `length` must not be positive.
pub unsafe fn copy_in(address: i64, length: i32) -> Result<Bytes> {
    let length = usize::try_from(length).map_err(|_| invalid("an entry of negative length"))?;
    if length == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the caller vouches for address and length; null was refused.
    Ok(Bytes::copy_from_slice(unsafe {
        std::slice::from_raw_parts(pointer::<u8>(address)?, length)
    }))
}

/// Puts an entry together from a table of `parts` pairs (address, length), each a native-order `i64`, into one allocation.
///
/// # Safety
/// `table` must point to `parts` such pairs, aligned to eight bytes, each naming readable memory as for [`copy_in`].
pub unsafe fn gather(table: i64, parts: i32) -> Result<Bytes> {
    let parts = usize::try_from(parts).ok().filter(|parts| *parts <= MAX_PARTS);
    let parts = parts.ok_or_else(|| invalid("an entry in an impossible number of pieces"))?;
    if parts == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the caller vouches for the table; null was refused.
    let table = unsafe { std::slice::from_raw_parts(pointer::<[i64; 2]>(table)?, parts) };
    let mut total = 0usize;
    for [_, length] in table {
        let length = usize::try_from(*length).map_err(|_| invalid("a piece of negative length"))?;
        total = total
            .checked_add(length)
            .filter(|total| *total <= MAX_ENTRY)
            .ok_or_else(|| invalid("an entry that is too long"))?;
    }
    let mut entry = BytesMut::with_capacity(total);
    for [address, length] in table {
        let length = usize::try_from(*length).map_err(|_| invalid("a piece of negative length"))?;
        if length > 0 {
            // SAFETY: as for the table; the length was checked above.
            entry.extend_from_slice(unsafe { std::slice::from_raw_parts(pointer::<u8>(*address)?, length) });
        }
    }
    Ok(entry.freeze())
}

/// Copies a blob to `address`.
///
/// # Safety
/// `address` must point to at least `blob.length()` writable bytes that nobody else uses during the call.
pub unsafe fn copy_out(blob: &Blob, address: i64) -> Result<()> {
    let mut to = if blob.length() == 0 {
        std::ptr::null_mut()
    } else {
        pointer::<u8>(address)?
    };
    for part in blob.parts() {
        if !part.is_empty() {
            // SAFETY: the parts add up to the blob's length, for which the caller vouches; Java memory never overlaps Rust's.
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
                to = to.add(part.len());
            }
        }
    }
    Ok(())
}

/// Room for records, lent by a polling thread.
pub struct RecordRoom {
    first: *mut Record,
    capacity: usize,
}

impl RecordRoom {
    /// Room for `capacity` records at `address`.
    ///
    /// # Safety
    /// `address` must point to writable memory for so many records, aligned to eight bytes, that nobody else uses while the room
    /// lives.
    pub unsafe fn new(address: i64, capacity: i32) -> Result<Self> {
        let capacity = usize::try_from(capacity).map_err(|_| invalid("a poll with negative capacity"))?;
        Ok(RecordRoom {
            first: pointer::<Record>(address)?,
            capacity,
        })
    }

    /// Records that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Writes one record; one that does not fit is a defect of the caller and is refused.
    pub fn put(&mut self, index: usize, record: Record) {
        assert!(index < self.capacity, "record {index} of a room for {}", self.capacity);
        // SAFETY: inside the room that `new` was given; a record is plain numbers.
        unsafe { self.first.add(index).write(record) }
    }
}

/// Writes numbers in native byte order at `address`.
///
/// # Safety
/// `address` must point to room for `values`, aligned to eight bytes, that nobody else uses during the call.
pub unsafe fn put_words<const N: usize>(address: i64, values: [i64; N]) -> Result<()> {
    // SAFETY: the caller vouches for the room; null was refused.
    unsafe { pointer::<[i64; N]>(address)?.write(values) };
    Ok(())
}

fn pointer<T>(address: i64) -> Result<*mut T> {
    let address = usize::try_from(address)
        .ok()
        .filter(|a| *a != 0 && *a % std::mem::align_of::<T>() == 0);
    address
        .map(|address| address as *mut T)
        .ok_or_else(|| invalid("a null or misaligned address"))
}

fn invalid(what: &str) -> Error {
    Error::Invalid {
        what: format!("the native call was given {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blobs::Blobs;
    use nereus_core::stream::Held;

    fn address<T>(value: &T) -> i64 {
        std::ptr::from_ref(value) as i64
    }

    #[test]
    fn bytes_go_in_and_out_unchanged() {
        let source = *b"hello";
        // SAFETY: the array lives and nobody writes it.
        let copied = unsafe { copy_in(source.as_ptr() as i64, 5) }.unwrap();
        assert_eq!(copied.as_ref(), b"hello");
        let table: [[i64; 2]; 3] = [[source.as_ptr() as i64, 2], [0, 0], [source.as_ptr() as i64 + 2, 3]];
        // SAFETY: the table names parts of the array above.
        assert_eq!(unsafe { gather(address(&table), 3) }.unwrap().as_ref(), b"hello");
        let blobs = Blobs::default();
        let stored = blobs.store(
            1,
            vec![copied.slice(..2), Bytes::new(), copied.slice(2..)],
            Held::default(),
        );
        let blob = blobs.take(stored.handle, 5).ok().unwrap();
        let mut target = [0u8; 5];
        // SAFETY: five bytes, used by nobody else.
        unsafe { copy_out(&blob, target.as_mut_ptr() as i64) }.unwrap();
        assert_eq!(&target, b"hello");
    }

    #[test]
    fn impossible_arguments_are_refused_and_nothing_is_touched() {
        // SAFETY: every call is refused before memory is touched.
        unsafe {
            assert!(copy_in(0, 1).is_err());
            assert!(copy_in(8, -1).is_err());
            assert!(copy_in(0, 0).unwrap().is_empty());
            assert!(gather(0, 1).is_err());
            assert!(gather(9, 1).is_err());
            assert!(gather(8, -1).is_err());
            assert!(gather(8, i32::MAX).is_err());
            let table: [[i64; 2]; 2] = [[8, i64::MAX], [8, i64::MAX]];
            assert!(gather(address(&table), 2).is_err());
            let table: [[i64; 2]; 1] = [[8, -1]];
            assert!(gather(address(&table), 1).is_err());
            assert!(RecordRoom::new(8, -1).is_err());
            assert!(RecordRoom::new(12, 1).is_err());
            assert!(put_words(0, [1]).is_err());
        }
    }
}
