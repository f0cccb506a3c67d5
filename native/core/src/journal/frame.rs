//! Frames: the unit of the journal. One group commit is one frame.
//!
//! Layout, integers big-endian; a frame starts at a multiple of [`BLOCK`] and fills whole blocks:
//!
//! ```text
//! 0   magic "NEREUSjf"          40  run (random, one per open of the journal)
//! 8   format version (u16)      48  group time, milliseconds since the epoch
//! 10  zero (u16)                56  body bytes (u32)       60  descriptors (u32)
//! 12  table bytes (u32)         64  witnesses (u32)
//! 16  segment sequence          68  CRC32C of body and padding
//! 24  frame sequence            72  CRC32C of bytes 0..72 and the table
//! 32  durable through           76  table: descriptors, then witnesses; body; zeros up to the block
//! ```
//!
//! A descriptor names one delta: the stream or key, the version it makes, length and CRC32C of its part of the body. Parts follow
//! each other in the order of the descriptors. So damage in a body names what it concerns. *Witnesses* are the scopes that the
//! frame before touched: damage in that frame's own header is still told apart by stream.
//! Promises: arbitrary bytes never panic, every length is bounded before it is believed, every flipped bit is found.
//! Does not: know where a frame lies, or whether it should be there (`recovery`).

use bytes::{BufMut, Bytes};

use crate::env::AlignedBuffer;
use crate::metadata::Version;
use crate::mutant::{active, Mutant};
use crate::record::Key;
use crate::types::{CommitId, CommitVersion, Incarnation, Offset, OwnerEpoch, StreamId};

/// Frames start at multiples of this, and a sector of this size is written or not.
pub const BLOCK: usize = 4096;
/// Bytes before the table.
pub const FIXED: usize = 76;
/// The format that this build writes and reads.
pub const FORMAT: u16 = 1;
/// Bytes of one row of a slice's entry table: length and CRC32C.
pub const ENTRY_ROW: usize = 8;

const MAGIC: &[u8; 8] = b"NEREUSjf";
const SLICE: u8 = 1;
const CHANGE: u8 = 2;
const PUT: u8 = 3;
const DELETE: u8 = 4;
const SLICE_BYTES: usize = 1 + 16 + 8 + 8 + 8 + 4 + 8 + 8 + 16 + 16 + 8 + 8;
const CHANGE_BYTES: usize = 1 + 16 + 8 + 8;
const WRITE_BYTES: usize = 1 + 2 + 8 + 8 + 8;

/// Whom damage concerns: a stream with everything that hangs on it, or (`None`) the keys that hang on no stream.
pub type Scope = Option<StreamId>;

/// Where and when a frame was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Sequence number of the segment, so that a block of another segment is never accepted.
    pub segment: u64,
    /// Sequence number of the frame: +1 with every frame of the journal, for ever.
    pub sequence: u64,
    /// Highest frame known to be synced when this one was written; 0 = none.
    pub durable_through: u64,
    /// Random number of the run that wrote it: entries cannot imitate frames.
    pub run: u64,
    /// Wall clock of the group, milliseconds since the epoch.
    pub time_millis: u64,
}

/// One delta of a group, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Descriptor {
    /// An append group of one stream: its commit intent (L3).
    Slice {
        /// The stream.
        stream: StreamId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// The owner that appended.
        epoch: OwnerEpoch,
        /// First offset.
        start: Offset,
        /// Entries.
        count: u32,
        /// Payload bytes of the entries.
        bytes: u64,
        /// Messages as Pulsar counts them.
        messages: u64,
        /// The commit that this one follows.
        previous: CommitId,
        /// This commit.
        id: CommitId,
        /// The head version it makes.
        makes: CommitVersion,
    },
    /// Another change of a head.
    Change {
        /// The stream.
        stream: StreamId,
        /// The head version it makes (of a deletion: the one that never is).
        makes: CommitVersion,
    },
    /// A write of a key; an empty part deletes when `delete` is set.
    Write {
        /// The key.
        key: Key,
        /// The version found; `None` = the key was absent.
        onto: Option<Version>,
        /// The version made.
        makes: Version,
        /// Removes the key.
        delete: bool,
    },
}

/// What goes into the body for one descriptor.
#[derive(Debug, Clone)]
pub enum Part {
    /// Entries with their CRC32C: written as a slice, table first.
    Entries(Vec<(Bytes, u32)>),
    /// Plain bytes.
    Plain(Bytes),
}

/// Where a part lies in its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Bytes from the start of the frame.
    pub position: u32,
    /// Bytes of the part.
    pub length: u32,
    /// CRC32C of the part.
    pub crc32c: u32,
}

/// Why bytes are not an acceptable frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not the beginning of a frame at all (zeros, other bytes, or a damaged first block).
    NotAFrame,
    /// Looks like one, but lengths or checksum of header and table are wrong.
    Damaged,
    /// A sound frame of a format that this build does not know.
    Newer(u16),
}

/// A frame's verified header and table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Where and when.
    pub header: Header,
    /// The deltas with their places, in order.
    pub deltas: Vec<(Descriptor, Placed)>,
    /// Scopes that the frame before touched, ascending.
    pub witnesses: Vec<Scope>,
    /// Bytes of header and table.
    pub head_bytes: usize,
    /// Bytes of the whole frame, padding included.
    pub total_bytes: usize,
    body_crc: u32,
}

/// Lengths that a frame claims, bounded but not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of header and table.
    pub head: usize,
    /// Bytes of the whole frame.
    pub total: usize,
}

impl Descriptor {
    /// Whom the delta concerns.
    pub fn scope(&self) -> Scope {
        match self {
            Descriptor::Slice { stream, .. } | Descriptor::Change { stream, .. } => Some(*stream),
            Descriptor::Write { key, .. } => key.stream(),
        }
    }

    /// Bytes in the table.
    pub fn table_bytes(&self) -> usize {
        match self {
            Descriptor::Slice { .. } => SLICE_BYTES,
            Descriptor::Change { .. } => CHANGE_BYTES,
            Descriptor::Write { key, .. } => WRITE_BYTES.saturating_add(key.as_bytes().len()),
        }
    }

    fn write(&self, placed: &Placed, mut out: &mut [u8]) {
        match self {
            Descriptor::Slice {
                stream,
                incarnation,
                epoch,
                start,
                count,
                bytes,
                messages,
                previous,
                id,
                makes,
            } => {
                out.put_u8(SLICE);
                out.put_slice(&stream.to_bytes());
                out.put_u64(incarnation.get());
                out.put_u64(epoch.get());
                out.put_u64(start.get());
                out.put_u32(*count);
                out.put_u64(*bytes);
                out.put_u64(*messages);
                out.put_slice(&previous.to_bytes());
                out.put_slice(&id.to_bytes());
                out.put_u64(makes.get());
            }
            Descriptor::Change { stream, makes } => {
                out.put_u8(CHANGE);
                out.put_slice(&stream.to_bytes());
                out.put_u64(makes.get());
            }
            Descriptor::Write {
                key,
                onto,
                makes,
                delete,
            } => {
                out.put_u8(if *delete { DELETE } else { PUT });
                // Keys are bounded far below (record::key::MAX_KEY_BYTES).
                out.put_u16(u16::try_from(key.as_bytes().len()).unwrap_or(u16::MAX));
                out.put_slice(key.as_bytes());
                out.put_u64(onto.map_or(0, |version| version.0));
                out.put_u64(makes.0);
            }
        }
        out.put_u32(placed.length);
        out.put_u32(placed.crc32c);
    }

    fn read(input: &mut Input<'_>) -> Option<(Descriptor, u32, u32)> {
        let descriptor = match input.u8()? {
            SLICE => Descriptor::Slice {
                stream: StreamId::from_bytes(input.array()?),
                incarnation: Incarnation::new(input.u64()?),
                epoch: OwnerEpoch::new(input.u64()?),
                start: Offset::new(input.u64()?),
                count: input.u32()?,
                bytes: input.u64()?,
                messages: input.u64()?,
                previous: CommitId::from_bytes(input.array()?),
                id: CommitId::from_bytes(input.array()?),
                makes: CommitVersion::new(input.u64()?),
            },
            CHANGE => Descriptor::Change {
                stream: StreamId::from_bytes(input.array()?),
                makes: CommitVersion::new(input.u64()?),
            },
            kind @ (PUT | DELETE) => {
                let length = usize::from(input.u16()?);
                let key = Key::from_bytes(Bytes::copy_from_slice(input.take(length)?)).ok()?;
                let onto = input.u64()?;
                Descriptor::Write {
                    key,
                    onto: (onto != 0).then_some(Version(onto)),
                    makes: Version(input.u64()?),
                    delete: kind == DELETE,
                }
            }
            _ => return None,
        };
        Some((descriptor, input.u32()?, input.u32()?))
    }
}

impl Part {
    /// Bytes in the body.
    pub fn body_bytes(&self) -> usize {
        match self {
            Part::Entries(entries) => entries
                .iter()
                .fold(0, |sum: usize, (entry, _)| sum.saturating_add(entry_bytes(entry.len()))),
            Part::Plain(bytes) => bytes.len(),
        }
    }

    fn write(&self, out: &mut AlignedBuffer) {
        match self {
            Part::Entries(entries) => {
                for (entry, crc32c) in entries {
                    out.extend_from_slice(&word(entry.len()).to_be_bytes());
                    out.extend_from_slice(&crc32c.to_be_bytes());
                }
                for (entry, _) in entries {
                    out.extend_from_slice(entry);
                }
            }
            Part::Plain(bytes) => out.extend_from_slice(bytes),
        }
    }
}

/// Bytes that one entry takes in a body.
pub fn entry_bytes(length: usize) -> usize {
    length.saturating_add(ENTRY_ROW)
}

/// Bytes of a frame with so much table and body: whole blocks.
pub fn frame_bytes(table: usize, body: usize) -> usize {
    FIXED
        .saturating_add(table)
        .saturating_add(body)
        .div_ceil(BLOCK)
        .saturating_mul(BLOCK)
}

/// Writes a frame into `out` (cleared first) and says where each part came to lie. A frame without deltas is an idle marker.
///
/// The caller keeps the frame below 4 GiB; a segment is far smaller.
pub fn encode(
    header: &Header,
    deltas: &[(Descriptor, Part)],
    witnesses: &[Scope],
    out: &mut AlignedBuffer,
) -> Vec<Placed> {
    let descriptors: usize = deltas.iter().map(|(descriptor, _)| descriptor.table_bytes()).sum();
    let table = descriptors.saturating_add(witnesses.len().saturating_mul(16));
    let body: usize = deltas.iter().map(|(_, part)| part.body_bytes()).sum();
    let total = frame_bytes(table, body);
    let head = FIXED.saturating_add(table);
    out.reset(total);
    out.resize(head);
    let mut places = Vec::with_capacity(deltas.len());
    for (_, part) in deltas {
        let from = out.len();
        part.write(out);
        let part = out.get(from..).unwrap_or_default();
        let (length, crc32c) = (word(part.len()), crc32c::crc32c(part));
        places.push(Placed {
            position: word(from),
            length,
            crc32c,
        });
    }
    out.resize(total);
    let (front, rest) = out.split_at_mut(head);
    let body_crc = crc32c::crc32c(rest);
    let (fixed, mut rows) = front.split_at_mut(FIXED);
    for ((descriptor, _), placed) in deltas.iter().zip(&places) {
        let (row, after) = rows.split_at_mut(descriptor.table_bytes());
        descriptor.write(placed, row);
        rows = after;
    }
    for scope in witnesses {
        let (row, after) = rows.split_at_mut(16);
        row.copy_from_slice(&scope_bytes(*scope));
        rows = after;
    }
    let mut fixed = fixed;
    fixed.put_slice(MAGIC);
    fixed.put_u16(FORMAT);
    fixed.put_u16(0);
    fixed.put_u32(word(table));
    fixed.put_u64(header.segment);
    fixed.put_u64(header.sequence);
    fixed.put_u64(header.durable_through);
    fixed.put_u64(header.run);
    fixed.put_u64(header.time_millis);
    fixed.put_u32(word(body));
    fixed.put_u32(word(deltas.len()));
    fixed.put_u32(word(witnesses.len()));
    fixed.put_u32(body_crc);
    let crc = header_crc(front);
    front[FIXED - 4..FIXED].copy_from_slice(&crc.to_be_bytes());
    places
}

/// The lengths that the frame beginning with `block` claims. `limit` is the room up to the end of the segment.
pub fn sizes(block: &[u8], limit: u64) -> Result<Sizes, Fault> {
    let mut input = Input(block);
    if input.take(8) != Some(MAGIC) {
        return Err(Fault::NotAFrame);
    }
    let claimed = || {
        let mut input = Input(block);
        input.take(12)?;
        let table = usize::try_from(input.u32()?).ok()?;
        input.take(40)?;
        let body = usize::try_from(input.u32()?).ok()?;
        Some(Sizes {
            head: FIXED.checked_add(table)?,
            total: frame_bytes(table, body),
        })
    };
    match claimed() {
        Some(sizes) if sizes.total as u64 <= limit => Ok(sizes),
        _ => Err(Fault::Damaged),
    }
}

/// Segment sequence and run that the frame beginning with `block` claims, not verified; `None` = not the beginning of a frame.
pub fn writer(block: &[u8]) -> Option<(u64, u64)> {
    let mut input = Input(block);
    if input.take(16)?.get(..8)? != MAGIC {
        return None;
    }
    let segment = input.u64()?;
    input.take(16)?;
    Some((segment, input.u64()?))
}

impl Frame {
    /// Verifies and reads header and table; `bytes` holds at least [`Sizes::head`] bytes from the start of the frame.
    pub fn decode(bytes: &[u8]) -> Result<Frame, Fault> {
        let sizes = sizes(bytes, u64::MAX)?;
        let front = bytes.get(..sizes.head).ok_or(Fault::Damaged)?;
        let mut input = Input(front);
        input.take(8).ok_or(Fault::Damaged)?;
        let format = input.u16().ok_or(Fault::Damaged)?;
        let stored = Input(&front[FIXED - 4..]).u32().ok_or(Fault::Damaged)?;
        if stored != header_crc(front) {
            return Err(Fault::Damaged);
        }
        if format != FORMAT {
            return Err(Fault::Newer(format));
        }
        Self::fields(input, sizes).ok_or(Fault::Damaged)
    }

    fn fields(mut input: Input<'_>, sizes: Sizes) -> Option<Frame> {
        if input.u16()? != 0 {
            return None;
        }
        input.u32()?;
        let header = Header {
            segment: input.u64()?,
            sequence: input.u64()?,
            durable_through: input.u64()?,
            run: input.u64()?,
            time_millis: input.u64()?,
        };
        let body = usize::try_from(input.u32()?).ok()?;
        let descriptors = input.u32()?;
        let witnesses = usize::try_from(input.u32()?).ok()?;
        let body_crc = input.u32()?;
        input.u32()?;
        // The counts are believed only as far as there are bytes in the table.
        let mut deltas = Vec::new();
        let mut position = sizes.head;
        for _ in 0..descriptors {
            let (descriptor, length, crc32c) = Descriptor::read(&mut input)?;
            deltas.push((
                descriptor,
                Placed {
                    position: u32::try_from(position).ok()?,
                    length,
                    crc32c,
                },
            ));
            position = position.checked_add(usize::try_from(length).ok()?)?;
        }
        if position != sizes.head.checked_add(body)? || input.0.len() != witnesses.checked_mul(16)? {
            return None;
        }
        let witnesses = input
            .0
            .chunks_exact(16)
            .map(|id| id.try_into().ok().map(scope_of))
            .collect::<Option<_>>()?;
        Some(Frame {
            header,
            deltas,
            witnesses,
            head_bytes: sizes.head,
            total_bytes: sizes.total,
            body_crc,
        })
    }

    /// Whether body and padding are intact; `bytes` is the whole frame.
    pub fn body_is_intact(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.total_bytes
            && bytes
                .get(self.head_bytes..)
                .is_some_and(|rest| crc32c::crc32c(rest) == self.body_crc)
    }

    /// Every scope that the frame touches, ascending, once each.
    pub fn scopes(&self) -> Vec<Scope> {
        scopes(self.deltas.iter().map(|(descriptor, _)| descriptor))
    }
}

impl Placed {
    /// The part within its whole frame, if its checksum holds.
    pub fn part<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let from = usize::try_from(self.position).ok()?;
        let part = frame.get(from..from.checked_add(usize::try_from(self.length).ok()?)?)?;
        (crc32c::crc32c(part) == self.crc32c || active(Mutant::TrustUnverifiedFrame)).then_some(part)
    }
}

/// The scopes of some descriptors, ascending, once each.
pub fn scopes<'a>(descriptors: impl Iterator<Item = &'a Descriptor>) -> Vec<Scope> {
    let mut scopes: Vec<Scope> = descriptors.map(Descriptor::scope).collect();
    scopes.sort_unstable();
    scopes.dedup();
    scopes
}

/// Takes a slice apart: per entry its range in `slice` and its CRC32C. The text says what is wrong; checksums are the caller's.
pub fn entries(slice: &[u8], count: u32) -> Result<Vec<(std::ops::Range<usize>, u32)>, String> {
    let count = usize::try_from(count).map_err(|e| e.to_string())?;
    let table = count.checked_mul(ENTRY_ROW).filter(|table| *table <= slice.len());
    let table = table.ok_or_else(|| format!("{count} entries do not fit into {} bytes", slice.len()))?;
    let mut rows = Input(slice.get(..table).unwrap_or_default());
    let mut found = Vec::with_capacity(count);
    let mut at = table;
    while let (Some(length), Some(crc32c)) = (rows.u32(), rows.u32()) {
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| at.checked_add(length))
            .filter(|end| *end <= slice.len());
        let end = end.ok_or_else(|| format!("entry {} of {length} bytes does not fit", found.len()))?;
        found.push((at..end, crc32c));
        at = end;
    }
    if at != slice.len() {
        return Err(format!(
            "{} bytes follow the last entry",
            slice.len().saturating_sub(at)
        ));
    }
    Ok(found)
}

fn header_crc(front: &[u8]) -> u32 {
    let fixed = crc32c::crc32c(front.get(..FIXED - 4).unwrap_or_default());
    crc32c::crc32c_append(fixed, front.get(FIXED..).unwrap_or_default())
}

/// Stream ids are random; 0 stands for "no stream".
fn scope_bytes(scope: Scope) -> [u8; 16] {
    scope.map_or([0; 16], StreamId::to_bytes)
}

fn scope_of(bytes: [u8; 16]) -> Scope {
    (bytes != [0; 16]).then(|| StreamId::from_bytes(bytes))
}

/// Lengths inside a frame; the caller keeps frames below 4 GiB.
fn word(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Bytes that are taken from the front, never past the end.
pub(super) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests;
