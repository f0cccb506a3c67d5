//! Segments: the header block, and the scan of a whole file. Input: a header block; the bytes of a segment file.
//!
//! The scan is walked as recovery and the operator tool walk it. Besides what every target demands, one look ahead may read the
//! file a few times at most, whatever its blocks imitate. Not so when the header block is damaged too: then nothing but a checksum
//! tells a frame from its imitation, and no proof may be missed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use nereus_core::env::sim::SimDisk;
use nereus_core::env::{Disk, DiskFile, OpenMode};
use nereus_core::journal::frame::{Header, BLOCK};
use nereus_core::journal::segment::{SegmentHeader, Segments, HEADER_BYTES};
use nereus_core::journal::{Found, Scan};

use super::{demand, frame, Target};
use crate::mutate;
use crate::random::Random;

pub const HEADER: Target = Target {
    name: "segment",
    weight: 200,
    valid: |random| header(random).encode(),
    twist,
    mend: |input| mend_header(input),
    check: check_header,
    factor: 16,
    constant: 16 << 10,
};

pub const SCAN: Target = Target {
    name: "scan",
    weight: 300,
    valid,
    twist: twist_scan,
    mend: mend_scan,
    check,
    factor: 256,
    constant: 4 << 20,
};

const SEGMENT: u64 = 9;
const DIRECTORY: u128 = 0xd1;
const RUN: u64 = 0x1234_5678_9abc_def0;
const MAGIC: &[u8] = b"NEREUSjf";
/// How often a look ahead may read the whole file.
const LOOKS: u64 = 4;

fn header(random: &mut Random) -> SegmentHeader {
    SegmentHeader {
        directory_id: u128::from(random.draw()),
        sequence: random.edge(),
        run: random.draw(),
        length: random.edge(),
        previous_length: random.edge(),
    }
}

fn twist(input: &mut Vec<u8>, random: &mut Random) {
    mutate::bytes(input, random);
    if random.chance(80) {
        input.resize(BLOCK, 0);
    }
}

fn mend_header(input: &mut [u8]) {
    if let Some((content, crc)) = input
        .get_mut(..BLOCK)
        .and_then(|block| block.split_at_mut_checked(BLOCK - 4))
    {
        crc.copy_from_slice(&crc32c::crc32c(content).to_be_bytes());
    }
}

fn check_header(input: &[u8]) -> Result<bool, String> {
    let Ok(header) = SegmentHeader::decode(input) else {
        return Ok(false);
    };
    let again = SegmentHeader::decode(&header.encode());
    demand(again == Ok(header), || {
        format!("{header:?} is written and read as {again:?}")
    })?;
    Ok(true)
}

/// A file with some frames, and behind them what an earlier use may have left: zeros, and blocks that imitate frames.
fn valid(random: &mut Random) -> Vec<u8> {
    let mut frames = Vec::new();
    for sequence in (1 + random.below(5)..).take(1 + random.index(5)) {
        let header = Header {
            segment: SEGMENT,
            sequence,
            durable_through: sequence.saturating_sub(1),
            run: RUN,
            time_millis: sequence,
        };
        frames.extend(frame::encode(&header, random));
    }
    let mut rest = vec![0; BLOCK * [6, 12, 60][random.index(3)]];
    if random.chance(40) {
        let room = rest.len();
        rest.chunks_exact_mut(BLOCK)
            .for_each(|block| imitate(block, random, room));
    }
    let length = HEADER_BYTES + (frames.len() + rest.len()) as u64;
    let header = SegmentHeader {
        directory_id: DIRECTORY,
        sequence: SEGMENT,
        run: RUN,
        length,
        previous_length: 0,
    };
    [header.encode(), frames, rest].concat()
}

/// A block that begins like a frame of many bytes: what a hostile entry may hold.
fn imitate(block: &mut [u8], random: &mut Random, room: usize) {
    block[..8].copy_from_slice(MAGIC);
    block[8..10].copy_from_slice(&1u16.to_be_bytes());
    let table = random.below(room as u64) as u32;
    block[12..16].copy_from_slice(&table.to_be_bytes());
    block[16..24].copy_from_slice(&SEGMENT.to_be_bytes());
    block[24..32].copy_from_slice(&random.edge().to_be_bytes());
}

fn twist_scan(input: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let blocks = input.len() / BLOCK;
        let at = random.index(blocks) * BLOCK;
        let room = input.len();
        let Some(block) = input.get_mut(at..at + BLOCK) else {
            return;
        };
        match random.below(6) {
            0 => imitate(block, random, room),
            1 => block.fill(0),
            2 => {
                let copy = block.to_vec();
                let to = random.index(blocks) * BLOCK;
                if let Some(place) = input.get_mut(to..to + BLOCK) {
                    place.copy_from_slice(&copy);
                }
            }
            3 => input.truncate(at + random.index(BLOCK)),
            _ => {
                let mut front = block[..200].to_vec();
                mutate::bytes(&mut front, random);
                front.resize(200, 0);
                block[..200].copy_from_slice(&front);
            }
        }
    }
}

fn mend_scan(input: &mut Vec<u8>) {
    mend_header(input);
    let mut at = HEADER_BYTES as usize;
    while at < input.len() {
        let mut rest = input.split_off(at);
        let block = rest.get(..8) == Some(MAGIC);
        if block {
            frame::mend(&mut rest);
        }
        input.append(&mut rest);
        at += BLOCK;
    }
}

fn check(input: &[u8]) -> Result<bool, String> {
    let disk = SimDisk::new(1 << 30);
    let counting = Counting {
        disk: disk.clone(),
        bytes: Arc::default(),
    };
    let read = counting.bytes.clone();
    let broken = |e: io::Error| format!("the simulated disk: {e}");
    let segments = Segments::new(Arc::new(counting), PathBuf::from("/journal")).map_err(|e| e.to_string())?;
    let file = disk
        .open(&segments.path(SEGMENT), OpenMode::CreateNew)
        .map_err(broken)?;
    file.write_all_at(input, 0).map_err(broken)?;
    let Ok(mut scan) = Scan::open(Arc::new(segments), &[SEGMENT], DIRECTORY) else {
        return Ok(false);
    };
    let most = match scan.segments().first().and_then(|open| open.header) {
        Some(_) => LOOKS * input.len() as u64 + (1 << 16),
        None => (input.len() as u64).saturating_mul(1 + (input.len() / BLOCK) as u64),
    };
    let mut position = HEADER_BYTES;
    let mut wanted = 1;
    let mut frames = 0;
    loop {
        let before = read.load(Ordering::Relaxed);
        let found = match scan.at(0, position) {
            Ok(Found::Frame(found)) if found.header.sequence >= wanted => *found,
            Ok(_) => match scan.later(0, position, wanted) {
                Ok(Some(later)) => {
                    demand(later.position > position, || {
                        format!("a look ahead from {position} went back")
                    })?;
                    position = later.position;
                    later.frame
                }
                Ok(None) | Err(_) => break,
            },
            Err(_) => break,
        };
        let took = read.load(Ordering::Relaxed) - before;
        demand(took <= most, || {
            format!("a look ahead read {took} bytes of a file of {}", input.len())
        })?;
        demand(found.header.run == RUN || scan.segments()[0].header.is_none(), || {
            "a frame of another run was accepted".into()
        })?;
        let whole = scan
            .bytes(0, position, &found)
            .map_err(|e| format!("a frame that was found: {e}"))?;
        let _ = found.body_is_intact(&whole);
        position = position.saturating_add(found.total_bytes as u64);
        wanted = found.header.sequence.saturating_add(1);
        frames += 1;
    }
    let took = read.load(Ordering::Relaxed);
    demand(took <= most * (frames + 2), || {
        format!("{took} bytes read of a file of {} with {frames} frames", input.len())
    })?;
    let from = position.min(input.len() as u64);
    let behind = scan.behind(0, from).map_err(|e| e.to_string())?;
    demand(behind.end <= (input.len() as u64).max(from), || {
        "the written end lies behind the file".into()
    })?;
    Ok(frames > 0)
}

/// A disk that counts what is read.
struct Counting {
    disk: SimDisk,
    bytes: Arc<AtomicU64>,
}

struct CountingFile {
    file: Arc<dyn DiskFile>,
    bytes: Arc<AtomicU64>,
}

impl Disk for Counting {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(CountingFile {
            file: self.disk.open(path, mode)?,
            bytes: self.bytes.clone(),
        }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.list(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.disk.try_lock(path)
    }
}

impl DiskFile for CountingFile {
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.file.read_exact_at(buf, position)
    }

    fn write_all_at(&self, buf: &[u8], position: u64) -> io::Result<()> {
        self.file.write_all_at(buf, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}
