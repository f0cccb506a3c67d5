//! Reading frames back, one after the other, and looking for proof.
//!
//! Promises: `at` answers a frame only when header, table, segment and run are right; a read error is an error, never the end.
//! [`Scan::later`] finds the first later header of a sequence at or past a wanted one: since a frame is written only after the one
//! before it was synced, that header proves every frame of a lower sequence, whether its own body is whole or not.
//! Frames that a re-used file still holds of its former segments carry those segments' sequence: they are no frames and no proof.

use std::sync::Arc;

use super::frame::{self, Fault, Frame, BLOCK};
use super::segment::{Pin, SegmentHeader, Segments, HEADER_BYTES};
use crate::env::DiskFile;
use crate::error::{Error, Result};
use crate::mutant::{active, Mutant};

/// Bytes read at once while looking ahead.
const WINDOW: usize = 1 << 20;

/// What a block that was never used holds.
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// One segment, open for the scan.
pub struct Open {
    /// Its sequence number.
    pub sequence: u64,
    /// Bytes that may hold frames.
    pub length: u64,
    /// What its header block says; `None` when it is damaged.
    pub header: Option<SegmentHeader>,
    file: Arc<dyn DiskFile>,
    /// Nothing is read from a file that became another segment.
    _pin: Pin,
    /// The run whose frames are accepted; of a damaged header block: that of the first frame.
    run: Option<u64>,
}

/// What stands at some place.
pub enum Found {
    /// A frame whose header and table are right.
    Frame(Box<Frame>),
    /// None of ours: zeros, other bytes, a damaged header, or lengths past the end.
    Nothing,
}

/// A later frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Later {
    /// Index of its segment in the scan.
    pub index: usize,
    /// Where it starts.
    pub position: u64,
    /// The frame.
    pub frame: Frame,
}

/// What lies behind the last frame of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// One past the last block that is neither zeros nor part of a whole frame of a former segment.
    pub end: u64,
    /// The file was another segment before.
    pub reused: bool,
}

/// Consecutive segments of a journal.
pub struct Scan {
    segments: Arc<Segments>,
    opened: Vec<Open>,
}

impl Scan {
    /// Opens `sequences`, which follow each other.
    pub fn open(segments: Arc<Segments>, sequences: &[u64], directory_id: u128) -> Result<Scan> {
        let opened = sequences
            .iter()
            .map(|sequence| open(&segments, *sequence, directory_id))
            .collect::<Result<_>>()?;
        Ok(Scan { segments, opened })
    }

    /// The segments, in order.
    pub fn segments(&self) -> &[Open] {
        &self.opened
    }

    /// The frame at `position` of the segment with this index.
    pub fn at(&mut self, index: usize, position: u64) -> Result<Found> {
        let Some(open) = self.opened.get_mut(index) else {
            return Ok(Found::Nothing);
        };
        let room = open.length.saturating_sub(position);
        if room < BLOCK as u64 {
            return Ok(Found::Nothing);
        }
        let mut bytes = vec![0; BLOCK];
        read(&self.segments, open, &mut bytes, position)?;
        let Ok(sizes) = frame::sizes(&bytes, room) else {
            return Ok(Found::Nothing);
        };
        if sizes.head > bytes.len() {
            bytes.resize(sizes.head, 0);
            read(&self.segments, open, &mut bytes, position)?;
        }
        match Frame::decode(&bytes) {
            Ok(frame) if frame.header.segment == open.sequence || active(Mutant::AcceptStaleFrame) => {
                let run = *open.run.get_or_insert(frame.header.run);
                Ok(if run == frame.header.run || active(Mutant::AcceptStaleFrame) {
                    Found::Frame(Box::new(frame))
                } else {
                    Found::Nothing
                })
            }
            Err(Fault::Newer(format)) => {
                let place = self.segments.place(open.sequence, position);
                let known = frame::FORMAT;
                let feature =
                    format!("journal format {format} in {place} (this build knows up to {known}): use a newer build");
                Err(Error::Unsupported { feature })
            }
            _ => Ok(Found::Nothing),
        }
    }

    /// The whole frame at `position`, body not verified.
    pub fn bytes(&self, index: usize, position: u64, frame: &Frame) -> Result<Vec<u8>> {
        let mut bytes = vec![0; frame.total_bytes];
        if let Some(open) = self.opened.get(index) {
            read(&self.segments, open, &mut bytes, position)?;
        }
        Ok(bytes)
    }

    /// The first header behind `position` whose sequence is past `wanted`, or, in a later segment, also `wanted` itself: there the
    /// log went on after an earlier torn tail.
    pub fn later(&mut self, index: usize, position: u64, wanted: u64) -> Result<Option<Later>> {
        for ahead in index..self.opened.len() {
            let (from, least) = match ahead == index {
                true => (position.saturating_add(BLOCK as u64), wanted.saturating_add(1)),
                false => (HEADER_BYTES, wanted),
            };
            if let Some(found) = self.header_from(ahead, from, least)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn header_from(&mut self, index: usize, from: u64, least: u64) -> Result<Option<Later>> {
        let mut window = Vec::new();
        let mut position = from;
        while let Some(open) = self.opened.get(index) {
            let left = usize::try_from(open.length.saturating_sub(position))
                .unwrap_or(WINDOW)
                .min(WINDOW);
            let left = left / BLOCK * BLOCK;
            if left == 0 {
                return Ok(None);
            }
            window.resize(left, 0);
            read(&self.segments, open, &mut window, position)?;
            let candidates: Vec<u64> = window
                .chunks_exact(BLOCK)
                .zip((position..).step_by(BLOCK))
                // An entry may imitate the beginning of a frame, with lengths that would make each such block read to the end of
                // the segment; it cannot know the run.
                .filter(|(block, _)| frame::writer(block).is_some_and(|by| is_of(open, by)))
                .map(|(_, at)| at)
                .collect();
            for at in candidates {
                // A newer format cannot begin behind frames of this one without a sound frame at an expected place.
                match self.at(index, at) {
                    Ok(Found::Frame(frame)) if frame.header.sequence >= least => {
                        return Ok(Some(Later {
                            index,
                            position: at,
                            frame: *frame,
                        }));
                    }
                    Ok(_) | Err(Error::Unsupported { .. }) => {}
                    Err(other) => return Err(other),
                }
            }
            position = position.saturating_add(left as u64);
        }
        Ok(None)
    }

    /// Whether the file is still the segment that was opened: another process may have used it again meanwhile.
    pub fn is_unchanged(&self, index: usize) -> Result<bool> {
        let Some(open) = self.opened.get(index) else {
            return Ok(true);
        };
        let mut block = vec![0; BLOCK];
        read(&self.segments, open, &mut block, 0)?;
        Ok(SegmentHeader::decode(&block).map_or(open.header.is_none(), |header| Some(header) == open.header))
    }

    /// What lies in a segment from `from` on, behind its last frame.
    ///
    /// A file that was another segment before still holds frames of it. Those that are whole are none of this segment's business,
    /// like zeros; everything else may be what a torn tail left, or the rest of a former frame: that cannot be told.
    pub fn behind(&self, index: usize, from: u64) -> Result<Behind> {
        let mut behind = Behind {
            end: from,
            reused: false,
        };
        let Some(open) = self.opened.get(index) else {
            return Ok(behind);
        };
        let mut window = Vec::new();
        // Whole frames do not overlap. Blocks that only imitate some would be read to the end of the segment, each.
        let mut budget = open.length.saturating_mul(2);
        let (mut position, mut skip_to) = (from, from);
        while position < open.length {
            let left = usize::try_from(open.length.saturating_sub(position))
                .unwrap_or(WINDOW)
                .min(WINDOW);
            window.resize(left, 0);
            read(&self.segments, open, &mut window, position)?;
            for (block, at) in window.chunks(BLOCK).zip((position..).step_by(BLOCK)) {
                if at < skip_to || ZEROS.get(..block.len()) == Some(block) {
                    continue;
                }
                match self.former_frame(open, block, at, &mut budget)? {
                    Some(bytes) => {
                        behind.reused = true;
                        skip_to = at.saturating_add(bytes);
                    }
                    None => behind.end = at.saturating_add(block.len() as u64),
                }
            }
            position = position.saturating_add(left as u64);
        }
        Ok(behind)
    }

    /// Bytes of the whole frame of a former segment that begins with `block`, if one does and `budget` allows to read it.
    fn former_frame(&self, open: &Open, block: &[u8], at: u64, budget: &mut u64) -> Result<Option<u64>> {
        let Ok(sizes) = frame::sizes(block, open.length.saturating_sub(at).min(*budget)) else {
            return Ok(None);
        };
        *budget = budget.saturating_sub(sizes.total as u64);
        let mut bytes = vec![0; sizes.total];
        read(&self.segments, open, &mut bytes, at)?;
        Ok(Frame::decode(&bytes)
            .ok()
            .filter(|frame| frame.header.segment < open.sequence && frame.body_is_intact(&bytes))
            .map(|frame| frame.total_bytes as u64))
    }
}

/// Whether a frame of this segment sequence and run can be one of the segment.
fn is_of(open: &Open, (segment, run): (u64, u64)) -> bool {
    segment == open.sequence && open.run.is_none_or(|own| own == run)
}

fn open(segments: &Arc<Segments>, sequence: u64, directory_id: u128) -> Result<Open> {
    let path = || segments.path(sequence).display().to_string();
    let pin = segments
        .pin(sequence)
        .ok_or_else(|| std::io::ErrorKind::NotFound.into());
    let pin = pin.map_err(|e| Error::io("open", path(), e))?;
    let file = pin.file().map_err(|e| Error::io("open", path(), e))?;
    let length = file.length().map_err(|e| Error::io("measure", path(), e))?;
    let mut block = vec![0; BLOCK];
    let header = if length < HEADER_BYTES {
        None
    } else {
        file.read_exact_at(&mut block, 0)
            .map_err(|e| Error::io("read", path(), e))?;
        match SegmentHeader::decode(&block) {
            Ok(header) => Some(header),
            Err(Some(format)) => {
                return Err(Error::Unsupported {
                    feature: format!("journal format {format} in {}: use a newer build", path()),
                })
            }
            Err(None) => None,
        }
    };
    if let Some(header) = header.filter(|header| header.directory_id != directory_id || header.sequence != sequence) {
        // Another process may be at work here, and just have used the file again.
        if !segments.list()?.contains(&sequence) {
            return Err(Error::io("open", path(), std::io::ErrorKind::NotFound.into()));
        }
        return Err(Error::Corrupt {
            what: "a journal segment".into(),
            place: path(),
            detail: format!(
                "it is segment {:016x} of data directory {:032x}, not segment {sequence:016x} of {directory_id:032x}: restore the \
                 data directory from one copy",
                header.sequence, header.directory_id
            ),
        });
    }
    if header.is_none() {
        tracing::warn!(
            segment = path(),
            "the header block of a journal segment is damaged; its frames speak for themselves"
        );
    }
    let length = header.map_or(length, |header| length.min(header.length));
    Ok(Open {
        sequence,
        length,
        header,
        file,
        _pin: pin,
        run: header.map(|header| header.run),
    })
}

fn read(segments: &Segments, open: &Open, buffer: &mut [u8], position: u64) -> Result<()> {
    let place = || segments.place(open.sequence, position);
    open.file
        .read_exact_at(buffer, position)
        .map_err(|e| Error::io("read", place(), e))
}
