//! Large cursors on a whole engine: what a persist writes to the journal, and how long an open takes. Figures are printed
//! (`cargo test --release -p nereus-core --test cursor_scale -- --nocapture`); the bound on the open holds in the release profile.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nereus_core::cursor::{AckPage, CursorState, CursorUpdate};
use nereus_core::engine::{Config, Engine, OpenLedger, OpenedLedger};
use nereus_core::env::{real, Env};
use nereus_core::metadata::broker_memory::MemoryBroker;
use nereus_core::types::Offset;

use roaring::RoaringBitmap;
use tokio::runtime::Runtime;

/// Offsets among which the cursor acknowledges; the entries themselves are not needed for that.
const ENTRIES: u64 = 2_000_000;
/// An open with a million holes and a hundred thousand partly acknowledged batches takes less.
const LONGEST_OPEN: Duration = Duration::from_secs(2);

struct World {
    rt: Runtime,
    env: Env,
    directory: tempfile::TempDir,
    broker: MemoryBroker,
}

impl World {
    fn new() -> World {
        let rt = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .unwrap();
        let env = real::env(rt.handle().clone()).unwrap();
        World {
            rt,
            env,
            directory: tempfile::tempdir().unwrap(),
            broker: MemoryBroker::new(),
        }
    }

    fn engine(&self) -> Engine {
        let config = Config {
            data_directory: self.directory.path().to_path_buf(),
            cluster_name: "cluster".into(),
            owner: "broker-1".into(),
            memory_limit: 256 << 20,
            publish_buffer: 64 << 20,
            segment_bytes: 64 << 20,
            max_entry: 1 << 20,
            accept_older_copy: false,
        };
        self.rt
            .block_on(Engine::open(self.env.clone(), config, Arc::new(self.broker.clone())))
            .unwrap()
    }

    fn open(&self, engine: &Engine) -> OpenedLedger {
        let request = OpenLedger {
            name: "public/default/persistent/large".into(),
            create_if_missing: true,
            ..OpenLedger::default()
        };
        self.rt.block_on(engine.open_ledger(request)).unwrap()
    }

    fn persist(&self, ledger: &OpenedLedger, update: CursorUpdate) -> Duration {
        let start = self.env.clock.monotonic();
        self.rt.block_on(ledger.stream.persist_cursor(update)).unwrap();
        self.env.clock.monotonic().saturating_sub(start)
    }
}

fn update(create: bool, pages: Vec<AckPage>) -> CursorUpdate {
    CursorUpdate {
        name: "sub".into(),
        create,
        full: false,
        mark_delete_end: Offset::ZERO,
        position_properties: None,
        cursor_properties: None,
        pages,
    }
}

fn portable(bitmap: &RoaringBitmap) -> bytes::Bytes {
    let mut out = Vec::new();
    bitmap.serialize_into(&mut out).unwrap();
    out.into()
}

/// Every second entry is acknowledged; in two pages, most of the others in part.
fn pages() -> Vec<AckPage> {
    let every_second: RoaringBitmap = (1..1u32 << 16).step_by(2).collect();
    let acked = portable(&every_second);
    (0..=ENTRIES >> 16)
        .map(|page_no| AckPage {
            page_no,
            acked: acked.clone(),
            batches: match page_no {
                3..=6 => (0..25_000u16).map(|n| (n * 2, vec![!1, i64::from(n)])).collect(),
                _ => BTreeMap::new(),
            },
        })
        .collect()
}

fn bytes_below(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

fn same_acks(a: &CursorState, b: &[AckPage]) -> bool {
    let bits = |page: &AckPage| RoaringBitmap::deserialize_from(&page.acked[..]).unwrap();
    a.pages.len() == b.len()
        && a.pages
            .iter()
            .zip(b)
            .all(|(a, b)| a.page_no == b.page_no && bits(a) == bits(b) && a.batches == b.batches)
}

#[test]
fn l15_a_million_holes_and_a_hundred_thousand_batches_load_in_time() {
    let world = World::new();
    let engine = world.engine();
    let ledger = world.open(&engine);
    let mut now = pages();
    let whole = world.persist(&ledger, update(true, now.clone()));
    let mut each = Vec::new();
    for n in 0..20u16 {
        let page = usize::from(3 + n % 4);
        now[page].batches.insert(n * 2000, vec![!3, 5]);
        each.push(world.persist(&ledger, update(false, vec![now[page].clone()])));
    }
    println!(
        "persisting everything took {whole:?}, one changed batch {:?}",
        each.iter().max()
    );
    drop(ledger);
    world.rt.block_on(engine.close()).unwrap();
    drop(engine); // with it goes the lock of its metadata
    println!("{} bytes on disk", bytes_below(world.directory.path()));

    let engine = world.engine();
    let start = world.env.clock.monotonic();
    let ledger = world.open(&engine);
    let took = world.env.clock.monotonic().saturating_sub(start);
    println!("a million holes and 100,000 partly acknowledged batches: opened in {took:?}");
    assert!(same_acks(&ledger.description.cursors[0], &now));
    if !cfg!(debug_assertions) {
        assert!(took < LONGEST_OPEN, "{took:?}");
    }
    drop(ledger);
    world.rt.block_on(engine.close()).unwrap();
}
