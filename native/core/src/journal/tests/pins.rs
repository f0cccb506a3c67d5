//! Whoever reads a segment keeps it: neither removed nor used again before the last byte was read.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use futures::future::join;
use parking_lot::Mutex;

use super::support::*;
use crate::commit::{HeadChange, Log};
use crate::env::real::{self, OsDisk};
use crate::env::{Disk, DiskFile, OpenMode};
use crate::error::ErrorCode;
use crate::journal::{Journal, ModelBackend, Options};
use crate::types::Offset;

/// Far more than any machine needs; only a wrong test waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

fn large(offset: u64) -> Vec<u8> {
    vec![offset as u8; LARGE]
}

fn trim(before: u64) -> HeadChange {
    HeadChange::Trim {
        epoch: epoch(1),
        before: Offset::new(before),
        trimmed_bytes: 0,
    }
}

/// The system's disk, with a reader that is held in the middle of a file.
struct Gate {
    /// The segment, under whatever suffix its file was opened.
    held: PathBuf,
    entered: Mutex<Sender<()>>,
    leave: Mutex<Option<Receiver<()>>>,
}

struct GatedDisk(Arc<Gate>);

struct GatedFile {
    file: Arc<dyn DiskFile>,
    gate: Option<Arc<Gate>>,
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> std::io::Result<Arc<dyn DiskFile>> {
        let gate = (path.file_stem() == Some(self.0.held.as_os_str())).then(|| self.0.clone());
        let file = OsDisk.open(path, mode)?;
        Ok(Arc::new(GatedFile { file, gate }))
    }
    fn create_dir_all(&self, path: &Path) -> std::io::Result<()> {
        OsDisk.create_dir_all(path)
    }
    fn list(&self, path: &Path) -> std::io::Result<Vec<PathBuf>> {
        OsDisk.list(path)
    }
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        OsDisk.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        OsDisk.rename(from, to)
    }
    fn sync_dir(&self, path: &Path) -> std::io::Result<()> {
        OsDisk.sync_dir(path)
    }
    fn free_bytes(&self, path: &Path) -> std::io::Result<u64> {
        OsDisk.free_bytes(path)
    }
    fn try_lock(&self, path: &Path) -> std::io::Result<Option<Box<dyn Send + Sync>>> {
        OsDisk.try_lock(path)
    }
}

impl DiskFile for GatedFile {
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> std::io::Result<()> {
        // The first half, then the wait, then the rest: what changes in between would show.
        let half = buf.len() / 2;
        self.file.read_exact_at(&mut buf[..half], position)?;
        let leave = self.gate.as_ref().filter(|_| half > 4096).and_then(|gate| {
            let leave = gate.leave.lock().take()?;
            gate.entered.lock().send(()).unwrap();
            Some(leave)
        });
        if let Some(leave) = leave {
            leave.recv_timeout(PATIENCE).unwrap();
        }
        self.file.read_exact_at(&mut buf[half..], position + half as u64)
    }
    fn write_all_at(&self, buf: &[u8], position: u64) -> std::io::Result<()> {
        self.file.write_all_at(buf, position)
    }
    fn sync_data(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }
    fn allocate(&self, length: u64) -> std::io::Result<()> {
        self.file.allocate(length)
    }
    fn set_length(&self, length: u64) -> std::io::Result<()> {
        self.file.set_length(length)
    }
    fn length(&self) -> std::io::Result<u64> {
        self.file.length()
    }
}

fn append(journal: &Journal, n: u128, from: u64, count: u64) {
    for offset in from..from + count {
        committed(
            block_on(send(journal, stream(n), 1, offset, &large(offset))).unwrap(),
            offset,
        );
    }
}

fn create(journal: &Journal, n: u128) {
    let create = HeadChange::Create {
        stream: stream(n),
        incarnation: crate::types::Incarnation::new(1),
        created_millis: 1,
    };
    block_on(journal.change(stream(n), create)).unwrap();
    block_on(journal.change(stream(n), HeadChange::Claim { owner: "test".into() })).unwrap();
}

/// Holds a reader of the first segment in the middle while `gone` takes its range away and everything is done to re-use the file.
fn held_reader(gone: HeadChange, afterwards: ErrorCode) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (entered, is_in) = channel();
    let (let_go, leave) = channel();
    let gate = Arc::new(Gate {
        held: "0000000000000001".into(),
        entered: Mutex::new(entered),
        leave: Mutex::new(None),
    });
    let mut env = real::env(runtime.handle().clone()).unwrap();
    env.disk = Arc::new(GatedDisk(gate.clone()));
    let mut options = Options::new(directory.path().to_owned(), 7, SEGMENT, 64 << 10);
    options.reserve_bytes = 0;
    options.checkpoint_bytes = SEGMENT;
    let journal = block_on(Journal::open_on(env, options, Arc::new(ModelBackend::default()))).unwrap();
    create(&journal, 1);
    create(&journal, 2);
    append(&journal, 1, 0, 70);
    append(&journal, 2, 0, 70);
    let head = block_on(journal.load(stream(1))).unwrap().unwrap();
    let key = crate::record::Key::stream_range(crate::record::RecordType::CommitPage, stream(1));
    let pages = block_on(journal.store().scan(key.0, key.1, 1)).unwrap();
    let page: crate::record::CommitPage = crate::record::Record::decode(&pages[0].0, &pages[0].1.value).unwrap();
    drop(head);
    let commit = page.commits[3];
    assert_eq!(crate::journal::read::segment_of(&commit), Some(1));

    *gate.leave.lock() = Some(leave);
    let reading = journal.read(stream(1), commit);
    is_in.recv_timeout(PATIENCE).unwrap();
    block_on(journal.change(stream(1), gone)).unwrap();
    // Checkpoint after checkpoint, segment after segment: whatever can be used again is.
    for round in 0..4 {
        append(&journal, 2, 70 + round * 70, 70);
        block_on(journal.change(stream(2), trim(70 + round * 70))).unwrap();
        block_on(journal.checkpoint()).unwrap();
    }
    assert!(journal.stats().kept_segments > 2, "{:?}", journal.stats());
    assert!(directory.path().join("journal/0000000000000001.seg").exists());
    let_go.send(()).unwrap();
    let slice = block_on(reading).unwrap();
    assert_eq!(slice.entries[0].entry, large(commit.start.get()));

    block_on(journal.checkpoint()).unwrap();
    append(&journal, 2, 350, 1);
    block_on(journal.checkpoint()).unwrap();
    assert!(!directory.path().join("journal/0000000000000001.seg").exists());
    let error = block_on(journal.read(stream(1), commit)).unwrap_err();
    assert_eq!(error.code(), afterwards, "{error}");
    block_on(journal.close()).unwrap();
}

#[test]
fn l16_a_segment_is_not_used_again_under_a_reader_whose_stream_is_trimmed() {
    held_reader(trim(69), ErrorCode::OffsetTrimmed);
}

#[test]
fn l16_a_segment_is_not_used_again_under_a_reader_whose_stream_is_deleted() {
    held_reader(HeadChange::Delete { epoch: None }, ErrorCode::NotFound);
}

#[test]
fn l12_a_read_beside_a_trim_ends_with_its_bytes_or_says_that_they_are_gone() {
    let (mut read, mut gone) = (0, 0);
    for seed in 0..30 {
        let mut world = World::new(seed);
        let journal = world.open();
        world.create(&journal, stream(1));
        for offset in 0..150 {
            committed(world.append(&journal, stream(1), offset, &large(offset)), offset);
        }
        let commit = world.commits(&journal, stream(1))[20];
        let trimmed = async {
            journal.change(stream(1), trim(140)).await.unwrap();
            journal.checkpoint().await.unwrap();
        };
        let reads = async {
            let mut outcomes = Vec::new();
            for _ in 0..40 {
                outcomes.push(journal.read(stream(1), commit).await);
            }
            outcomes
        };
        let ((), outcomes) = world.executor.run(join(trimmed, reads));
        for outcome in outcomes {
            match outcome {
                Ok(slice) => {
                    assert_eq!(slice.entries[0].entry, large(20), "seed {seed}");
                    read += 1;
                }
                Err(error) => {
                    assert_eq!(error.code(), ErrorCode::OffsetTrimmed, "seed {seed}: {error}");
                    gone += 1;
                }
            }
        }
    }
    assert!(
        read > 50 && gone > 50,
        "{read} reads came before, {gone} after: this proves nothing"
    );
}
