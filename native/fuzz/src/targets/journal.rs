//! A whole journal, damaged between two runs: recovery, the state after it, and every read. Input: edits of eight bytes each: file,
//! operation, position (4), argument (2).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::channel::oneshot;
use nereus_core::commit::{Append, AppendOutcome, AppendReply, HeadChange, Log};
use nereus_core::env::sim::{self, Executor, SimDisk};
use nereus_core::journal::frame::BLOCK;
use nereus_core::journal::{Journal, ModelBackend, Options, StateBackend};
use nereus_core::metadata::{Expected, Write};
use nereus_core::record::key::STREAM_KINDS;
use nereus_core::record::{Key, Record, StreamProperties};
use nereus_core::types::{Incarnation, Offset, OwnerEpoch, StreamId};

use super::{demand, frame, nothing, Target};
use crate::mutate;
use crate::random::Random;

pub const TARGET: Target = Target {
    name: "journal",
    weight: 50,
    valid: |_| Vec::new(),
    twist,
    mend: nothing,
    check,
    factor: 4096,
    constant: 512 << 20,
};

const SEGMENT: u64 = 4 << 20;
const STREAMS: u64 = 3;
const ENTRIES: u64 = 25;
/// Edits that are looked at.
const EDITS: usize = 12;
/// Bytes at the front of a segment that hold all frames of the image.
const USED: usize = 96 * BLOCK;

const FLIP: u8 = 0;
const NUMBER: u8 = 1;
const CUT: u8 = 2;
const COPY: u8 = 3;
const CLEAR: u8 = 4;
const STORED: u8 = 5;
/// Makes the checksums of the frame at a block right again: what follows is no longer damage, but nonsense that verifies.
const MEND: u8 = 6;
const OPERATIONS: u8 = 7;

/// A machine after a kill, with what its journal was told.
struct Image {
    disk: SimDisk,
    backend: ModelBackend,
}

fn stream(n: u64) -> StreamId {
    StreamId::new(0x5000 + u128::from(n))
}

fn entry(stream: u64, offset: u64) -> Bytes {
    format!("{stream}/{offset};")
        .repeat(1 + (offset as usize * 7) % 30)
        .into()
}

fn options() -> Options {
    let mut options = Options::new(PathBuf::from("/data"), 0xd1, SEGMENT, 64 << 10);
    options.reserve_bytes = 0;
    options.group_bytes = 256 << 10;
    options
}

/// Made once: three streams, half of them behind a checkpoint, records of their own, a trim, a termination.
#[allow(clippy::expect_used, reason = "a world without faults, the same every time")]
fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let (disk, backend) = (SimDisk::new(1 << 40), ModelBackend::default());
        let mut executor = Executor::new(1);
        let env = sim::env(&executor, Arc::new(disk.clone()), 7);
        let opening = Journal::open_on(env, options(), Arc::new(backend.clone()));
        let journal = executor.run(opening).expect("an empty directory opens");
        for n in 0..STREAMS {
            let create = HeadChange::Create {
                stream: stream(n),
                incarnation: Incarnation::new(1),
                created_millis: 5,
            };
            executor.run(journal.change(stream(n), create)).expect("a new stream");
            let claim = HeadChange::Claim { owner: "fuzz".into() };
            executor
                .run(journal.change(stream(n), claim))
                .expect("a stream that is there");
        }
        for offset in 0..ENTRIES {
            for n in 0..STREAMS {
                append(&mut executor, &journal, n, offset);
            }
            if offset == ENTRIES / 2 {
                executor.run(journal.checkpoint()).expect("a disk without faults");
                write(&mut executor, &journal);
            }
        }
        let epoch = OwnerEpoch::new(1);
        let trim = HeadChange::Trim {
            epoch,
            before: Offset::new(3),
            trimmed_bytes: 20,
        };
        executor.run(journal.change(stream(0), trim)).expect("the owner trims");
        executor
            .run(journal.change(stream(1), HeadChange::Terminate { epoch }))
            .expect("the owner terminates");
        executor.kill();
        Image {
            disk: disk.after_kill(),
            backend: backend.after_crash(usize::MAX),
        }
    })
}

#[allow(clippy::expect_used, reason = "a world without faults, the same every time")]
fn append(executor: &mut Executor, journal: &Journal, n: u64, offset: u64) {
    let (reply, answer) = oneshot::channel();
    let entry = entry(n, offset);
    journal.append(Append {
        stream: stream(n),
        epoch: OwnerEpoch::new(1),
        offset: Offset::new(offset),
        crc32c: crc32c::crc32c(&entry),
        entry,
        messages: 1,
        reply: AppendReply::new(move |outcome| drop(reply.send(outcome))),
    });
    let outcome = executor.run(answer).expect("an append is answered");
    assert!(matches!(outcome, AppendOutcome::Committed { .. }), "{outcome:?}");
}

#[allow(clippy::expect_used, reason = "a world without faults, the same every time")]
fn write(executor: &mut Executor, journal: &Journal) {
    let record = StreamProperties {
        stream: stream(2),
        version: 1,
        properties: [("k".to_owned(), "v".to_owned())].into(),
        ledger: String::new(),
    };
    let write = Write {
        key: record.key().expect("a stream has a key"),
        expected: Expected::Absent,
        value: Some(record.encode().expect("a record within its bounds")),
    };
    drop(executor.run(journal.store().write(vec![write])));
}

fn twist(input: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let position = random.below(USED as u64) as u32;
        let operation = random.below(u64::from(OPERATIONS)) as u8;
        let block = position - position % BLOCK as u32;
        // Mostly where header and table are.
        let at = if random.chance(60) {
            block + random.below(220) as u32
        } else {
            position
        };
        let argument = (random.edge() as u16).to_be_bytes();
        input.push(random.below(2) as u8);
        input.push(operation);
        input.extend(at.to_be_bytes());
        input.extend(argument);
        if operation == NUMBER && random.chance(70) {
            input.push(0);
            input.push(MEND);
            input.extend(block.to_be_bytes());
            input.extend([0, 0]);
        }
    }
}

/// Applies the edits; whether any of them made nonsense verify.
fn edit(input: &[u8], disk: &SimDisk, backend: &ModelBackend) -> bool {
    let segments: Vec<PathBuf> = disk.paths().into_iter().filter(|path| is_segment(path)).collect();
    let mut mended = false;
    for edit in input.chunks_exact(8).take(EDITS) {
        let at = u32::from_be_bytes([edit[2], edit[3], edit[4], edit[5]]) as usize;
        let argument = usize::from(u16::from_be_bytes([edit[6], edit[7]]));
        let Some(path) = segments.get(usize::from(edit[0]) % segments.len().max(1)) else {
            continue;
        };
        match edit[1] % OPERATIONS {
            STORED => {
                mended = true;
                store(backend, at, argument);
            }
            MEND => {
                mended = true;
                disk.tamper(path, |file| mend(file, at));
            }
            operation => disk.tamper(path, |file| change(file, operation, at, argument)),
        }
    }
    mended
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "seg")
}

fn change(file: &mut Vec<u8>, operation: u8, at: usize, argument: usize) {
    let block = at - at % BLOCK;
    match operation {
        FLIP => {
            if let Some(byte) = file.get_mut(at) {
                *byte ^= 1 << (argument % 8);
            }
        }
        NUMBER => {
            if let Some(place) = file.get_mut(at..at + 2) {
                place.copy_from_slice(&(argument as u16).to_be_bytes());
            }
        }
        CUT => file.truncate(at),
        COPY => {
            let from = argument % (USED / BLOCK) * BLOCK;
            if let Some(copy) = file.get(from..from + BLOCK).map(<[u8]>::to_vec) {
                if let Some(place) = file.get_mut(block..block + BLOCK) {
                    place.copy_from_slice(&copy);
                }
            }
        }
        CLEAR => {
            if let Some(place) = file.get_mut(block..block + BLOCK) {
                place.fill(0);
            }
        }
        _ => {}
    }
}

fn mend(file: &mut Vec<u8>, at: usize) {
    let block = (at - at % BLOCK).min(file.len());
    let mut rest = file.split_off(block);
    frame::mend(&mut rest);
    file.append(&mut rest);
}

/// Damages one value of the checkpoint.
fn store(backend: &ModelBackend, at: usize, argument: usize) {
    let contents = backend.contents();
    let Some((key, value)) = contents.iter().nth(at % contents.len().max(1)) else {
        return;
    };
    let mut value = value.to_vec();
    mutate::bytes(&mut value, &mut Random::new(argument as u64));
    // The model backend fails only when it is told to.
    let _ = backend.write(vec![(key.clone(), Some(value.into()))]);
    let _ = backend.flush();
}

fn check(input: &[u8]) -> Result<bool, String> {
    let image = image();
    let (disk, backend) = (image.disk.after_kill(), image.backend.after_crash(usize::MAX));
    let nonsense = edit(input, &disk, &backend);
    let mut executor = Executor::new(2);
    let env = sim::env(&executor, Arc::new(disk), 8);
    let opening = Journal::open_on(env, options(), Arc::new(backend));
    let Ok(journal) = executor.run(opening) else {
        return Ok(false);
    };
    let mut whole = true;
    for n in 0..STREAMS {
        whole &= read(&mut executor, &journal, n, nonsense)?;
        for kind in STREAM_KINDS {
            let (from, to) = Key::stream_range(*kind, stream(n));
            whole &= executor.run(journal.store().scan(from, to, 1000)).is_ok();
        }
    }
    drop(journal.damages());
    // Closing may fail for what was found; it must end.
    let _ = executor.run(journal.close());
    Ok(whole)
}

/// Reads what the head names; true when everything that was acknowledged is there. Damage alone never gives other bytes.
fn read(executor: &mut Executor, journal: &Journal, n: u64, nonsense: bool) -> Result<bool, String> {
    let head = match executor.run(journal.load(stream(n))) {
        Ok(Some(cell)) => cell.with(|head| head.cloned()),
        Ok(None) | Err(_) => return Ok(false),
    };
    let Some(head) = head else { return Ok(false) };
    let mut found = BTreeMap::new();
    for commit in &head.ring {
        if let Ok(slice) = executor.run(journal.read(stream(n), *commit)) {
            for (entry, offset) in slice.entries.iter().zip(commit.start.get()..) {
                found.insert(offset, entry.entry.clone());
            }
        }
    }
    if !nonsense {
        for (offset, bytes) in &found {
            demand(*bytes == entry(n, *offset), || {
                format!("stream {n}: offset {offset} holds other bytes (L12)")
            })?;
        }
    }
    Ok(head.end == Offset::new(ENTRIES) && found.len() as u64 == ENTRIES)
}
