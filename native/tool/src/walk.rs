//! From the first segment to the last, frame by frame.
//!
//! Damage is told from an unfinished tail as recovery does: a frame counts as synced when a later frame or the checkpoint proves
//! it. What is not proven was never acknowledged for certain, and is only noted. A broker that is at work meanwhile may use a dead
//! segment again: before anything is called damage, this looks whether the file is still the same segment.

use std::sync::Arc;

use nereus_core::journal::frame::Frame;
use nereus_core::journal::segment::{Segments, HEADER_BYTES};
use nereus_core::journal::{Found, Position, Scan};
use nereus_core::Result;

/// What a walk comes across, in the order of the journal.
pub enum Event<'a> {
    /// A segment begins.
    Segment {
        /// Its sequence number.
        sequence: u64,
        /// Bytes that may hold frames.
        length: u64,
    },
    /// A frame whose header and table are right; its body is judged by the visitor, part by part.
    Frame {
        /// Where it begins in the segment.
        position: u64,
        /// Header and table.
        frame: &'a Frame,
        /// All its bytes.
        bytes: &'a [u8],
    },
    /// Something that was synced is not readable.
    Damage {
        /// File and byte.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// Worth knowing, and no damage.
    Note {
        /// File and byte.
        place: String,
        /// What is there.
        what: String,
    },
}

type Visit<'a> = &'a mut dyn FnMut(Event<'_>) -> Result<()>;

/// Walks through all segments. `covered` is what the checkpoint covers.
pub fn walk(segments: &Arc<Segments>, directory: u128, covered: Option<Position>, visit: Visit<'_>) -> Result<()> {
    let mut next = None;
    let sequences = segments.list()?;
    // Segments that nobody needs any more are removed also from the middle.
    for run in sequences.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        let scan = Scan::open(segments.clone(), run, directory)?;
        Walker {
            segments,
            scan,
            covered,
            next,
            visit: &mut *visit,
        }
        .run(&mut next)?;
    }
    let expected = covered.map_or(0, |covered| covered.sequence);
    if let Some(missing) = next.filter(|next| *next < expected) {
        let what = format!(
            "frames {missing} to {} are missing; the checkpoint covers them",
            expected.saturating_sub(1)
        );
        visit(Event::Damage {
            place: segments.directory().display().to_string(),
            what,
        })?;
    }
    Ok(())
}

/// How the walk through a segment ended.
enum Jump {
    /// No frame follows in it.
    End,
    /// The log goes on in the segment with this index.
    To(usize),
    /// The file is another segment by now.
    UsedAgain,
}

/// What became of a frame.
enum Shown {
    Whole,
    Unfinished,
    UsedAgain,
}

struct Walker<'a, 'v> {
    segments: &'a Segments,
    scan: Scan,
    covered: Option<Position>,
    /// Sequence number of the frame that has to come; `None` before the first one.
    next: Option<u64>,
    visit: Visit<'v>,
}

impl Walker<'_, '_> {
    fn run(mut self, next: &mut Option<u64>) -> Result<()> {
        // The first frame of a run follows on removed segments: any number beyond is fine.
        let mut begun = false;
        let mut start = HEADER_BYTES;
        let mut index = 0;
        while let Some((sequence, length, header)) = self
            .scan
            .segments()
            .get(index)
            .map(|open| (open.sequence, open.length, open.header))
        {
            (self.visit)(Event::Segment { sequence, length })?;
            if header.is_none() {
                self.damage(sequence, 0, "the header block of the segment is damaged".into())?;
            }
            let mut position = std::mem::replace(&mut start, HEADER_BYTES);
            let jump = loop {
                let wanted = self.next.unwrap_or(0);
                match self.scan.at(index, position)? {
                    Found::Frame(frame) if frame.header.sequence >= wanted => {
                        if begun && frame.header.sequence > wanted {
                            if self.is_used_again(index, sequence)? {
                                break Jump::UsedAgain;
                            }
                            self.damage(sequence, position, missing(wanted, frame.header.sequence))?;
                        }
                        match self.frame(index, sequence, position, &frame)? {
                            Shown::Whole => {}
                            Shown::Unfinished => break Jump::End,
                            Shown::UsedAgain => break Jump::UsedAgain,
                        }
                        begun = true;
                        self.next = frame.header.sequence.checked_add(1);
                        position = position.saturating_add(frame.total_bytes as u64);
                        continue;
                    }
                    _ => {}
                }
                let later = self.scan.later(index, position, wanted)?;
                if self.is_used_again(index, sequence)? {
                    break Jump::UsedAgain;
                }
                match later {
                    Some(later) => {
                        let found = later.frame.header.sequence;
                        if begun && found > wanted {
                            self.damage(sequence, position, missing(wanted, found))?;
                        } else if !begun && later.index == index {
                            // Frames of a segment begin at its begin.
                            self.damage(
                                sequence,
                                position,
                                format!("what stands before frame {found} is unreadable"),
                            )?;
                        }
                        self.next = Some(found);
                        begun = true;
                        if later.index > index {
                            break Jump::To(later.index);
                        }
                        position = later.position;
                    }
                    None => break Jump::End,
                }
            };
            let following = index.saturating_add(1);
            index = match jump {
                Jump::UsedAgain => {
                    // Its last frames were not seen: what comes next follows on something unknown.
                    begun = false;
                    following
                }
                Jump::End => {
                    self.end_of_segment(index, sequence, position)?;
                    following
                }
                Jump::To(later) => {
                    self.end_of_segment(index, sequence, position)?;
                    later
                }
            };
        }
        *next = self.next;
        Ok(())
    }

    /// Whether the broker has made another segment of this file since the walk began; noted then.
    fn is_used_again(&mut self, index: usize, sequence: u64) -> Result<bool> {
        if self.scan.is_unchanged(index)? {
            return Ok(false);
        }
        let what = "nothing needed the segment any more, and the broker uses its file again: look again for the rest";
        self.note(sequence, 0, what.into())?;
        Ok(true)
    }

    /// Shows one frame; an unfinished one ends the log.
    fn frame(&mut self, index: usize, sequence: u64, position: u64, frame: &Frame) -> Result<Shown> {
        let bytes = self.scan.bytes(index, position, frame)?;
        if !frame.body_is_intact(&bytes) {
            if self.is_used_again(index, sequence)? {
                return Ok(Shown::UsedAgain);
            }
            let number = frame.header.sequence;
            let covered = self.covered.is_some_and(|covered| number < covered.sequence);
            if !covered && self.scan.later(index, position, number)?.is_none() {
                let what = format!("frame {number} is unfinished: it was never acknowledged, and a start drops it");
                self.note(sequence, position, what)?;
                return Ok(Shown::Unfinished);
            }
        }
        (self.visit)(Event::Frame {
            position,
            frame,
            bytes: &bytes,
        })?;
        Ok(Shown::Whole)
    }

    /// Behind the last frame: what else lies there, and whether the file is as long as it was made.
    fn end_of_segment(&mut self, index: usize, sequence: u64, end: u64) -> Result<()> {
        let Some(open) = self.scan.segments().get(index) else {
            return Ok(());
        };
        let (length, header) = (open.length, open.header);
        let follower = self
            .scan
            .segments()
            .get(index.saturating_add(1))
            .and_then(|next| next.header);
        let kept = follower.map(|next| next.previous_length).filter(|kept| *kept > 0);
        let whole = kept.or(header.map(|header| header.length)).unwrap_or(length);
        let behind = self.scan.behind(index, end.min(length))?;
        let written = behind.end;
        if length < whole && (written > end || end >= length) {
            self.damage(
                sequence,
                length,
                format!("the file has {length} bytes of {whole}: it was cut"),
            )?;
        } else if written > end && !behind.reused {
            let what = format!(
                "{} bytes behind the last frame are none: left by a crash",
                written.saturating_sub(end)
            );
            self.note(sequence, end, what)?;
        }
        Ok(())
    }

    fn damage(&mut self, sequence: u64, position: u64, what: String) -> Result<()> {
        let place = self.segments.place(sequence, position);
        (self.visit)(Event::Damage { place, what })
    }

    fn note(&mut self, sequence: u64, position: u64, what: String) -> Result<()> {
        let place = self.segments.place(sequence, position);
        (self.visit)(Event::Note { place, what })
    }
}

fn missing(wanted: u64, found: u64) -> String {
    match found.saturating_sub(1) {
        last if last == wanted => format!("frame {wanted} is unreadable"),
        last => format!("frames {wanted} to {last} are unreadable"),
    }
}
