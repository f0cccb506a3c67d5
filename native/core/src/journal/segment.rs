//! Segment files: `journal/<sequence, 16 hexadecimal digits>.seg`.
//!
//! Owns: names, the header block, creation, removal, recycling, and the open files that reads share.
//! Promises: a file with a segment's name is whole: its header synced before it got the name, every block written once, its
//! directory entry durable. A creation that fails leaves nothing behind that counts. Whoever holds a [`Pin`] reads this segment
//! and no other: a pinned file is neither removed nor re-used (L16).
//! Keeps: a re-used file holds frames of its former segments. They are never taken for frames of this one, because every frame
//! carries the sequence of its segment, and a sequence is given once.
//! Does not: know frames; decide when a segment is dead (`checkpoint`); choose which dead files are kept (`pool`).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BufMut;
use parking_lot::Mutex;

use super::frame::{Input, BLOCK};
use super::pool::Pool;
use crate::env::{AlignedBuffer, Disk, DiskFile, OpenMode};
use crate::error::{Error, Result};
use crate::mutant::{active, Mutant};

/// Bytes of the header block, before the first frame.
pub const HEADER_BYTES: u64 = BLOCK as u64;

const MAGIC: &[u8; 8] = b"NEREUSsg";
const FORMAT: u16 = 1;
const SUFFIX: &str = "seg";
const UNFINISHED: &str = "new";
const FREE: &str = "free";
const DEAD: &str = "dead";
/// Zeros are written durably in steps of this many bytes: a large sync holds up those of the frames beside it. Measured beside a
/// lone writer of 4 KiB: 13 ms at the 99th percentile with steps of 8 MiB, 8 ms with 1 MiB, no better with less.
const STEP: usize = 1 << 20;
/// Files kept open for reads.
const OPEN_FILES: usize = 256;

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Identity of the data directory that it belongs to.
    pub directory_id: u128,
    /// Its sequence number.
    pub sequence: u64,
    /// The run that writes it.
    pub run: u64,
    /// Bytes of the file when it was created.
    pub length: u64,
    /// Bytes that the segment before has for good: a shorter one was cut by somebody else. 0 = there is none.
    pub previous_length: u64,
}

impl SegmentHeader {
    /// The header block.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK);
        block.put_slice(MAGIC);
        block.put_u16(FORMAT);
        block.put_u128(self.directory_id);
        block.put_u64(self.sequence);
        block.put_u64(self.run);
        block.put_u64(self.length);
        block.put_u64(self.previous_length);
        block.resize(BLOCK - 4, 0);
        let crc = crc32c::crc32c(&block);
        block.put_u32(crc);
        block
    }

    /// [`SegmentHeader::encode`], ready to be written.
    fn block(&self) -> AlignedBuffer {
        let mut block = AlignedBuffer::with_capacity(BLOCK);
        block.extend_from_slice(&self.encode());
        block
    }

    /// Reads a header block; `Err(Some(version))` for a sound one of a newer format.
    pub fn decode(block: &[u8]) -> std::result::Result<SegmentHeader, Option<u16>> {
        let (content, crc) = block.split_at_checked(BLOCK - 4).ok_or(None)?;
        let mut input = Input(content);
        if input.take(8) != Some(MAGIC) || Input(crc).u32() != Some(crc32c::crc32c(content)) {
            return Err(None);
        }
        let format = input.u16().ok_or(None)?;
        if format != FORMAT {
            return Err(Some(format));
        }
        let mut header = || {
            Some(SegmentHeader {
                directory_id: input.array().map(u128::from_be_bytes)?,
                sequence: input.u64()?,
                run: input.u64()?,
                length: input.u64()?,
                previous_length: input.u64()?,
            })
        };
        header().ok_or(None)
    }
}

/// The segments of one journal.
pub struct Segments {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    pool: Pool,
    shared: Mutex<SharedFiles>,
    /// Bytes of the segments that were measured already.
    sizes: Mutex<BTreeMap<u64, u64>>,
}

/// Files that reads share.
#[derive(Default)]
struct SharedFiles {
    open: BTreeMap<u64, Arc<dyn DiskFile>>,
    /// How many read a segment at present.
    pins: BTreeMap<u64, usize>,
    /// The segment that is being taken away: nobody pins it any more.
    retiring: Option<u64>,
}

/// What became of a dead segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retired {
    /// Its file is kept for a later segment.
    Kept,
    /// Its file is gone.
    Removed,
    /// Its file waits for its removal under this name; see [`Segments::put_aside`].
    Aside(PathBuf),
    /// Somebody reads it: it is still there.
    Pinned,
}

/// Keeps a segment from being removed or re-used while somebody reads it. Released when it is dropped.
pub struct Pin {
    segments: Arc<Segments>,
    sequence: u64,
}

impl Pin {
    /// The segment's file; it stays open for further reads. `NotFound` when the segment went before the pin was taken.
    pub fn file(&self) -> io::Result<Arc<dyn DiskFile>> {
        self.segments.file(self.sequence)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut shared = self.segments.shared.lock();
        if let Some(count) = shared.pins.get_mut(&self.sequence) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                shared.pins.remove(&self.sequence);
            }
        }
    }
}

impl Segments {
    /// The segments in `directory`, which is created if it is missing. Dead ones are removed, not kept.
    pub fn new(disk: Arc<dyn Disk>, directory: PathBuf) -> Result<Self> {
        Self::with_pool(disk, directory, Pool::none())
    }

    /// [`Segments::new`] that keeps dead segments in `pool`.
    pub fn with_pool(disk: Arc<dyn Disk>, directory: PathBuf, pool: Pool) -> Result<Self> {
        disk.create_dir_all(&directory)
            .map_err(|e| Error::io("create", directory.display().to_string(), e))?;
        Ok(Segments {
            disk,
            directory,
            pool,
            shared: Mutex::default(),
            sizes: Mutex::default(),
        })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of a segment.
    pub fn path(&self, sequence: u64) -> PathBuf {
        self.named(sequence, SUFFIX)
    }

    fn named(&self, sequence: u64, suffix: &str) -> PathBuf {
        self.directory.join(format!("{sequence:016x}.{suffix}"))
    }

    /// Where `position` of a segment is, for messages.
    pub fn place(&self, sequence: u64, position: u64) -> String {
        format!("{} at byte {position}", self.path(sequence).display())
    }

    /// Sequence numbers of all segments, ascending.
    pub fn list(&self) -> Result<Vec<u64>> {
        self.sequences(SUFFIX)
    }

    /// Former sequence numbers of the dead files that lie here for re-use, ascending.
    pub fn list_free(&self) -> Result<Vec<u64>> {
        self.sequences(FREE)
    }

    /// The files that were put aside and wait for their removal.
    pub fn put_aside(&self) -> Result<Vec<PathBuf>> {
        let aside = self.sequences(DEAD)?.into_iter();
        Ok(aside.map(|sequence| self.named(sequence, DEAD)).collect())
    }

    fn sequences(&self, suffix: &str) -> Result<Vec<u64>> {
        let names = self
            .disk
            .list(&self.directory)
            .map_err(|e| Error::io("list", self.directory.display().to_string(), e))?;
        let mut found: Vec<u64> = names.iter().filter_map(|name| sequence_of(name, suffix)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Removes what is left of creations that did not finish, and takes over the dead files of the run before. Only before the
    /// journal runs.
    ///
    /// A dead file is re-used only if it says what its name says. After a crash in the middle of a recycling the same file may
    /// show under two names, or hold the header of the segment that it was to become.
    pub fn clean(&self, directory_id: u128) -> Result<()> {
        for sequence in self.sequences(UNFINISHED)? {
            self.unlink(&self.named(sequence, UNFINISHED))?;
        }
        let live = self.list()?;
        for sequence in self.list_free()? {
            let path = self.named(sequence, FREE);
            let usable = !live.contains(&sequence)
                && self
                    .reusable(&path, sequence)
                    .is_ok_and(|header| header.is_some_and(|header| header.directory_id == directory_id));
            if !(usable && self.pool.put(sequence)) {
                self.unlink(&path)?;
            }
        }
        Ok(())
    }

    fn unlink(&self, path: &Path) -> Result<()> {
        self.disk
            .remove(path)
            .map_err(|e| Error::io("remove", path.display().to_string(), e))
    }

    /// Makes a segment of `header.length` bytes, from a dead file of this length if there is one: every block written before, its
    /// header synced, its name durable. Replaces a segment of the same sequence.
    ///
    /// Blocking; a fresh file takes tens of milliseconds for a usual segment, a dead one two syncs.
    pub fn create(&self, header: &SegmentHeader) -> io::Result<Arc<dyn DiskFile>> {
        let unfinished = self.named(header.sequence, UNFINISHED);
        while let Some(dead) = self.pool.take(header.length) {
            let free = self.named(dead, FREE);
            match self.recycle(&free, &unfinished, header) {
                Ok(file) => return Ok(file),
                Err(reason) => {
                    tracing::warn!(file = %free.display(), %reason, "a dead journal segment cannot be used again");
                    // Best effort: the next start removes either otherwise.
                    let _ = (self.disk.remove(&free), self.disk.remove(&unfinished));
                }
            }
        }
        self.write_whole(&unfinished, header).inspect_err(|_| {
            // Best effort: the next start removes it otherwise.
            let _ = self.disk.remove(&unfinished);
        })
    }

    /// The file leaves the pool under a name that every start removes, gets its header there, and its name only when that is synced.
    fn recycle(&self, free: &Path, unfinished: &Path, header: &SegmentHeader) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.rename(free, unfinished)?;
        let file = self.disk.open(unfinished, OpenMode::Direct)?;
        file.write_durably_at(&header.block(), 0)?;
        self.finish(unfinished, header.sequence, file)
    }

    fn write_whole(&self, unfinished: &Path, header: &SegmentHeader) -> io::Result<Arc<dyn DiskFile>> {
        let file = match self.disk.open(unfinished, OpenMode::CreateDirect) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.remove(unfinished)?;
                self.disk.open(unfinished, OpenMode::CreateDirect)?
            }
            other => other?,
        };
        file.allocate(header.length)?;
        file.write_durably_at(&header.block(), 0)?;
        // Blocks that were written once are overwritten in half the time that unwritten ones take.
        let mut zeros = AlignedBuffer::with_capacity(STEP);
        zeros.resize(STEP);
        let mut position = HEADER_BYTES;
        while position < header.length {
            let step = usize::try_from(header.length.saturating_sub(position))
                .unwrap_or(STEP)
                .min(STEP);
            file.write_durably_at(zeros.get(..step).unwrap_or_default(), position)?;
            position = position.saturating_add(step as u64);
        }
        self.finish(unfinished, header.sequence, file)
    }

    fn finish(&self, unfinished: &Path, sequence: u64, file: Arc<dyn DiskFile>) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.rename(unfinished, &self.path(sequence))?;
        if !active(Mutant::ForgetDirectorySync) {
            self.disk.sync_dir(&self.directory)?;
        }
        // A recovery may have read the segment that this one replaces, and readers would go on with its file.
        self.shared.lock().open.remove(&sequence);
        Ok(file)
    }

    /// Keeps a segment where it is for as long as the pin lives; `None` when it is being taken away right now.
    pub fn pin(self: &Arc<Self>, sequence: u64) -> Option<Pin> {
        let mut shared = self.shared.lock();
        if shared.retiring == Some(sequence) {
            return None;
        }
        let count = shared.pins.entry(sequence).or_default();
        *count = count.saturating_add(1);
        Some(Pin {
            segments: self.clone(),
            sequence,
        })
    }

    /// Whether somebody reads a segment at present.
    pub fn is_pinned(&self, sequence: u64) -> bool {
        self.shared.lock().pins.contains_key(&sequence)
    }

    /// For whoever has it pinned.
    fn file(&self, sequence: u64) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = self.shared.lock().open.get(&sequence) {
            return Ok(file.clone());
        }
        let file = self.disk.open(&self.path(sequence), OpenMode::Read)?;
        keep_open(&mut self.shared.lock().open, sequence, file.clone());
        Ok(file)
    }

    /// A segment for writing, at recovery.
    pub fn writer(&self, sequence: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(&self.path(sequence), OpenMode::ReadWrite)
    }

    /// Takes a dead segment away for good. With `keep` its file waits for re-use if the pool wants it, and is put aside otherwise;
    /// without, it is removed at once. Not while somebody reads it. Blocking; one call at a time.
    pub fn retire(&self, sequence: u64, keep: bool) -> io::Result<Retired> {
        {
            let mut shared = self.shared.lock();
            if shared.pins.contains_key(&sequence) {
                return Ok(Retired::Pinned);
            }
            shared.retiring = Some(sequence);
            shared.open.remove(&sequence);
        }
        let done = self.take_away(sequence, keep);
        self.shared.lock().retiring = None;
        done
    }

    fn take_away(&self, sequence: u64, keep: bool) -> io::Result<Retired> {
        let path = self.path(sequence);
        if keep && self.pool.has_room() && self.reusable(&path, sequence).is_ok_and(|header| header.is_some()) {
            self.disk.rename(&path, &self.named(sequence, FREE))?;
            // Re-used only once it is certain that its old name does not come back.
            self.disk.sync_dir(&self.directory)?;
            if self.pool.put(sequence) {
                return Ok(Retired::Kept);
            }
            self.disk.remove(&self.named(sequence, FREE))?;
            return Ok(Retired::Removed);
        }
        let aside = self.named(sequence, DEAD);
        let done = match keep {
            true => self.disk.rename(&path, &aside),
            false => self.disk.remove(&path),
        };
        let retired = match done {
            Ok(()) if keep => Retired::Aside(aside),
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => Retired::Removed,
        };
        // Put aside, it shrinks only once it is certain that its old name does not come back.
        self.disk.sync_dir(&self.directory)?;
        Ok(retired)
    }

    /// The header of a file that may become another segment: sound, of this format, under its own name, and of the present size.
    fn reusable(&self, path: &Path, sequence: u64) -> io::Result<Option<SegmentHeader>> {
        let file = self.disk.open(path, OpenMode::Read)?;
        let length = file.length()?;
        if !self.pool.wants(length) || length < HEADER_BYTES {
            return Ok(None);
        }
        let mut block = vec![0; BLOCK];
        file.read_exact_at(&mut block, 0)?;
        Ok(SegmentHeader::decode(&block)
            .ok()
            .filter(|header| header.sequence == sequence))
    }

    /// How many segments there are, and their bytes; on a disk that does not answer as they were seen last. Measures only what it
    /// has not seen yet. Blocking.
    pub fn size(&self) -> (usize, u64) {
        let present = self.list();
        let mut sizes = self.sizes.lock();
        if let Ok(present) = present {
            sizes.retain(|sequence, _| present.binary_search(sequence).is_ok());
            for sequence in present {
                if !sizes.contains_key(&sequence) {
                    let file = self.disk.open(&self.path(sequence), OpenMode::Read);
                    // It may have been taken away since the listing.
                    sizes.extend(
                        file.and_then(|file| file.length())
                            .ok()
                            .map(|length| (sequence, length)),
                    );
                }
            }
        }
        let bytes = sizes.values().fold(0, |sum: u64, length| sum.saturating_add(*length));
        (sizes.len(), bytes)
    }

    /// Gives the files of the pool back to the file system. Blocking.
    pub fn give_back(&self) -> Result<()> {
        while let Some(dead) = self.pool.take_any() {
            self.unlink(&self.named(dead, FREE))?;
        }
        Ok(())
    }

    /// Files that wait for re-use, and their bytes.
    pub fn free_files(&self) -> (usize, u64) {
        self.pool.size()
    }

    /// Bytes free on the file system of the journal.
    pub fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes(&self.directory)
    }
}

fn keep_open(open: &mut BTreeMap<u64, Arc<dyn DiskFile>>, sequence: u64, file: Arc<dyn DiskFile>) {
    open.insert(sequence, file);
    if open.len() > OPEN_FILES {
        open.pop_first();
    }
}

fn sequence_of(name: &Path, suffix: &str) -> Option<u64> {
    let stem = name
        .file_stem()
        .and_then(|stem| stem.to_str())
        .filter(|stem| stem.len() == 16)?;
    (name.extension()?.to_str()? == suffix)
        .then(|| u64::from_str_radix(stem, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::sim::SimDisk;

    const HEADER: SegmentHeader = SegmentHeader {
        directory_id: 7 << 100,
        sequence: 9,
        run: 11,
        length: 1 << 20,
        previous_length: 1 << 19,
    };

    #[test]
    fn header_is_read_back_and_any_flipped_byte_is_found() {
        let block = HEADER.encode();
        assert_eq!(block.len(), BLOCK);
        assert_eq!(SegmentHeader::decode(&block), Ok(HEADER));
        for at in 0..block.len() {
            let mut damaged = block.clone();
            damaged[at] ^= 1;
            assert_eq!(SegmentHeader::decode(&damaged), Err(None), "byte {at}");
        }
        assert_eq!(SegmentHeader::decode(&block[..100]), Err(None));
    }

    #[test]
    fn readers_of_a_replaced_segment_get_the_new_one() {
        let disk = SimDisk::new(64 << 20);
        let segments = Arc::new(Segments::new(Arc::new(disk), "/journal".into()).unwrap());
        let run_of = |segments: &Arc<Segments>| {
            let mut block = vec![0; BLOCK];
            let pin = segments.pin(HEADER.sequence).unwrap();
            pin.file().unwrap().read_exact_at(&mut block, 0).unwrap();
            SegmentHeader::decode(&block).unwrap().run
        };
        segments.create(&HEADER).unwrap();
        assert_eq!(run_of(&segments), HEADER.run);
        segments.create(&SegmentHeader { run: 12, ..HEADER }).unwrap();
        assert_eq!(run_of(&segments), 12);
    }

    #[test]
    fn header_of_a_newer_format_is_named() {
        let mut block = HEADER.encode();
        block[9] = 2;
        let crc = crc32c::crc32c(&block[..BLOCK - 4]).to_be_bytes();
        block[BLOCK - 4..].copy_from_slice(&crc);
        assert_eq!(SegmentHeader::decode(&block), Err(Some(2)));
    }
}
