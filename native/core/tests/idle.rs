//! What an open stream with a cursor costs while nothing happens on it. Not part of the usual run, because it opens 100,000 of them:
//!
//! `cargo test --release -p nereus-core --test idle -- --ignored --nocapture`, `NEREUS_STREAMS=<count>` for another number,
//! `NEREUS_CURSORS=<count>` for other than one cursor each, `NEREUS_APPENDS=<count>` for streams with a history: each of the newest 32 commits of a stream takes another 96 bytes in its head,
//! so that a stream that was busy takes up to 3 KiB more.
//!
//! A process of its own, so that its resident memory is that of the streams; the first half of them is opened before the first
//! look, so that what the engine itself needs, and its caches up to their bounds, do not count.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of a test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::oneshot;
use futures::stream::{self, StreamExt};
use nereus_core::commit::AppendOutcome;
use nereus_core::cursor::CursorUpdate;
use nereus_core::engine::{Config, Engine, OpenLedger};
use nereus_core::env::{real, Env};
use nereus_core::metadata::broker_memory::MemoryBroker;
use nereus_core::metadata::pulsar::BrokerStore;
use nereus_core::metadata::{Expected, Verdict};
use nereus_core::stream::Stream;
use nereus_core::types::Offset;

/// Most bytes of an idle open stream without cursors.
const MOST: u64 = 2048;
/// Most bytes that each cursor adds.
const MOST_OF_CURSOR: u64 = 1024;
/// Cursors of each stream.
const CURSORS: u64 = 1;
/// Opens under way at the same time: they share syncs.
const AT_ONCE: usize = 256;

/// Resident bytes, threads and open files of this process.
#[derive(Debug, Clone, Copy)]
struct Process {
    bytes: u64,
    threads: usize,
    files: usize,
}

fn process() -> Process {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    Process {
        bytes: kilobytes * 1024,
        threads: std::fs::read_dir("/proc/self/task").unwrap().count(),
        files: std::fs::read_dir("/proc/self/fd").unwrap().count(),
    }
}

async fn open(engine: &Engine, n: u64) -> Stream {
    let request = OpenLedger {
        name: format!("public/default/persistent/a-topic-with-a-usual-name-{n:08}"),
        create_if_missing: true,
        ..OpenLedger::default()
    };
    engine.open_ledger(request).await.unwrap().stream
}

async fn fill(stream: &Stream, cursors: u64, appends: u64) {
    for n in 0..cursors {
        stream.persist_cursor(new_cursor(n)).await.unwrap();
    }
    for _ in 0..appends {
        let (reply, outcome) = oneshot::channel();
        stream
            .append(Bytes::from_static(&[1; 100]), 1, move |outcome| {
                drop(reply.send(outcome))
            })
            .unwrap();
        assert!(matches!(outcome.await, Ok(AppendOutcome::Committed { .. })));
    }
}

fn new_cursor(n: u64) -> CursorUpdate {
    CursorUpdate {
        name: format!("subscription-{n}"),
        create: true,
        full: true,
        mark_delete_end: Offset::ZERO,
        position_properties: None,
        cursor_properties: None,
        pages: Vec::new(),
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

async fn engine(directory: &Path, env: &Env, broker: &MemoryBroker) -> Engine {
    let config = Config {
        data_directory: directory.to_path_buf(),
        cluster_name: "cluster".into(),
        owner: "broker-1".into(),
        memory_limit: 64 << 20,
        publish_buffer: 16 << 20,
        segment_bytes: 128 << 20,
        max_entry: 1 << 20,
        accept_older_copy: false,
    };
    Engine::open(env.clone(), config, Arc::new(broker.clone()))
        .await
        .unwrap()
}

async fn open_all(engine: &Engine, from: u64, to: u64) -> Vec<Stream> {
    let opened = stream::iter(from..to).map(|n| open(engine, n));
    opened.buffered(AT_ONCE).collect().await
}

/// Every path below `path` with its value, for another process.
async fn dump(broker: &MemoryBroker) -> Vec<(String, Bytes)> {
    let mut found = Vec::new();
    let mut waiting = vec![String::new()];
    while let Some(path) = waiting.pop() {
        match broker.peek(&path) {
            // A listing looks at everything: nothing hangs below what has a value.
            Some(value) => found.push((path, value)),
            None => waiting.extend(
                broker
                    .children(&path)
                    .await
                    .unwrap()
                    .iter()
                    .map(|name| format!("{path}/{name}")),
            ),
        }
    }
    found
}

/// Makes the streams; in a process of its own, so that what it leaves in the heap hides nothing.
async fn prepare(directory: &Path, env: &Env, count: u64) {
    let broker = MemoryBroker::new();
    let engine = engine(directory, env, &broker).await;
    let (cursors, appends) = (number("NEREUS_CURSORS", CURSORS), number("NEREUS_APPENDS", 0));
    let made = open_all(&engine, 0, count).await;
    stream::iter(&made)
        .for_each_concurrent(AT_ONCE, |stream| fill(stream, cursors, appends))
        .await;
    drop(made);
    engine.close().await.unwrap();
    let mut out = String::new();
    for (path, value) in dump(&broker).await {
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        out.push_str(&format!("{path} {hex}\n"));
    }
    std::fs::write(directory.join("broker"), out).unwrap();
}

async fn prepared(directory: &Path) -> MemoryBroker {
    let broker = MemoryBroker::new();
    for line in std::fs::read_to_string(directory.join("broker")).unwrap().lines() {
        let (path, hex) = line.rsplit_once(' ').unwrap();
        let value: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        let put = broker.put(path, value.into(), Expected::Absent).await;
        assert!(matches!(put, Verdict::Applied(_)));
    }
    broker
}

#[test]
#[ignore = "opens 100,000 streams: run it by name"]
fn idle_streams_take_little_memory_and_no_task_thread_or_file_each() {
    let count = number("NEREUS_STREAMS", 100_000);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(8)
        .enable_time()
        .build()
        .unwrap();
    let env = real::env(runtime.handle().clone()).unwrap();
    if let Some(directory) = std::env::var_os("NEREUS_PREPARE") {
        return runtime.block_on(prepare(Path::new(&directory), &env, count));
    }
    let directory = tempfile::tempdir().unwrap();
    let done = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--nocapture"])
        .env("NEREUS_PREPARE", directory.path())
        .status();
    assert!(done.unwrap().success());
    runtime.block_on(async {
        let broker = prepared(directory.path()).await;
        let engine = engine(directory.path(), &env, &broker).await;
        let warm = count / 2;
        let look = || (process(), runtime.metrics().num_alive_tasks());
        let mut held = open_all(&engine, 0, warm).await;
        let before = look();
        held.extend(open_all(&engine, warm, count).await);
        env.clock.sleep(Duration::from_secs(3)).await;
        let after = look();
        let each = after.0.bytes.saturating_sub(before.0.bytes) / (count - warm);
        println!("{count} idle streams: {each} bytes each; {before:?} before, {after:?} after");
        let most = MOST + number("NEREUS_CURSORS", CURSORS) * MOST_OF_CURSOR;
        assert!(each <= most, "{each} bytes each, of {most}");
        assert!(after.1 <= before.1 + 2, "an idle stream has no task");
        assert!(after.0.files <= before.0.files + 64, "an idle stream has no file");
        assert!(after.0.threads <= before.0.threads + 8, "an idle stream has no thread");
        engine.close().await.unwrap();
        drop(held);
    });
}
