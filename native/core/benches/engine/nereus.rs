//! The engine with its usual settings, on real files and RocksDB.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use nereus_core::commit::AppendOutcome;
use nereus_core::engine::{Config, Engine, OpenLedger};
use nereus_core::env::real;
use nereus_core::metadata::broker_memory::MemoryBroker;
use nereus_core::stream::Stream;
use nereus_core::types::Offset;
use tokio::runtime::Runtime;

use crate::load::{run, Load, Log};

/// As many as the largest load takes.
const STREAMS: usize = 64;
/// Entries that stay when a stream is trimmed.
const KEPT: u64 = 100;
const SEGMENT: u64 = 128 << 20;

pub struct Nereus {
    runtime: Runtime,
    engine: Engine,
    streams: Vec<Stream>,
}

impl Nereus {
    pub fn open(directory: &Path) -> Nereus {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .expect("a runtime");
        let env = real::env(runtime.handle().clone()).expect("randomness");
        let config = Config {
            data_directory: directory.to_owned(),
            cluster_name: "bench".into(),
            owner: "bench".into(),
            memory_limit: 256 << 20,
            publish_buffer: 64 << 20,
            segment_bytes: SEGMENT,
            max_entry: 5 << 20,
            accept_older_copy: false,
        };
        let engine = runtime
            .block_on(Engine::open(env, config, Arc::new(MemoryBroker::new())))
            .expect("an engine");
        let streams = (0..STREAMS)
            .map(|number| {
                let request = OpenLedger {
                    name: format!("public/default/persistent/bench-{number}"),
                    create_if_missing: true,
                    ..OpenLedger::default()
                };
                runtime.block_on(engine.open_ledger(request)).expect("a ledger").stream
            })
            .collect();
        Nereus {
            runtime,
            engine,
            streams,
        }
    }

    /// Appends and trims until segments that were used before are used again, caches are full and checkpoints were made.
    pub fn warm_up(&self) {
        let large = Load::new(64, 64 << 10);
        for _ in 0..16 {
            run(self, &large, 1024);
        }
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn close(self) {
        self.runtime.block_on(self.engine.close()).expect("an orderly close");
    }
}

impl Log for Nereus {
    fn append(&self, stream: usize, entry: Bytes, reply: impl FnOnce() + Send + 'static) {
        let answered = |outcome| match outcome {
            AppendOutcome::Committed { .. } => reply(),
            other => panic!("an append ended as {other:?}"),
        };
        self.streams[stream]
            .append(entry, 1, answered)
            .expect("an append is taken");
    }

    fn syncs(&self) -> u64 {
        self.engine.journal_stats().syncs
    }

    fn tidy(&self) {
        for stream in &self.streams {
            let end = stream.state().end.get();
            let before = Offset::new(end.saturating_sub(KEPT));
            self.runtime.block_on(stream.trim(before)).expect("a trim");
        }
    }
}
