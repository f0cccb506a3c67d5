//! The process that is killed: opens the directory, reports what it finds, works until it is killed or told to close.
//!
//! Promises: what is asked for is in the pipe before the call, what was answered after the answer; a line is written by one call
//! and nothing is buffered, so a kill loses no line that counts. When the parent is gone, so is the child.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use nereus_core::engine::{Config, Engine};
use nereus_core::env::real;
use nereus_core::Result;
use parking_lot::Mutex;

use crate::broker::FileBroker;
use crate::content::MAX_ENTRY;
use crate::event::Event;
use crate::model::TOPICS;
use crate::random::Random;
use crate::report::report;
use crate::work::Worker;

/// What the parent writes to have the child close in order.
pub const CLOSE: &str = "close\n";
/// Bytes of a segment: small, so that rolling, checkpoints and removal happen all the time.
const SEGMENT: u64 = 3 << 20;
/// Bytes between checkpoints.
const CHECKPOINT: u64 = 2 << 20;
/// Entries of one round get ids from its number on.
const IDS_PER_ROUND: u64 = 1 << 32;

/// What a child is started with.
#[derive(Debug, Clone)]
pub struct Orders {
    /// Where journal, metadata and the broker's store are.
    pub directory: PathBuf,
    /// Decides what it does.
    pub seed: u64,
    /// Number of the round, from 1: entries of different rounds differ.
    pub round: u64,
    /// Only open, report and close.
    pub check_only: bool,
}

/// The writing end of the pipe. Cheap to clone.
#[derive(Clone)]
pub struct Pipe(Arc<Mutex<File>>);

impl Pipe {
    /// The pipe on standard output.
    pub fn standard_output() -> io::Result<Pipe> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Pipe(Arc::new(Mutex::new(file))))
    }

    /// Writes one event. Without a reader there is nothing left to do: the process ends as if it were killed.
    pub fn send(&self, event: &Event) {
        let line = format!("{event}\n");
        if self.0.lock().write_all(line.as_bytes()).is_err() {
            std::process::abort();
        }
    }

    /// Reports what must not be.
    pub fn wrong(&self, what: impl Into<String>) {
        self.send(&Event::Wrong(what.into()));
    }
}

/// The engine's settings under test.
pub fn config(directory: &Path) -> Config {
    Config {
        data_directory: directory.join("data"),
        cluster_name: "crash".into(),
        owner: format!("nereus-crash {}", std::process::id()),
        memory_limit: 40 << 20,
        publish_buffer: 8 << 20,
        segment_bytes: SEGMENT,
        max_entry: MAX_ENTRY,
        accept_older_copy: false,
    }
}

/// Runs a child to its end.
pub fn run(orders: &Orders) -> ExitCode {
    let Ok(pipe) = Pipe::standard_output() else {
        return ExitCode::from(3);
    };
    match live(orders, &pipe) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            pipe.wrong(format!("{error}"));
            ExitCode::from(1)
        }
    }
}

fn live(orders: &Orders, pipe: &Pipe) -> Result<()> {
    let failed = |what: &'static str| move |e| nereus_core::Error::io(what, "this process", e);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .map_err(failed("start the runtime of"))?;
    let env = real::env(runtime.handle().clone()).map_err(failed("find randomness for"))?;
    let broker = FileBroker::open(&orders.directory.join("broker")).map_err(failed("open the broker's store of"))?;
    let opening = Engine::open_tuned(env, config(&orders.directory), Arc::new(broker), |options| {
        options.checkpoint_bytes = CHECKPOINT;
        options.checkpoint_dirty = 500;
        // A full disk is another test's subject.
        options.reserve_bytes = 0;
    });
    let engine = runtime.block_on(opening)?;
    pipe.send(&Event::Opened);
    let mut found = Vec::new();
    for topic in 0..TOPICS {
        found.push(runtime.block_on(report(&engine, topic, pipe))?);
    }
    pipe.send(&Event::Ready);
    if !orders.check_only {
        let ids = Arc::new(AtomicU64::new(orders.round.saturating_mul(IDS_PER_ROUND)));
        let mut random = Random::new(orders.seed);
        let workers: Vec<_> = found
            .into_iter()
            .enumerate()
            .map(|(topic, life)| {
                let random = Random::new(random.number());
                let worker = Worker::new(engine.clone(), pipe.clone(), topic, random, ids.clone(), life);
                runtime.spawn(worker.run())
            })
            .collect();
        wait_for_orders();
        workers.iter().for_each(tokio::task::JoinHandle::abort);
        for worker in workers {
            // Aborted in the middle of an operation, which goes on by itself; or ended by a panic, which is a defect.
            if runtime.block_on(worker).is_err_and(|ended| ended.is_panic()) {
                pipe.wrong("a worker panicked");
            }
        }
    }
    let closed = runtime.block_on(engine.close());
    pipe.send(&Event::Closed);
    closed
}

/// Returns when the parent wants an orderly end; when the parent is gone, everything ends here.
fn wait_for_orders() {
    let mut orders = vec![0; CLOSE.len()];
    if io::stdin().read_exact(&mut orders).is_err() {
        std::process::abort();
    }
}
