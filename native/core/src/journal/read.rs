//! Reading a commit back.
//!
//! Keeps: L12: a slice is served only when its own checksum, its table and every entry's checksum hold; L16: a segment that is read
//! is pinned.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::frame;
use super::segment::{Pin, Segments};
use super::state::StateTable;
use crate::commit::{Commit, ReadTarget, Slice, SliceEntry};
use crate::error::{Error, Result};
use crate::mutant::{active, Mutant};
use crate::types::StreamId;

/// Reads and verifies the slice of `commit`, whose segment is pinned; without a pin the segment was just being taken away. Blocking.
///
/// The pin is taken before this looks whether the range is still there and released after the last byte was read, so the bytes are
/// those of the commit or the answer says why not; never those of another segment in the same file.
///
/// # Errors
/// `Corrupt` naming segment and position; `OffsetTrimmed` when the segment went because the range was trimmed meanwhile; `Io`.
pub fn slice(
    segments: &Segments,
    state: &StateTable,
    stream: StreamId,
    commit: &Commit,
    pin: Option<&Pin>,
) -> Result<Slice> {
    let ReadTarget::Journal {
        segment,
        position,
        length,
    } = commit.target
    else {
        let what = format!("commit {} of stream {stream} does not lie in the journal", commit.id);
        return Err(Error::Internal { what });
    };
    let place = segments.place(segment, position);
    let corrupt = |detail: String| Error::Corrupt {
        what: format!("commit {} of stream {stream}, offsets {} on", commit.id, commit.start),
        place: place.clone(),
        detail,
    };
    let file = match pin.map_or_else(|| Err(io::ErrorKind::NotFound.into()), Pin::file) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(trimmed(state, stream, commit)
                .unwrap_or_else(|| corrupt("the segment is missing; restore it from a copy".into())));
        }
        Err(e) => return Err(Error::io("open", place, e)),
    };
    let present = file.length().map_err(|e| Error::io("measure", place.clone(), e))?;
    let length = usize::try_from(length)
        .ok()
        .filter(|_| position.checked_add(length).is_some_and(|end| end <= present));
    let length =
        length.ok_or_else(|| corrupt(format!("the segment ends at byte {present}; restore it from a copy")))?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, position)
        .map_err(|e| Error::io("read", place.clone(), e))?;
    let restore = "; restore the segment from a copy";
    let trusting = active(Mutant::ServeUnverifiedRead);
    if crc32c::crc32c(&bytes) != commit.crc32c && !trusting {
        return Err(corrupt(format!("the checksum of the slice is wrong{restore}")));
    }
    let rows = frame::entries(&bytes, commit.count).map_err(|why| corrupt(format!("{why}{restore}")))?;
    let bytes = Bytes::from(bytes);
    let entries = rows.into_iter().enumerate().map(|(index, (range, crc32c))| {
        let entry = bytes.slice(range);
        if crc32c::crc32c(&entry) != crc32c && !trusting {
            return Err(corrupt(format!(
                "the checksum of entry {index} of the slice is wrong{restore}"
            )));
        }
        Ok(SliceEntry { entry, crc32c })
    });
    Ok(Slice {
        entries: entries.collect::<Result<Vec<_>>>().map(Arc::from)?,
    })
}

/// The segment that holds a commit.
pub fn segment_of(commit: &Commit) -> Option<u64> {
    let ReadTarget::Journal { segment, .. } = commit.target else {
        return None;
    };
    Some(segment)
}

fn trimmed(state: &StateTable, stream: StreamId, commit: &Commit) -> Option<Error> {
    let Ok(Some(cell)) = state.head(stream) else {
        return state.head(stream).ok().map(|_| Error::NotFound {
            what: format!("stream {stream}"),
        });
    };
    let trim = cell.with(|head| head.map(|head| head.trim))?;
    (commit.end()? <= trim).then_some(Error::OffsetTrimmed {
        stream,
        wanted: commit.start,
        trim,
    })
}
