//! `nereus inspect`: what a data directory says about itself.

use std::collections::BTreeMap;
use std::io::Write;

use nereus_core::commit::{Changed, StreamHead};
use nereus_core::journal::frame::{Descriptor, Frame};
use nereus_core::journal::{commit_of, decode_change};
use nereus_core::record::{Record, RecordType};
use nereus_core::types::StreamId;
use nereus_core::Result;

use crate::directory::{output, Directory};
use crate::walk::{walk, Event};
use crate::Outcome;

/// Frames and bytes of one segment.
struct Segment {
    sequence: u64,
    length: u64,
    frames: Option<(u64, u64)>,
    entries: u64,
    end: u64,
}

/// What is collected before anything is printed.
#[derive(Default)]
struct Findings {
    heads: BTreeMap<StreamId, StreamHead>,
    records: BTreeMap<RecordType, u64>,
    segments: Vec<Segment>,
    /// Dead files that wait for re-use.
    free: usize,
    damages: Vec<String>,
    notes: Vec<String>,
}

/// Prints identity, checkpoint, segments and heads.
pub fn inspect(directory: &Directory, out: &mut dyn Write) -> Result<Outcome> {
    let mut findings = Findings::default();
    findings.checkpoint(directory);
    if let Some(segments) = &directory.segments {
        findings.free = segments.list_free()?.len();
        let covered = directory.covered.map_or(0, |covered| covered.sequence);
        walk(segments, directory.id.uuid, directory.covered, &mut |event| {
            findings.event(event, covered);
            Ok(())
        })?;
    }
    findings.print(directory, out).map_err(output)?;
    Ok(if findings.damages.is_empty() {
        Outcome::Sound
    } else {
        Outcome::Damaged
    })
}

impl Findings {
    fn checkpoint(&mut self, directory: &Directory) {
        let checkpoint = match &directory.checkpoint {
            None => return,
            Some(Err(error)) => return self.damages.push(error.to_string()),
            Some(Ok(checkpoint)) => checkpoint,
        };
        for item in checkpoint.records() {
            let head = item.and_then(|(key, value)| {
                let kind = key.kind().unwrap_or(RecordType::StreamHead);
                *self.records.entry(kind).or_default() += 1;
                if kind == RecordType::StreamHead {
                    StreamHead::decode(&key, &value.value).map(Some)
                } else {
                    Ok(None)
                }
            });
            match head {
                Ok(head) => self.heads.extend(head.map(|head| (head.stream, head))),
                Err(error) => self.damages.push(error.to_string()),
            }
        }
    }

    fn event(&mut self, event: Event<'_>, covered: u64) {
        match event {
            Event::Segment { sequence, length } => {
                self.segments.push(Segment {
                    sequence,
                    length,
                    frames: None,
                    entries: 0,
                    end: 0,
                });
            }
            Event::Frame { position, frame, bytes } => {
                let number = frame.header.sequence;
                if let Some(segment) = self.segments.last_mut() {
                    segment.frames = Some((segment.frames.map_or(number, |(first, _)| first), number));
                    segment.end = position.saturating_add(frame.total_bytes as u64);
                    for (descriptor, _) in &frame.deltas {
                        if let Descriptor::Slice { count, .. } = descriptor {
                            segment.entries = segment.entries.saturating_add(u64::from(*count));
                        }
                    }
                }
                if number >= covered {
                    self.replay(position, frame, bytes);
                }
            }
            Event::Damage { place, what } => self.damages.push(format!("{place}: {what}")),
            Event::Note { place, what } => self.notes.push(format!("{place}: {what}")),
        }
    }

    /// Moves the heads by a frame that is newer than the checkpoint.
    fn replay(&mut self, position: u64, frame: &Frame, bytes: &[u8]) {
        for (descriptor, placed) in &frame.deltas {
            let moved = match descriptor {
                Descriptor::Slice { stream, .. } => {
                    let commit = commit_of(descriptor, placed, &frame.header, position);
                    match (self.heads.get_mut(stream), commit) {
                        (Some(head), Some(commit)) => head.fits(&commit).map(|()| drop(head.commit(commit))),
                        _ => Err("it has no head".into()),
                    }
                    .map_err(|why| (*stream, why))
                }
                Descriptor::Change { stream, .. } => {
                    let change = placed
                        .part(bytes)
                        .and_then(decode_change)
                        .ok_or("a change that cannot be read".to_owned());
                    change
                        .and_then(|change| change.judge(*stream, self.heads.get(stream)).map_err(|e| e.to_string()))
                        .map(|changed| match changed {
                            Changed::Head(head) => drop(self.heads.insert(*stream, *head)),
                            Changed::Deleted => drop(self.heads.remove(stream)),
                            Changed::Nothing => {}
                        })
                        .map_err(|why| (*stream, why))
                }
                Descriptor::Write { .. } => Ok(()),
            };
            if let Err((stream, why)) = moved {
                self.damages.push(format!(
                    "stream {stream}: frame {} does not fit: {why}",
                    frame.header.sequence
                ));
            }
        }
    }

    fn print(&self, directory: &Directory, out: &mut dyn Write) -> std::io::Result<()> {
        let id = &directory.id;
        writeln!(out, "data directory {}", directory.path.display())?;
        writeln!(
            out,
            "  cluster {}, uuid {:032x}, started {} times",
            id.cluster, id.uuid, id.epoch
        )?;
        if id.pending != 0 {
            writeln!(
                out,
                "  start {} was begun and not finished, or is under way",
                id.pending
            )?;
        }
        if let Some(holder) = &directory.last_holder {
            writeln!(out, "  last used by {holder}")?;
        }
        match directory.covered {
            None => writeln!(out, "checkpoint: none")?,
            Some(covered) => {
                let (frame, segment) = (covered.sequence, covered.segment);
                writeln!(
                    out,
                    "checkpoint: covers all frames below {frame} (segment {segment:016x} at byte {})",
                    covered.offset
                )?;
            }
        }
        for (kind, count) in &self.records {
            writeln!(out, "  {count} {}", kind.name())?;
        }
        writeln!(out, "segments: {}", self.segments.len())?;
        for segment in &self.segments {
            let frames = segment.frames.map_or("no frames".to_owned(), |(first, last)| {
                format!("frames {first} to {last}")
            });
            writeln!(
                out,
                "  {:016x}: {frames}, {} entries, {} of {} bytes",
                segment.sequence, segment.entries, segment.end, segment.length
            )?;
        }
        if self.free > 0 {
            writeln!(out, "dead segment files, kept for re-use: {}", self.free)?;
        }
        writeln!(out, "streams: {}", self.heads.len())?;
        for head in self.heads.values() {
            writeln!(
                out,
                "  {}: incarnation {}, entries {} to {}, {} bytes, version {}, owner epoch {} ({}){}",
                head.stream,
                head.incarnation,
                head.trim,
                head.end,
                head.total_bytes.saturating_sub(head.trimmed_bytes),
                head.version,
                head.owner_epoch,
                head.owner,
                if head.terminated { ", terminated" } else { "" }
            )?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        for damage in &self.damages {
            writeln!(out, "damage: {damage}")?;
        }
        Ok(())
    }
}
