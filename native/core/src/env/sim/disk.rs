//! A disk that forgets what was not synced.
//!
//! Model: a file has what reads see (`cache`) and what a crash leaves (`durable`). Unsynced sectors of 4 KiB survive a crash each
//! by chance, some of them torn at 512 bytes; so writes are dropped, torn and reordered. A failed sync leaves its sectors clean in
//! the cache and stale on the disk, as Linux does: only writing them again brings them down. Names become durable with
//! [`Disk::sync_dir`]; an unsynced creation, rename or removal survives by chance.
//! Refuses what it does not model: directories other than by path, holes, memory maps.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::SimRandom;
use crate::env::{Disk, DiskFile, OpenMode, ALIGNMENT};

const SECTOR: usize = 4096;
const TEAR: usize = 512;

/// What a fault can hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reading a file.
    Read,
    /// Writing a file.
    Write,
    /// Syncing a file.
    Sync,
    /// Reserving space, or lengthening a file.
    Allocate,
    /// Opening or creating a file.
    Open,
    /// Renaming, removing, or syncing a directory.
    Directory,
}

/// An error to come.
#[derive(Debug, Clone)]
pub struct Fault {
    /// What it hits.
    pub operation: Operation,
    /// Only files whose path contains this.
    pub path_contains: String,
    /// How many matching operations go well before.
    pub after: u64,
    /// How many fail then.
    pub times: u64,
    /// The error.
    pub kind: io::ErrorKind,
}

/// One sector; `None` = zeros. Shared until it is written, so that a sync and a copy of the disk cost no bytes.
type Sector = Option<Arc<[u8; SECTOR]>>;

/// The bytes of a file. Sectors past the end of the list are zeros; bytes of the last sector past the length are zeros too.
#[derive(Default, Clone)]
struct Content {
    sectors: Vec<Sector>,
    length: usize,
}

#[derive(Default, Clone)]
struct Inode {
    cache: Content,
    durable: Content,
    dirty: BTreeSet<usize>,
    syncs: u64,
    /// The present name, or the last one.
    name: PathBuf,
}

struct Image {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    locks: BTreeSet<PathBuf>,
    capacity: u64,
    faults: Vec<Fault>,
    crash_in: Option<u64>,
    mutations: u64,
}

/// Looks at the world right before a file is synced.
type Hook = Box<dyn Fn(&Path) + Send>;

/// The disk; clones are the same one.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<Image>>, Arc<Mutex<Option<Hook>>>);

impl SimDisk {
    /// An empty disk of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        let image = Image {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            locks: BTreeSet::new(),
            capacity,
            faults: Vec::new(),
            crash_in: None,
            mutations: 0,
        };
        SimDisk(Arc::new(Mutex::new(image)), Arc::default())
    }

    /// From now on `hook` runs between the writes and each sync of a file, when nothing of them may be visible yet.
    pub fn before_sync(&self, hook: impl Fn(&Path) + Send + 'static) {
        *self.1.lock() = Some(Box::new(hook));
    }

    /// Adds a fault.
    pub fn fail(&self, fault: Fault) {
        self.0.lock().faults.push(fault);
    }

    /// Removes every fault.
    pub fn heal(&self) {
        self.0.lock().faults.clear();
    }

    /// Grows or shrinks the disk.
    pub fn set_capacity(&self, capacity: u64) {
        self.0.lock().capacity = capacity;
    }

    /// The machine loses power in the middle of the `mutations`-th write, sync or change of a name from now: that one may have an
    /// effect, and everything after fails.
    pub fn crash_in(&self, mutations: u64) {
        let mut image = self.0.lock();
        image.crash_in = Some(image.mutations + mutations);
    }

    /// Writes, syncs and changes of names so far.
    pub fn mutations(&self) -> u64 {
        self.0.lock().mutations
    }

    /// Whether the power is gone.
    pub fn has_crashed(&self) -> bool {
        self.0.lock().crashed()
    }

    /// Syncs of files whose path contains `part`.
    pub fn syncs(&self, part: &str) -> u64 {
        let image = self.0.lock();
        let matching = image
            .names
            .iter()
            .filter(|(path, _)| path.to_string_lossy().contains(part));
        matching
            .filter_map(|(_, inode)| image.inodes.get(*inode))
            .map(|inode| inode.syncs)
            .sum()
    }

    /// What is left after a loss of power, by `random`.
    pub fn after_crash(&self, random: &SimRandom) -> SimDisk {
        let image = self.0.lock();
        let mut names = image.durable_names.clone();
        for (path, inode) in &image.names {
            if names.get(path) != Some(inode) && random.chance(50) {
                names.insert(path.clone(), *inode);
            }
        }
        for path in image.durable_names.keys() {
            if !image.names.contains_key(path) && random.chance(50) {
                names.remove(path);
            }
        }
        let left = SimDisk::new(image.capacity);
        {
            let mut new = left.0.lock();
            for (path, inode) in names {
                let content = image
                    .inodes
                    .get(inode)
                    .map(|inode| inode.after_crash(random))
                    .unwrap_or_default();
                let id = new.inodes.len();
                new.inodes.push(Inode {
                    cache: content.clone(),
                    durable: content,
                    name: path.clone(),
                    ..Inode::default()
                });
                new.names.insert(path.clone(), id);
                new.durable_names.insert(path, id);
            }
        }
        left
    }

    /// What is left after the end of the process only: everything that was written.
    pub fn after_kill(&self) -> SimDisk {
        let image = self.0.lock();
        let kept = SimDisk::new(image.capacity);
        {
            let mut new = kept.0.lock();
            new.inodes.clone_from(&image.inodes);
            new.names.clone_from(&image.names);
            new.durable_names.clone_from(&image.durable_names);
        }
        kept
    }

    /// Paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().names.keys().cloned().collect()
    }

    /// Content of a file.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let image = self.0.lock();
        image
            .names
            .get(path)
            .and_then(|inode| image.inodes.get(*inode))
            .map(|inode| inode.cache.bytes())
    }

    /// Counts a mutation of a file that is modelled elsewhere (the metadata backend), with the faults planned for its path.
    ///
    /// # Errors
    /// The fault, or that the power is gone.
    pub fn mutate(&self, operation: Operation, path: &Path) -> io::Result<()> {
        let mut image = self.0.lock();
        image.enter(operation, path)?;
        // The machine stops in the middle of it.
        match image.crashed() {
            true => Err(io::Error::other("the simulated machine lost its power")),
            false => Ok(()),
        }
    }

    /// Bytes that all files take.
    pub fn used(&self) -> u64 {
        self.0.lock().used()
    }

    /// Changes a file behind everybody's back, on the disk and in the cache.
    pub fn tamper(&self, path: &Path, change: impl Fn(&mut Vec<u8>)) {
        let mut image = self.0.lock();
        if let Some(inode) = image
            .names
            .get(path)
            .copied()
            .and_then(|inode| image.inodes.get_mut(inode))
        {
            for content in [&mut inode.cache, &mut inode.durable] {
                let mut bytes = content.bytes();
                change(&mut bytes);
                *content = Content::of(&bytes);
            }
        }
    }
}

impl Content {
    fn of(bytes: &[u8]) -> Content {
        let mut content = Content::default();
        content.put(0, bytes);
        content
    }

    fn bytes(&self) -> Vec<u8> {
        let mut all = vec![0; self.length];
        self.read(0, &mut all);
        all
    }

    /// Reads inside the length.
    fn read(&self, at: usize, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let (sector, skip) = ((at + done) / SECTOR, (at + done) % SECTOR);
            let step = (SECTOR - skip).min(out.len() - done);
            let part = &mut out[done..done + step];
            match self.sectors.get(sector) {
                Some(Some(bytes)) => part.copy_from_slice(&bytes[skip..skip + step]),
                _ => part.fill(0),
            }
            done += step;
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.length < end {
            self.resize(end);
        }
        let mut done = 0;
        while done < bytes.len() {
            let (sector, skip) = ((at + done) / SECTOR, (at + done) % SECTOR);
            let step = (SECTOR - skip).min(bytes.len() - done);
            self.put_sector(sector, skip, &bytes[done..done + step]);
            done += step;
        }
    }

    /// Writes inside one sector.
    fn put_sector(&mut self, sector: usize, skip: usize, bytes: &[u8]) {
        let blank = bytes.iter().all(|byte| *byte == 0);
        if blank && (bytes.len() == SECTOR || self.sectors.get(sector).is_none_or(Option::is_none)) {
            if let Some(there) = self.sectors.get_mut(sector) {
                *there = None;
            }
            return;
        }
        if self.sectors.len() <= sector {
            self.sectors.resize(sector + 1, None);
        }
        let there = self.sectors[sector].get_or_insert_with(|| Arc::new([0; SECTOR]));
        Arc::make_mut(there)[skip..skip + bytes.len()].copy_from_slice(bytes);
    }

    fn resize(&mut self, length: usize) {
        if length < self.length {
            self.sectors.truncate(length.div_ceil(SECTOR));
            let skip = length % SECTOR;
            if skip > 0 {
                if let Some(Some(last)) = self.sectors.get_mut(length / SECTOR) {
                    Arc::make_mut(last)[skip..].fill(0);
                }
            }
        }
        self.length = length;
    }

    /// Takes a whole sector over from `other`.
    fn copy_sector(&mut self, other: &Content, sector: usize) {
        let from = other.sectors.get(sector).cloned().flatten();
        if from.is_none() && self.sectors.len() <= sector {
            return;
        }
        if self.sectors.len() <= sector {
            self.sectors.resize(sector + 1, None);
        }
        self.sectors[sector] = from;
    }
}

impl Inode {
    fn write(&mut self, bytes: &[u8], at: usize) {
        self.cache.put(at, bytes);
        if !bytes.is_empty() {
            self.dirty.extend(at / SECTOR..=(at + bytes.len() - 1) / SECTOR);
        }
    }

    fn sync(&mut self) {
        self.durable.resize(self.cache.length);
        for sector in std::mem::take(&mut self.dirty) {
            self.durable.copy_sector(&self.cache, sector);
        }
    }

    fn after_crash(&self, random: &SimRandom) -> Content {
        let mut left = self.durable.clone();
        if self.cache.length != left.length && random.chance(50) {
            left.resize(self.cache.length);
        }
        let mut bytes = [0; SECTOR];
        for sector in &self.dirty {
            let from = sector * SECTOR;
            let there = self.cache.length.saturating_sub(from).min(SECTOR);
            let kept = match random.below(100) {
                0..45 => there,
                45..90 => 0,
                _ => TEAR * usize::try_from(random.below(8)).unwrap_or(0),
            };
            let kept = kept.min(there).min(left.length.saturating_sub(from));
            if kept > 0 {
                self.cache.read(from, &mut bytes[..kept]);
                left.put(from, &bytes[..kept]);
            }
        }
        left
    }
}

impl Image {
    fn crashed(&self) -> bool {
        self.crash_in.is_some_and(|at| self.mutations >= at)
    }

    fn create(&mut self, path: &Path) -> usize {
        let inode = self.inodes.len();
        self.inodes.push(Inode {
            name: path.to_owned(),
            ..Inode::default()
        });
        self.names.insert(path.to_owned(), inode);
        inode
    }

    /// Counts an operation; the error it has to answer.
    fn enter(&mut self, operation: Operation, path: &Path) -> io::Result<()> {
        if self.crashed() {
            return Err(io::Error::other("the simulated machine has lost its power"));
        }
        if !matches!(operation, Operation::Read | Operation::Open) {
            self.mutations += 1;
        }
        if self.faults.is_empty() {
            return Ok(());
        }
        let text = path.to_string_lossy();
        for fault in &mut self.faults {
            if fault.operation == operation && text.contains(&fault.path_contains) {
                if fault.after > 0 {
                    fault.after -= 1;
                } else if fault.times > 0 {
                    fault.times -= 1;
                    return Err(fault.kind.into());
                }
            }
        }
        Ok(())
    }

    fn enter_file(&mut self, operation: Operation, file: &SimFile) -> io::Result<()> {
        let name = std::mem::take(&mut self.inodes[file.inode].name);
        let entered = self.enter(operation, &name);
        self.inodes[file.inode].name = name;
        entered
    }

    /// Whole sectors, as a file system counts.
    fn used(&self) -> u64 {
        self.names
            .values()
            .filter_map(|inode| self.inodes.get(*inode))
            .map(|inode| (inode.cache.length.div_ceil(SECTOR) * SECTOR) as u64)
            .sum()
    }

    fn check_space(&self, inode: usize, length: u64) -> io::Result<()> {
        let present = self.inodes[inode].cache.length as u64;
        let more = length.saturating_sub(present);
        match more > 0 && self.used() + more > self.capacity {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut image = self.0.lock();
        image.enter(Operation::Open, path)?;
        let create = matches!(mode, OpenMode::CreateNew | OpenMode::CreateDirect);
        let inode = match image.names.get(path).copied() {
            Some(_) if create => return Err(io::ErrorKind::AlreadyExists.into()),
            Some(inode) => inode,
            None if create => image.create(path),
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            inode,
            direct: matches!(mode, OpenMode::Direct | OpenMode::CreateDirect),
        }))
    }

    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut image = self.0.lock();
        image.enter(Operation::Read, path)?;
        let inside = image.names.keys().filter(|name| name.parent() == Some(path));
        Ok(inside.filter_map(|name| name.file_name().map(PathBuf::from)).collect())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut image = self.0.lock();
        image.enter(Operation::Directory, path)?;
        image
            .names
            .remove(path)
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut image = self.0.lock();
        image.enter(Operation::Directory, from)?;
        let inode = image.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        image.names.insert(to.to_owned(), inode);
        image.inodes[inode].name = to.to_owned();
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut image = self.0.lock();
        image.enter(Operation::Directory, path)?;
        let inside = |name: &Path| name.parent() == Some(path);
        let present: Vec<_> = image
            .names
            .iter()
            .filter(|(name, _)| inside(name))
            .map(|(n, i)| (n.clone(), *i))
            .collect();
        image.durable_names.retain(|name, _| !inside(name));
        image.durable_names.extend(present);
        Ok(())
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        let image = self.0.lock();
        Ok(image.capacity.saturating_sub(image.used()))
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let mut image = self.0.lock();
        image.enter(Operation::Open, path)?;
        if !image.names.contains_key(path) {
            image.create(path);
        }
        let taken = image.locks.insert(path.to_owned());
        Ok(taken.then(|| {
            Box::new(Lock {
                disk: self.clone(),
                path: path.to_owned(),
            }) as Box<dyn Send + Sync>
        }))
    }
}

struct Lock {
    disk: SimDisk,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.disk.0.lock().locks.remove(&self.path);
    }
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
    /// Refuses what does not lie at block boundaries, as the strictest file system does.
    direct: bool,
}

impl SimFile {
    fn check_alignment(&self, buf: &[u8], position: u64) -> io::Result<()> {
        let aligned = buf.as_ptr().align_offset(ALIGNMENT) == 0
            && buf.len().is_multiple_of(ALIGNMENT)
            && position.is_multiple_of(ALIGNMENT as u64);
        match aligned || !self.direct {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a direct write that is not aligned",
            )),
        }
    }
}

impl DiskFile for SimFile {
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        let mut image = self.disk.0.lock();
        image.enter_file(Operation::Read, self)?;
        let from = usize::try_from(position).map_err(io::Error::other)?;
        let content = &image.inodes[self.inode].cache;
        if from.checked_add(buf.len()).is_none_or(|end| end > content.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        content.read(from, buf);
        Ok(())
    }

    fn write_all_at(&self, buf: &[u8], position: u64) -> io::Result<()> {
        self.check_alignment(buf, position)?;
        let mut image = self.disk.0.lock();
        image.enter_file(Operation::Write, self)?;
        image.check_space(self.inode, position + buf.len() as u64)?;
        let at = usize::try_from(position).map_err(io::Error::other)?;
        image.inodes[self.inode].write(buf, at);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if let Some(hook) = &*self.disk.1.lock() {
            let path = self.disk.0.lock().inodes[self.inode].name.clone();
            hook(&path);
        }
        let mut image = self.disk.0.lock();
        let entered = image.enter_file(Operation::Sync, self);
        let crashed = image.crashed();
        let inode = &mut image.inodes[self.inode];
        match entered {
            // Power fails during the sync: each sector by chance, as if it had not been called.
            Ok(()) if crashed => Err(io::Error::other("the simulated machine lost its power during a sync")),
            Ok(()) => {
                inode.syncs += 1;
                inode.sync();
                Ok(())
            }
            Err(reason) => {
                if !crashed {
                    inode.dirty.clear();
                }
                Err(reason)
            }
        }
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut image = self.disk.0.lock();
        image.enter_file(Operation::Allocate, self)?;
        image.check_space(self.inode, length)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let inode = &mut image.inodes[self.inode];
        if inode.cache.length < length {
            inode.cache.resize(length);
        }
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut image = self.disk.0.lock();
        image.enter_file(Operation::Allocate, self)?;
        image.check_space(self.inode, length)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let inode = &mut image.inodes[self.inode];
        let cut = length / SECTOR..inode.cache.length.div_ceil(SECTOR);
        inode.dirty.extend(cut);
        inode.cache.resize(length);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().inodes[self.inode].cache.length as u64)
    }
}
