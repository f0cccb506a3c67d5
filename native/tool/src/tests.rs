//! The tool on directories that a journal wrote.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::oneshot;
use futures::executor::block_on;
use futures::future::join_all;
use nereus_core::binding::{DirectoryId, DirectoryLock};
use nereus_core::commit::{Append, AppendOutcome, AppendReply, HeadChange, Log};
use nereus_core::env::real;
use nereus_core::journal::segment::{SegmentHeader, Segments};
use nereus_core::journal::{Journal, Options};
use nereus_core::metadata::{Expected, Verdict, Write};
use nereus_core::record::{Record, TrimMark, TrimReason};
use nereus_core::types::{Incarnation, Offset, OwnerEpoch, StreamId};
use nereus_core::{Error, ErrorCode};

use super::*;

const STREAM: StreamId = StreamId::new(0xfeed);
const UUID: u128 = 0x7777;

struct Machine {
    runtime: tokio::runtime::Runtime,
    scratch: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let machine = Machine {
            runtime,
            scratch: tempfile::tempdir().unwrap(),
        };
        let id = DirectoryId {
            cluster: "c".into(),
            uuid: UUID,
            epoch: 3,
            pending: 0,
        };
        id.write(&real::OsDisk, machine.path()).unwrap();
        machine
    }

    fn path(&self) -> &Path {
        self.scratch.path()
    }

    fn open(&self) -> Arc<Journal> {
        let mut options = Options::new(self.path().to_owned(), UUID, 4 << 20, 64 << 10);
        options.reserve_bytes = 0;
        let env = real::env(self.runtime.handle().clone()).unwrap();
        block_on(Journal::open(env, options)).unwrap()
    }

    /// A directory with a stream of 30 entries, 10 of them and a record newer than the checkpoint.
    fn written() -> Self {
        let machine = Machine::new();
        drop(DirectoryLock::take(&real::OsDisk, machine.path(), "broker-1").unwrap());
        let journal = machine.open();
        let create = HeadChange::Create {
            stream: STREAM,
            incarnation: Incarnation::new(2),
            created_millis: 1,
        };
        block_on(journal.change(STREAM, create)).unwrap();
        block_on(journal.change(
            STREAM,
            HeadChange::Claim {
                owner: "broker-1".into(),
            },
        ))
        .unwrap();
        append(&journal, 0..20);
        block_on(journal.checkpoint()).unwrap();
        append(&journal, 20..30);
        mark(&journal, 9);
        block_on(journal.close()).unwrap();
        machine
    }

    fn segment(&self) -> PathBuf {
        let found = fs::read_dir(self.path().join("journal")).unwrap();
        let mut found: Vec<_> = found.map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found.remove(0)
    }

    /// Every file with its bytes.
    fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn add(directory: &Path, content: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    add(&path, content);
                } else {
                    content.insert(path.clone(), fs::read(path).unwrap());
                }
            }
        }
        let mut content = BTreeMap::new();
        add(self.path(), &mut content);
        content
    }

    /// Runs a command and shows that it changed nothing.
    fn run(&self, command: fn(PathBuf) -> Command) -> (Outcome, String) {
        let before = self.content();
        let mut out = Vec::new();
        let outcome = run(&command(self.path().to_owned()), &mut out).unwrap();
        assert!(self.content() == before, "the tool wrote into the directory");
        (outcome, String::from_utf8(out).unwrap())
    }

    fn verify(&self) -> (Outcome, String) {
        self.run(|directory| Command::Verify { directory })
    }

    fn inspect(&self) -> (Outcome, String) {
        self.run(|directory| Command::Inspect { directory })
    }
}

fn entry(offset: u64) -> Bytes {
    Bytes::from(format!("entry {offset} of the stream").repeat(20))
}

fn send(journal: &Journal, offset: u64, entry: Bytes) -> oneshot::Receiver<AppendOutcome> {
    let (send, receive) = oneshot::channel();
    journal.append(Append {
        stream: STREAM,
        epoch: OwnerEpoch::new(1),
        offset: Offset::new(offset),
        crc32c: crc32c::crc32c(&entry),
        entry,
        messages: 1,
        reply: AppendReply::new(move |outcome| drop(send.send(outcome))),
    });
    receive
}

fn append(journal: &Journal, offsets: std::ops::Range<u64>) {
    let sent: Vec<_> = offsets.map(|offset| send(journal, offset, entry(offset))).collect();
    for outcome in block_on(join_all(sent)) {
        assert!(matches!(outcome.unwrap(), AppendOutcome::Committed { .. }));
    }
}

fn mark(journal: &Journal, offset: u64) {
    let mark = TrimMark {
        stream: STREAM,
        offset: Offset::new(offset),
        bytes_below: 1,
        first_append_millis: 1,
        last_append_millis: 2,
        reason: TrimReason::Entries,
    };
    let write = Write {
        key: mark.key().unwrap(),
        expected: Expected::Absent,
        value: Some(mark.encode().unwrap()),
    };
    assert!(matches!(
        block_on(journal.store().write(vec![write]))[..],
        [Verdict::Applied(_)]
    ));
}

/// Changes one byte of the first occurrence of `text`.
fn flip(path: &Path, text: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes
        .windows(text.len())
        .position(|window| window == text)
        .expect("the text is there");
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_directory_is_sound_and_shown_as_it_is() {
    let machine = Machine::written();
    let (outcome, text) = machine.verify();
    assert_eq!(outcome, Outcome::Sound, "{text}");
    assert!(
        text.ends_with("0 damaged\n") && text.contains(" 30 entries ("),
        "{text}"
    );
    let (outcome, text) = machine.inspect();
    assert_eq!(outcome, Outcome::Sound, "{text}");
    for expected in [
        "cluster c, uuid 00000000000000000000000000007777, started 3 times",
        "of broker-1",
        "streams: 1",
        "incarnation 2, entries 0 to 30",
        "owner epoch 1 (broker-1)",
    ] {
        assert!(text.contains(expected), "{text} does not say {expected}");
    }
}

#[test]
fn a_journal_that_nobody_closed_shows_all_that_was_acknowledged() {
    let machine = Machine::written();
    let journal = machine.open();
    append(&journal, 30..40);
    let (outcome, text) = machine.inspect_beside();
    assert_eq!(outcome, Outcome::Sound, "{text}");
    assert!(text.contains("entries 0 to 40"), "{text}");
    block_on(journal.close()).unwrap();
}

impl Machine {
    /// Beside a journal that is open, and may write its idle marker at any moment.
    fn inspect_beside(&self) -> (Outcome, String) {
        let mut out = Vec::new();
        let outcome = run(
            &Command::Inspect {
                directory: self.path().to_owned(),
            },
            &mut out,
        )
        .unwrap();
        (outcome, String::from_utf8(out).unwrap())
    }
}

#[test]
fn an_empty_directory_with_an_identity_is_sound() {
    let machine = Machine::new();
    assert_eq!(
        machine.verify(),
        (
            Outcome::Sound,
            "verify: 0 segments, 0 frames, 0 entries (0 bytes), 0 records; 0 damaged\n".into()
        )
    );
    assert_eq!(machine.inspect().0, Outcome::Sound);
}

#[test]
fn l12_a_flipped_byte_of_an_entry_is_found_naming_stream_offset_and_segment() {
    let machine = Machine::written();
    flip(&machine.segment(), b"entry 7 of the stream");
    let (outcome, text) = machine.verify();
    assert_eq!(outcome, Outcome::Damaged);
    let segment = machine.segment().display().to_string();
    assert!(text.contains(&format!("damage: {segment} at byte ")), "{text}");
    assert!(
        text.contains(&format!("stream {STREAM}")) && text.contains("from offset"),
        "{text}"
    );
    assert!(text.ends_with("; 1 damaged\n"), "{text}");
}

#[test]
fn a_damaged_frame_header_is_found() {
    let machine = Machine::written();
    flip(&machine.segment(), b"NEREUSjf");
    let (outcome, text) = machine.verify();
    assert_eq!(outcome, Outcome::Damaged, "{text}");
    assert!(text.contains("unreadable") || text.contains("missing"), "{text}");
}

#[test]
fn a_cut_segment_is_found() {
    let machine = Machine::written();
    let file = fs::OpenOptions::new().write(true).open(machine.segment()).unwrap();
    file.set_len(8192).unwrap();
    let (outcome, text) = machine.verify();
    assert_eq!(outcome, Outcome::Damaged, "{text}");
    assert!(text.contains("it was cut"), "{text}");
}

#[test]
fn a_damaged_metadata_file_is_found() {
    let machine = Machine::written();
    let files = fs::read_dir(machine.path().join("metadata"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let table = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|e| e == "sst"))
        .expect("a checkpoint was made");
    let mut bytes = fs::read(&table).unwrap();
    bytes[10] ^= 0xff;
    fs::write(table, bytes).unwrap();
    for (outcome, text) in [machine.verify(), machine.inspect()] {
        assert_eq!(outcome, Outcome::Damaged, "{text}");
        assert!(text.contains("damage: "), "{text}");
    }
}

#[test]
fn bytes_behind_the_last_frame_are_noted_and_no_damage() {
    let machine = Machine::written();
    let mut bytes = fs::read(machine.segment()).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("frames were written") / 4096 * 4096 + 4096;
    bytes[end..end + 5000].fill(0xaa);
    fs::write(machine.segment(), bytes).unwrap();
    let (outcome, text) = machine.verify();
    assert_eq!(outcome, Outcome::Sound, "{text}");
    assert!(text.contains("note: ") && text.contains("left by a crash"), "{text}");
}

fn refused(path: &Path) -> Error {
    let command = Command::Verify {
        directory: path.to_owned(),
    };
    run(&command, &mut Vec::new()).expect_err("there is nothing to look at")
}

#[test]
fn what_is_no_data_directory_is_refused_and_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    assert_eq!(refused(scratch.path()).code(), ErrorCode::Invalid);
    assert_eq!(refused(&scratch.path().join("missing")).code(), ErrorCode::Invalid);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_damaged_identity_is_an_error() {
    let machine = Machine::written();
    fs::write(machine.path().join("nereus.id"), "x").unwrap();
    assert_eq!(refused(machine.path()).code(), ErrorCode::Corrupt);
}

#[test]
fn metadata_of_another_directory_is_refused() {
    let machine = Machine::written();
    let id = DirectoryId {
        cluster: "c".into(),
        uuid: 5,
        epoch: 1,
        pending: 0,
    };
    id.write(&real::OsDisk, machine.path()).unwrap();
    assert_eq!(refused(machine.path()).code(), ErrorCode::Invalid);
}

#[test]
fn the_command_line_is_as_documented() {
    use clap::CommandFactory;
    Arguments::command().debug_assert();
    assert!(Arguments::try_parse_from(["nereus", "verify"]).is_err());
    assert!(Arguments::try_parse_from(["nereus", "verify", "/data"]).is_ok());
}

#[test]
fn former_content_of_a_used_again_segment_is_neither_data_nor_damage() {
    let machine = Machine::new();
    let mut options = Options::new(machine.path().to_owned(), UUID, 4 << 20, 64 << 10);
    options.reserve_bytes = 0;
    options.checkpoint_bytes = 4 << 20;
    let env = real::env(machine.runtime.handle().clone()).unwrap();
    let journal = block_on(Journal::open(env, options)).unwrap();
    let create = HeadChange::Create {
        stream: STREAM,
        incarnation: Incarnation::new(2),
        created_millis: 1,
    };
    block_on(journal.change(STREAM, create)).unwrap();
    block_on(journal.change(STREAM, HeadChange::Claim { owner: "b".into() })).unwrap();
    // Each round trims what the one before wrote, until files are used again.
    let large = Bytes::from(vec![7u8; 60 << 10]);
    for round in 0..8u64 {
        for offset in round * 70..(round + 1) * 70 {
            block_on(send(&journal, offset, large.clone())).unwrap();
        }
        let trim = HeadChange::Trim {
            epoch: OwnerEpoch::new(1),
            before: Offset::new((round + 1) * 70),
            trimmed_bytes: 0,
        };
        block_on(journal.change(STREAM, trim)).unwrap();
        block_on(journal.checkpoint()).unwrap();
    }
    assert!(journal.stats().kept_segments > 2, "{:?}", journal.stats());
    append(&journal, 560..561);
    block_on(journal.close()).unwrap();
    let (outcome, text) = machine.run(|directory| Command::Verify { directory });
    assert_eq!(outcome, Outcome::Sound, "{text}");
    assert!(!text.contains("note") && !text.contains("damage:"), "{text}");
    let (outcome, text) = machine.run(|directory| Command::Inspect { directory });
    assert_eq!(outcome, Outcome::Sound, "{text}");
    assert!(
        text.contains("entries 560 to 561") && text.contains("kept for re-use: "),
        "{text}"
    );
}

#[test]
fn a_segment_that_the_broker_uses_again_meanwhile_is_noted_and_no_damage() {
    let machine = Machine::written();
    let path = machine.segment();
    let segments = Arc::new(Segments::new(Arc::new(real::OsDisk), machine.path().join("journal")).unwrap());
    let (mut frames, mut notes) = (0, Vec::new());
    walk::walk(&segments, UUID, None, &mut |event| {
        match event {
            walk::Event::Frame { frame, .. } => {
                frames += 1;
                if frame.header.sequence == 5 {
                    let mut bytes = fs::read(&path).unwrap();
                    let mut header = SegmentHeader::decode(&bytes[..4096]).unwrap();
                    header.sequence += 7;
                    bytes[..4096].copy_from_slice(&header.encode());
                    bytes[4096..].fill(0x55);
                    fs::write(&path, bytes).unwrap();
                }
            }
            walk::Event::Damage { place, what } => panic!("{place}: {what}"),
            walk::Event::Note { what, .. } => notes.push(what),
            walk::Event::Segment { .. } => {}
        }
        Ok(())
    })
    .unwrap();
    assert!(frames >= 5);
    assert!(
        notes.iter().any(|note| note.contains("uses its file again")),
        "{notes:?}"
    );
}
