//! The engine alone beside a bare group-commit log: appends answered per second, with so many under way at any time.
//!
//! `cargo bench -p nereus-core --bench engine [-- FILTER]`; NEREUS_BENCH_DIR names the disk, NEREUS_BENCH_QUICK=1 measures briefly.
//! Each sample is several pairs: both logs do the same appends one after the other, the first one changing from pair to pair;
//! ratios are taken inside pairs, because a disk is faster now and slower then. Criterion's own figures are the engine's.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a measurement runs on the real clock, and one that cannot go on ends at once and says why"
)]

mod bare;
mod load;
mod nereus;
#[path = "../place.rs"]
mod place;
mod table;

use std::cell::RefCell;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};

use bare::Bare;
use load::{Load, Pair};
use nereus::Nereus;

const OUTSTANDING: [usize; 4] = [1, 8, 64, 512];
const ENTRY_BYTES: [usize; 2] = [200, 1024];
/// Pairs of one sample.
const PAIRS: u64 = 4;

fn main() {
    let scratch = place::scratch().expect("a directory to measure in");
    let quick = std::env::var_os("NEREUS_BENCH_QUICK").is_some();
    let seconds = if quick { 1 } else { 5 };
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(if quick { 300 } else { 1000 }))
        .measurement_time(Duration::from_secs(seconds))
        .configure_from_args();
    let engine = Nereus::open(&scratch.path().join("engine"));
    let bare = Bare::open(&scratch.path().join("bare"));
    engine.warm_up();

    let mut rows = Vec::new();
    let mut group = criterion.benchmark_group("append");
    group.sampling_mode(SamplingMode::Flat);
    for entry_bytes in ENTRY_BYTES {
        for outstanding in OUTSTANDING {
            let load = Load::new(outstanding, entry_bytes);
            let pairs = RefCell::new(Vec::new());
            group.throughput(Throughput::Elements(1));
            let id = BenchmarkId::new(format!("{entry_bytes}B"), outstanding);
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|appends| {
                    let mut pairs = pairs.borrow_mut();
                    let mut left = appends;
                    let mut time = Duration::ZERO;
                    while left > 0 {
                        let part = left.min(appends.div_ceil(PAIRS));
                        let engine_first = pairs.len() % 2 == 0;
                        let pair = Pair::measure(&engine, &bare, &load, part, engine_first);
                        time += pair.engine.time;
                        left -= part;
                        pairs.push(pair);
                    }
                    time
                });
            });
            rows.extend(table::Row::of(load, pairs.into_inner()));
        }
    }
    group.finish();
    table::print(&rows, &engine);
    engine.close();
    criterion.final_summary();
}
