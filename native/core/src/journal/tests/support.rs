//! One journal in a simulated world, and shorthands for what tests ask of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::oneshot;
use futures::FutureExt;

use crate::commit::{Append, AppendOutcome, AppendReply, Commit, HeadCell, HeadChange, Log, Slice, StreamHead};
use crate::env::sim::{self, Executor, SimDisk, SimRandom};
use crate::env::Env;
use crate::error::Result;
use crate::journal::{Journal, ModelBackend, Options};
use crate::metadata::{Expected, Verdict, Write};
use crate::record::Key;
use crate::types::{Incarnation, Offset, OwnerEpoch, StreamId};

pub const DIRECTORY_ID: u128 = 0xd1;
pub const SEGMENT: u64 = 4 << 20;

/// A simulated machine with a journal on it.
pub struct World {
    pub executor: Executor,
    pub disk: SimDisk,
    pub backend: ModelBackend,
    pub options: Options,
    pub seed: u64,
}

pub fn stream(n: u128) -> StreamId {
    StreamId::new(0x5000 + n)
}

pub fn options() -> Options {
    let mut options = Options::new(PathBuf::from("/data"), DIRECTORY_ID, SEGMENT, 64 << 10);
    options.reserve_bytes = 0;
    options.group_bytes = 256 << 10;
    options
}

pub fn segment_path(sequence: u64) -> PathBuf {
    Path::new("/data/journal").join(format!("{sequence:016x}.seg"))
}

/// Paths of the journal's files that end like this.
pub fn files(world: &World, suffix: &str) -> Vec<PathBuf> {
    let mut paths = world.disk.paths();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == suffix));
    paths
}

/// Bytes of a [`large`] entry.
pub const LARGE: usize = 60 << 10;

/// An entry of which a few dozen fill a segment.
pub fn large(stream: StreamId, offset: u64) -> Vec<u8> {
    let mut large = entry(stream, offset);
    large.resize(LARGE, offset as u8);
    large
}

impl World {
    pub fn new(seed: u64) -> World {
        World {
            executor: Executor::new(seed),
            disk: SimDisk::new(1 << 40),
            backend: ModelBackend::default(),
            options: options(),
            seed,
        }
    }

    pub fn env(&self) -> Env {
        sim::env(&self.executor, Arc::new(self.disk.clone()), self.seed ^ 0x0bad_cafe)
    }

    pub fn try_open(&mut self) -> Result<Arc<Journal>> {
        let opening = Journal::open_on(self.env(), self.options.clone(), Arc::new(self.backend.clone()));
        self.executor.run(opening)
    }

    pub fn open(&mut self) -> Arc<Journal> {
        self.try_open().unwrap()
    }

    /// The same machine once more, killed at this moment; this one goes on.
    pub fn copy(&self) -> World {
        let seed = self.seed + 1;
        World {
            executor: Executor::new(seed),
            disk: self.disk.after_kill(),
            backend: self.backend.after_crash(usize::MAX),
            options: self.options.clone(),
            seed,
        }
    }

    /// The machine as it is after the process was killed: everything written is there.
    pub fn after_kill(&mut self) -> World {
        self.executor.kill();
        let seed = self.seed + 1;
        World {
            executor: Executor::new(seed),
            disk: self.disk.after_kill(),
            backend: self.backend.after_crash(usize::MAX),
            options: self.options.clone(),
            seed,
        }
    }

    /// The machine as it is after a loss of power.
    pub fn after_crash(&mut self, random: &SimRandom) -> World {
        self.executor.kill();
        let survivors = usize::try_from(random.below(self.backend.unflushed() as u64 + 1)).unwrap();
        let seed = self.seed + 1;
        World {
            executor: Executor::new(seed),
            disk: self.disk.after_crash(random),
            backend: self.backend.after_crash(survivors),
            options: self.options.clone(),
            seed,
        }
    }

    /// Creates a stream and claims it; answers its cell.
    pub fn create(&mut self, journal: &Journal, stream: StreamId) -> Arc<HeadCell> {
        let create = HeadChange::Create {
            stream,
            incarnation: Incarnation::new(1),
            created_millis: 5,
        };
        self.executor.run(journal.change(stream, create)).unwrap();
        self.executor
            .run(journal.change(stream, HeadChange::Claim { owner: "test".into() }))
            .unwrap()
    }

    pub fn change(&mut self, journal: &Journal, stream: StreamId, change: HeadChange) -> Result<Arc<HeadCell>> {
        self.executor.run(journal.change(stream, change))
    }

    pub fn append(&mut self, journal: &Journal, stream: StreamId, offset: u64, entry: &[u8]) -> AppendOutcome {
        let asked = send(journal, stream, 1, offset, entry);
        self.executor.run(asked).unwrap()
    }

    /// Appends `count` entries one after the other, each in a group of its own.
    pub fn fill(&mut self, journal: &Journal, stream: StreamId, from: u64, count: u64) {
        for offset in from..from + count {
            committed(self.append(journal, stream, offset, &entry(stream, offset)), offset);
        }
    }

    pub fn head(&mut self, journal: &Journal, stream: StreamId) -> Option<StreamHead> {
        self.try_head(journal, stream).unwrap()
    }

    pub fn try_head(&mut self, journal: &Journal, stream: StreamId) -> Result<Option<StreamHead>> {
        Ok(self
            .executor
            .run(journal.load(stream))?
            .and_then(|cell| cell.with(|head| head.cloned())))
    }

    pub fn read(&mut self, journal: &Journal, stream: StreamId, commit: Commit) -> Result<Slice> {
        self.executor.run(journal.read(stream, commit))
    }

    /// Every entry that the head and the pages name, in order.
    pub fn read_all(&mut self, journal: &Journal, stream: StreamId) -> Vec<Bytes> {
        let commits = self.commits(journal, stream);
        let mut all = Vec::new();
        let mut next = commits.first().map_or(0, |commit| commit.start.get());
        for commit in commits {
            assert_eq!(commit.start.get(), next, "commits touch (L4)");
            let slice = self.read(journal, stream, commit).unwrap();
            assert_eq!(slice.entries.len() as u32, commit.count);
            all.extend(slice.entries.iter().map(|entry| entry.entry.clone()));
            next = commit.end().unwrap().get();
        }
        all
    }

    /// Every entry from the commit at `from` on.
    pub fn read_all_from(&mut self, journal: &Journal, stream: StreamId, from: u64) -> Vec<Bytes> {
        let commits = self.commits(journal, stream);
        let wanted = commits.into_iter().filter(|commit| commit.start.get() >= from);
        wanted
            .flat_map(|commit| {
                let slice = self.read(journal, stream, commit).unwrap();
                slice
                    .entries
                    .iter()
                    .map(|entry| entry.entry.clone())
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// Every commit that the pages and the head name, in order.
    pub fn commits(&mut self, journal: &Journal, stream: StreamId) -> Vec<Commit> {
        use crate::record::{CommitPage, Record, RecordType};
        let Some(head) = self.head(journal, stream) else {
            return Vec::new();
        };
        let (from, to) = Key::stream_range(RecordType::CommitPage, stream);
        let pages = self.executor.run(journal.store().scan(from, to, 10_000)).unwrap();
        let folded = pages
            .iter()
            .flat_map(|(key, page)| CommitPage::decode(key, &page.value).unwrap().commits);
        folded.chain(head.ring).collect()
    }

    pub fn write(&mut self, journal: &Journal, key: Key, expected: Expected, value: &'static [u8]) -> Verdict {
        let value = Some(Bytes::from_static(value));
        self.executor
            .run(journal.store().write(vec![Write { key, expected, value }]))
            .pop()
            .unwrap()
    }

    pub fn value(&mut self, journal: &Journal, key: Key) -> Option<Bytes> {
        self.executor
            .run(journal.store().get(key))
            .unwrap()
            .map(|found| found.value)
    }
}

/// Queues an append without waiting for it.
pub fn send(
    journal: &Journal,
    stream: StreamId,
    epoch: u64,
    offset: u64,
    entry: &[u8],
) -> impl std::future::Future<Output = std::result::Result<AppendOutcome, oneshot::Canceled>> {
    let (reply, receive) = oneshot::channel();
    journal.append(Append {
        stream,
        epoch: OwnerEpoch::new(epoch),
        offset: Offset::new(offset),
        entry: Bytes::copy_from_slice(entry),
        crc32c: crc32c::crc32c(entry),
        messages: 1,
        reply: AppendReply::new(move |outcome| drop(reply.send(outcome))),
    });
    receive.fuse()
}

pub fn committed(outcome: AppendOutcome, wanted: u64) {
    match outcome {
        AppendOutcome::Committed { offset, .. } => assert_eq!(offset.get(), wanted),
        other => panic!("append at {wanted}: {other:?}"),
    }
}

pub fn not_committed(outcome: AppendOutcome) -> crate::error::Error {
    match outcome {
        AppendOutcome::NotCommitted(error) => error,
        other => panic!("expected NotCommitted, got {other:?}"),
    }
}

/// The entry that tests put at an offset: any other content would be noticed.
pub fn entry(stream: StreamId, offset: u64) -> Vec<u8> {
    let length = 20 + (offset * 37 % 300) as usize;
    format!("{stream}/{offset}/")
        .into_bytes()
        .into_iter()
        .cycle()
        .take(length)
        .collect()
}

pub fn epoch(epoch: u64) -> OwnerEpoch {
    OwnerEpoch::new(epoch)
}
