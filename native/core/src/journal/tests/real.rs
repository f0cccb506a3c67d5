//! The journal on this machine's disk, threads and RocksDB.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use futures::future::join_all;

use super::support::{committed, entry, send, stream};
use crate::commit::{AppendOutcome, HeadChange, Log};
use crate::env::{real, Env};
use crate::error::{ErrorCode, Result};
use crate::journal::{Journal, Options};
use crate::metadata::conformance::{Fixture, Keys};
use crate::metadata::faults::Faults;
use crate::metadata::MetadataStore;
use crate::record::Key;
use crate::types::{Incarnation, Offset};

struct Machine {
    runtime: tokio::runtime::Runtime,
    directory: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        Machine {
            runtime,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn env(&self) -> Env {
        real::env(self.runtime.handle().clone()).unwrap()
    }

    fn open_in(&self, directory: &Path) -> Result<Arc<Journal>> {
        let mut options = Options::new(directory.to_owned(), 7, 4 << 20, 64 << 10);
        options.reserve_bytes = 0;
        block_on(Journal::open(self.env(), options))
    }

    fn open(&self) -> Arc<Journal> {
        self.open_in(self.directory.path()).unwrap()
    }

    /// A copy of the directory as it is now: what a kill at this moment leaves.
    fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(self.directory.path(), copy.path());
        copy
    }
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn create(journal: &Journal, n: u128) {
    let change = HeadChange::Create {
        stream: stream(n),
        incarnation: Incarnation::new(1),
        created_millis: 1,
    };
    block_on(journal.change(stream(n), change)).unwrap();
    block_on(journal.change(stream(n), HeadChange::Claim { owner: "test".into() })).unwrap();
}

fn append(journal: &Journal, n: u128, from: u64, count: u64) {
    let asked = (from..from + count).map(|offset| send(journal, stream(n), 1, offset, &entry(stream(n), offset)));
    let asked: Vec<_> = asked.collect();
    for (outcome, offset) in block_on(join_all(asked)).into_iter().zip(from..) {
        committed(outcome.unwrap(), offset);
    }
}

fn check(journal: &Journal, n: u128, end: u64) {
    let head = block_on(journal.load(stream(n)))
        .unwrap()
        .unwrap()
        .with(|head| head.unwrap().clone());
    assert_eq!(head.end, Offset::new(end));
    let mut offset = head.ring[0].start.get();
    for commit in head.ring {
        for read in block_on(journal.read(stream(n), commit)).unwrap().entries.iter() {
            assert_eq!(read.entry, entry(stream(n), offset));
            offset += 1;
        }
    }
    assert_eq!(offset, end);
}

#[test]
fn l01_everything_acknowledged_is_in_a_copy_taken_at_any_moment_and_after_a_close() {
    let machine = Machine::new();
    let journal = machine.open();
    create(&journal, 1);
    append(&journal, 1, 0, 500);
    block_on(journal.checkpoint()).unwrap();
    append(&journal, 1, 500, 100);
    let copy = machine.copy();
    let killed = machine.open_in(copy.path()).unwrap();
    check(&killed, 1, 600);
    assert!(killed.stats().replayed_frames > 0);
    append(&killed, 1, 600, 5);
    block_on(killed.close()).unwrap();
    drop(killed);

    block_on(journal.close()).unwrap();
    drop(journal);
    let journal = machine.open();
    assert_eq!(journal.stats().replayed_frames, 0, "{:?}", journal.stats());
    check(&journal, 1, 600);
    append(&journal, 1, 600, 1);
    block_on(journal.close()).unwrap();
}

#[test]
fn a_closed_directory_can_be_opened_again_at_once() {
    let machine = Machine::new();
    for round in 0..3 {
        let journal = machine.open();
        if round == 0 {
            create(&journal, 1);
        }
        append(&journal, 1, round * 10, 10);
        block_on(journal.close()).unwrap();
    }
}

#[test]
fn many_threads_share_syncs() {
    let machine = Machine::new();
    let journal = machine.open();
    for n in 0..8 {
        create(&journal, n);
    }
    let before = journal.stats();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let journal = &journal;
            scope.spawn(move || append(journal, n, 0, 500));
        }
    });
    let after = journal.stats();
    for n in 0..8 {
        check(&journal, n, 500);
    }
    assert!(
        after.syncs - before.syncs < 2000,
        "4000 appends took {} syncs",
        after.syncs - before.syncs
    );
    block_on(journal.close()).unwrap();
}

#[test]
fn l17_damaged_metadata_stops_the_start_naming_its_directory() {
    let machine = Machine::new();
    let journal = machine.open();
    create(&journal, 1);
    append(&journal, 1, 0, 10);
    block_on(journal.close()).unwrap();
    drop(journal);
    let metadata = machine.directory.path().join("metadata");
    for entry in std::fs::read_dir(&metadata).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            std::fs::write(&path, b"not a table").unwrap();
        }
    }
    let error = machine.open_in(machine.directory.path()).err().unwrap();
    assert_eq!(error.code(), ErrorCode::Corrupt, "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&metadata.display().to_string()) && text.contains("restore"),
        "{text}"
    );

    std::fs::remove_dir_all(&metadata).unwrap();
    let error = machine.open_in(machine.directory.path()).err().unwrap();
    assert_eq!(
        error.code(),
        ErrorCode::Corrupt,
        "lost metadata is never an empty store: {error}"
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let machine = Machine::new();
    let file = machine.directory.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    let error = machine.open_in(&file).err().unwrap();
    assert_eq!(error.code(), ErrorCode::Io);
    assert!(error.to_string().contains(&file.display().to_string()), "{error}");
}

#[test]
fn an_append_to_a_dropped_journal_is_answered() {
    let machine = Machine::new();
    let journal = machine.open();
    create(&journal, 1);
    let asked: Vec<_> = (0..100)
        .map(|offset| send(&journal, stream(1), 1, offset, b"x"))
        .collect();
    drop(journal);
    for outcome in block_on(join_all(asked)) {
        assert!(
            matches!(
                outcome,
                Ok(AppendOutcome::Committed { .. } | AppendOutcome::NotCommitted(_))
            ),
            "{outcome:?}"
        );
    }
}

/// The provider on the journal, restarted by closing and opening it.
struct OnJournal {
    machine: Machine,
    journal: Option<Arc<Journal>>,
}

impl OnJournal {
    fn new() -> OnJournal {
        let machine = Machine::new();
        let journal = Some(machine.open());
        OnJournal { machine, journal }
    }
}

impl Fixture for OnJournal {
    fn store(&self) -> Arc<dyn MetadataStore> {
        self.journal.as_ref().unwrap().store()
    }

    fn restart(&mut self) {
        if let Some(journal) = self.journal.take() {
            block_on(journal.close()).unwrap();
        }
        self.journal = Some(self.machine.open());
    }

    fn keys(&self) -> Keys {
        Keys::OfAStream
    }

    fn faults(&self) -> Option<Faults> {
        None
    }
}

mod conformance {
    use super::OnJournal;
    use crate::metadata::conformance::metadata_store_suite;

    metadata_store_suite!(OnJournal::new());
}

#[test]
fn versions_go_on_after_a_restart_without_a_checkpoint() {
    let machine = Machine::new();
    let journal = machine.open();
    let put = |value: &'static str| crate::metadata::Write {
        key: Key::stream_properties(stream(1)),
        expected: crate::metadata::Expected::Any,
        value: Some(Bytes::from_static(value.as_bytes())),
    };
    let version = |journal: &Journal, value| match block_on(journal.store().write(vec![put(value)])).pop().unwrap() {
        crate::metadata::Verdict::Applied(version) => version,
        other => panic!("{other:?}"),
    };
    let first = version(&journal, "a");
    let copy = machine.copy();
    let killed = machine.open_in(copy.path()).unwrap();
    assert!(version(&killed, "b") > first);
    block_on(killed.close()).unwrap();
}

#[test]
fn an_all_consumed_load_of_twenty_times_the_journal_keeps_a_real_directory_flat() {
    const SEGMENT: u64 = 4 << 20;
    /// What a checkpoint sets free and what it covers, the segment written, the next, and one that is kept.
    const FILES: u64 = 8;
    let machine = Machine::new();
    let mut options = Options::new(machine.directory.path().to_owned(), 7, SEGMENT, 64 << 10);
    options.reserve_bytes = 0;
    options.checkpoint_bytes = 2 * SEGMENT;
    let journal = block_on(Journal::open(machine.env(), options)).unwrap();
    create(&journal, 1);
    let large = vec![5; 60 << 10];
    let (mut most_files, mut most_bytes) = (0, 0);
    let entries = 20 * FILES * SEGMENT / large.len() as u64;
    for from in (0..entries).step_by(16) {
        let asked: Vec<_> = (from..from + 16)
            .map(|offset| send(&journal, stream(1), 1, offset, &large))
            .collect();
        for (outcome, offset) in block_on(join_all(asked)).into_iter().zip(from..) {
            committed(outcome.unwrap(), offset);
        }
        let trim = HeadChange::Trim {
            epoch: crate::types::OwnerEpoch::new(1),
            before: Offset::new(from + 16),
            trimmed_bytes: 0,
        };
        block_on(journal.change(stream(1), trim)).unwrap();
        let (mut files, mut bytes) = (0, 0);
        for entry in std::fs::read_dir(machine.directory.path().join("journal")).unwrap() {
            // A file may get its next name between the listing and the look.
            if let Ok(data) = entry.unwrap().metadata() {
                files += 1;
                bytes += data.len();
            }
        }
        most_files = most_files.max(files);
        most_bytes = most_bytes.max(bytes);
    }
    let stats = journal.stats();
    assert!(
        most_files <= FILES && most_bytes <= FILES * SEGMENT,
        "{most_files} files, {most_bytes} bytes, {stats:?}"
    );
    assert!(stats.bytes > 20 * FILES * SEGMENT, "{stats:?}");
    assert!(
        stats.kept_segments > 15 * FILES,
        "hardly any file was used again: {stats:?}"
    );
    block_on(journal.close()).unwrap();
}
