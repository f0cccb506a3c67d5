//! How long a start takes after a kill: a child writes a journal and is killed, the directory is opened again.
//!
//! `cargo bench -p nereus-crash --bench recovery [-- --small]`: 10 GiB with 10,000 streams, or 512 MiB with 1,000. NEREUS_BENCH_DIR
//! names the disk; what was written is removed afterwards. What a start reads is bounded by the checkpoint interval, however much
//! was written before; the table says how much that was.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a measurement runs on the real clock, and one that cannot go on ends at once and says why"
)]

#[path = "../../core/benches/place.rs"]
mod place;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use nereus_core::commit::AppendOutcome;
use nereus_core::engine::{Config, Engine, OpenLedger};
use nereus_core::env::real;
use nereus_core::stream::{ReadRequest, Stream};
use nereus_core::types::{Offset, ReadView};
use nereus_crash::broker::FileBroker;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// Starts the process that writes and is killed.
const WRITER: &str = "--write-until-killed";
const ENTRY_BYTES: usize = 4096;
const OUTSTANDING: usize = 512;
/// Streams that are opened at the same time.
const OPENING: usize = 64;
/// Bytes between two lines about the progress.
const PROGRESS: u64 = 1 << 30;

#[derive(Clone, Copy)]
struct Size {
    bytes: u64,
    streams: usize,
}

impl Size {
    fn of(arguments: &[String]) -> Size {
        if arguments.iter().any(|argument| argument == "--small") {
            Size {
                bytes: 512 << 20,
                streams: 1000,
            }
        } else {
            Size {
                bytes: 10 << 30,
                streams: 10_000,
            }
        }
    }

    fn entries(self) -> u64 {
        self.bytes / ENTRY_BYTES as u64
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let size = Size::of(&arguments);
    match arguments.iter().position(|argument| argument == WRITER) {
        Some(at) => write(Path::new(&arguments[at + 1]), size),
        None => measure(size, &arguments),
    }
}

fn measure(size: Size, arguments: &[String]) {
    let scratch = place::scratch().expect("a directory to measure in");
    let (streams, mib) = (size.streams, size.bytes >> 20);
    println!("recovery: a child writes {mib} MiB to {streams} streams and is killed ...");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .arg(WRITER)
        .arg(scratch.path())
        .args(arguments.iter().filter(|argument| *argument == "--small"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let mut written = String::new();
    for line in output.lines() {
        let line = line.expect("a line of the child");
        if let Some(figures) = line.strip_prefix("written ") {
            written = figures.to_owned();
            child.kill().expect("a kill");
        } else {
            println!("{line}");
        }
    }
    child.wait().expect("the end of the child");
    assert!(!written.is_empty(), "the child ended before it had written everything");

    let runtime = runtime();
    let began = Instant::now();
    let engine = open(&runtime, scratch.path());
    let opened = began.elapsed();
    let first = open_all(&runtime, &engine, 1).remove(0);
    let (send, receive) = std::sync::mpsc::channel();
    let answered = move |outcome| {
        let _ = send.send(matches!(outcome, AppendOutcome::Committed { .. }));
    };
    first.append(entry(), 1, answered).expect("an append is taken");
    assert!(receive.recv().expect("an answer"), "the first append was not committed");
    let appended = began.elapsed();
    let stats = engine.journal_stats();
    let wanted = size.entries() / streams as u64;
    let started = Instant::now();
    let opened_streams = open_all(&runtime, &engine, streams);
    let all = started.elapsed();
    for (number, stream) in opened_streams.iter().enumerate() {
        let end = stream.state().end.get();
        assert!(
            end >= wanted,
            "stream {number} ends at {end}, {wanted} were acknowledged"
        );
        if number % 997 == 0 {
            check(&runtime, stream, wanted);
        }
    }
    println!("recovery: {written}");
    println!(
        "recovery: open {} ms (journal {} ms: {} frames, {} MiB replayed), first append answered after {} ms, all {} streams open \
         after another {} ms",
        opened.as_millis(),
        stats.recovery_millis,
        stats.replayed_frames,
        // What was appended since the open is next to nothing.
        stats.replay_bytes >> 20,
        appended.as_millis(),
        streams,
        all.as_millis(),
    );
    runtime.block_on(engine.close()).expect("an orderly close");
}

/// Opens the first `count` streams, so many of them at a time, or creates them.
fn open_all(runtime: &Runtime, engine: &Engine, count: usize) -> Vec<Stream> {
    let opening = futures::stream::iter(0..count).map(|number| engine.open_ledger(request(number)));
    let opened: Vec<_> = runtime.block_on(opening.buffered(OPENING).collect());
    opened
        .into_iter()
        .map(|ledger| ledger.expect("a ledger").stream)
        .collect()
}

/// Reads the first and the last entry of what was acknowledged.
fn check(runtime: &Runtime, stream: &Stream, entries: u64) {
    for start in [0, entries - 1] {
        let request = ReadRequest {
            view: ReadView::Committed,
            start: Offset::new(start),
            max_entries: 1,
            max_bytes: 1 << 20,
            up_to: Offset::MAX,
        };
        let batch = runtime.block_on(stream.read(request)).expect("a read");
        assert_eq!(batch.entries[0].entry, entry(), "entry {start} of {}", stream.name());
    }
}

/// The child: writes everything, says so, goes on until it is killed.
fn write(directory: &Path, size: Size) {
    let runtime = runtime();
    let engine = open(&runtime, directory);
    let began = Instant::now();
    let streams = open_all(&runtime, &engine, size.streams);
    println!(
        "created {} streams in {} ms",
        streams.len(),
        began.elapsed().as_millis()
    );
    let began = Instant::now();
    let free = Arc::new(Semaphore::new(OUTSTANDING));
    let mut reported = 0;
    for number in 0..size.entries() {
        append(&runtime, &streams[number as usize % streams.len()], &free);
        let bytes = number * ENTRY_BYTES as u64;
        if bytes >= reported + PROGRESS {
            reported = bytes;
            println!("{} MiB after {} s", bytes >> 20, began.elapsed().as_secs());
        }
    }
    drop(
        runtime
            .block_on(free.acquire_many(OUTSTANDING as u32))
            .expect("all answered"),
    );
    let stats = engine.journal_stats();
    println!(
        "written {} MiB of entries in {:.1} s, {} MiB of frames, {} frames, {} checkpoints",
        size.bytes >> 20,
        began.elapsed().as_secs_f64(),
        stats.bytes >> 20,
        stats.frames,
        stats.checkpoints
    );
    std::io::stdout().flush().expect("a parent that listens");
    // The kill comes in the middle of work, within this time.
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        append(&runtime, &streams[0], &free);
    }
}

fn append(runtime: &Runtime, stream: &Stream, free: &Arc<Semaphore>) {
    let permit = runtime
        .block_on(free.clone().acquire_owned())
        .expect("a semaphore that is never closed");
    let answered = move |outcome| match outcome {
        AppendOutcome::Committed { .. } => drop(permit),
        other => panic!("an append ended as {other:?}"),
    };
    stream.append(entry(), 1, answered).expect("an append is taken");
}

fn entry() -> Bytes {
    static ENTRY: [u8; ENTRY_BYTES] = [0x5a; ENTRY_BYTES];
    Bytes::from_static(&ENTRY)
}

fn request(number: usize) -> OpenLedger {
    OpenLedger {
        name: format!("public/default/persistent/recovery-{number}"),
        create_if_missing: true,
        ..OpenLedger::default()
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime")
}

fn open(runtime: &Runtime, directory: &Path) -> Engine {
    let env = real::env(runtime.handle().clone()).expect("randomness");
    let config = Config {
        data_directory: PathBuf::from(directory).join("engine"),
        cluster_name: "bench".into(),
        owner: "bench".into(),
        memory_limit: 256 << 20,
        publish_buffer: 64 << 20,
        segment_bytes: 128 << 20,
        max_entry: 5 << 20,
        accept_older_copy: false,
    };
    let broker = FileBroker::open(&directory.join("broker")).expect("a broker's store");
    let opening = Engine::open(env, config, Arc::new(broker));
    runtime.block_on(opening).expect("an engine")
}
