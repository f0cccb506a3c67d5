//! `nereus verify`: every checksum of a data directory, and every record read back as what it says it is.

use std::io::Write;

use nereus_core::journal::decode_change;
use nereus_core::journal::frame::{entries, Descriptor, Frame, Placed};
use nereus_core::{record, Error, Result};

use crate::directory::{output, Directory};
use crate::walk::{walk, Event};
use crate::Outcome;

/// What was looked at.
#[derive(Default)]
struct Totals {
    segments: u64,
    frames: u64,
    entries: u64,
    bytes: u64,
    records: u64,
    damages: u64,
}

/// Verifies a directory and prints a line for each finding, then one summary.
pub fn verify(directory: &Directory, out: &mut dyn Write) -> Result<Outcome> {
    let mut totals = Totals::default();
    checkpoint(directory, &mut totals, out)?;
    if let Some(segments) = &directory.segments {
        let mut segment = 0;
        walk(
            segments,
            directory.id.uuid,
            directory.covered,
            &mut |event| match event {
                Event::Segment { sequence, .. } => {
                    segment = sequence;
                    totals.segments += 1;
                    Ok(())
                }
                Event::Frame { position, frame, bytes } => {
                    totals.frames += 1;
                    let place = |at: u64| segments.place(segment, position.saturating_add(at));
                    body(frame, bytes, &place, &mut totals, out)
                }
                Event::Damage { place, what } => damage(&place, &what, &mut totals, out),
                Event::Note { place, what } => writeln!(out, "note: {place}: {what}").map_err(output),
            },
        )?;
    }
    let Totals {
        segments,
        frames,
        entries,
        bytes,
        records,
        damages,
    } = totals;
    writeln!(
        out,
        "verify: {segments} segments, {frames} frames, {entries} entries ({bytes} bytes), {records} records; {damages} damaged"
    )
    .map_err(output)?;
    Ok(if damages == 0 { Outcome::Sound } else { Outcome::Damaged })
}

fn checkpoint(directory: &Directory, totals: &mut Totals, out: &mut dyn Write) -> Result<()> {
    let place = directory.path.join("metadata").display().to_string();
    let checkpoint = match &directory.checkpoint {
        None => return Ok(()),
        Some(Err(error)) => return damage(&place, &error.to_string(), totals, out),
        Some(Ok(checkpoint)) => checkpoint,
    };
    for item in checkpoint.records() {
        let checked = item.and_then(|(key, value)| record::verify(&key, &value.value));
        totals.records += 1;
        if let Err(error) = checked {
            damage(&place, &error.to_string(), totals, out)?;
        }
    }
    match checkpoint.damages() {
        Err(error) => damage(&place, &error.to_string(), totals, out)?,
        Ok(damages) => {
            for (scope, known) in damages {
                let whom = match scope {
                    None => "everything".to_owned(),
                    Some(None) => "keys without a stream".to_owned(),
                    Some(Some(stream)) => format!("stream {stream}"),
                };
                let what = format!("{whom}: found by an earlier start: {}", known.detail);
                damage(
                    &format!("segment {:016x} at byte {}", known.segment, known.position),
                    &what,
                    totals,
                    out,
                )?;
            }
        }
    }
    Ok(())
}

fn body(
    frame: &Frame,
    bytes: &[u8],
    place: &dyn Fn(u64) -> String,
    totals: &mut Totals,
    out: &mut dyn Write,
) -> Result<()> {
    let before = totals.damages;
    for (descriptor, placed) in &frame.deltas {
        if let Err(what) = part(descriptor, placed, bytes, totals) {
            damage(
                &place(u64::from(placed.position)),
                &format!("{}: {what}", of(descriptor)),
                totals,
                out,
            )?;
        }
    }
    if totals.damages == before && !frame.body_is_intact(bytes) {
        damage(
            &place(0),
            &format!(
                "the padding of frame {} is damaged; no data is concerned",
                frame.header.sequence
            ),
            totals,
            out,
        )?;
    }
    Ok(())
}

/// Checks one part of a frame; the text says what is wrong.
fn part(
    descriptor: &Descriptor,
    placed: &Placed,
    frame: &[u8],
    totals: &mut Totals,
) -> std::result::Result<(), String> {
    let part = placed.part(frame).ok_or("the checksum does not fit")?;
    match descriptor {
        Descriptor::Slice { count, bytes, .. } => {
            let mut sum = 0u64;
            for (number, (range, stored)) in entries(part, *count)?.into_iter().enumerate() {
                let entry = part.get(range).ok_or("an entry lies outside")?;
                if crc32c::crc32c(entry) != stored {
                    return Err(format!("the checksum of entry {number} does not fit"));
                }
                totals.entries += 1;
                sum = sum.saturating_add(entry.len() as u64);
            }
            totals.bytes = totals.bytes.saturating_add(sum);
            if sum == *bytes {
                Ok(())
            } else {
                Err(format!("{sum} bytes of entries, {bytes} announced"))
            }
        }
        Descriptor::Change { .. } => decode_change(part)
            .map(drop)
            .ok_or_else(|| "a change that cannot be read".into()),
        Descriptor::Write { delete: true, .. } if part.is_empty() => Ok(()),
        Descriptor::Write { delete: true, .. } => Err("a deletion with a value".into()),
        Descriptor::Write { key, .. } => {
            totals.records += 1;
            record::verify(key, part).map_err(|error: Error| error.to_string())
        }
    }
}

fn of(descriptor: &Descriptor) -> String {
    match descriptor {
        Descriptor::Slice {
            stream, start, count, ..
        } => format!("stream {stream}, {count} entries from offset {start}"),
        Descriptor::Change { stream, makes } => format!("stream {stream}, change to version {makes}"),
        Descriptor::Write { key, .. } => format!("record {key}"),
    }
}

fn damage(place: &str, what: &str, totals: &mut Totals, out: &mut dyn Write) -> Result<()> {
    totals.damages += 1;
    writeln!(out, "damage: {place}: {what}").map_err(output)
}
