//! The figures of a run, side by side.

use crate::load::{Load, Pair, Sample};
use crate::nereus::Nereus;

/// Part of the bare log's rate that the engine should reach, and the load where.
const TARGET: f64 = 0.70;
const TARGET_OUTSTANDING: usize = 64;

/// All pairs of one load.
pub struct Row {
    load: Load,
    ratio: f64,
    engine: Figures,
    bare: Figures,
}

struct Figures {
    per_second: f64,
    per_sync: f64,
    cpu_micros: f64,
    p50: f64,
    p99: f64,
}

impl Row {
    /// Sums up; nothing when a filter left the load out.
    pub fn of(load: Load, pairs: Vec<Pair>) -> Option<Row> {
        // The first calls of a warm-up are too short to say anything.
        let most = pairs.iter().map(|pair| pair.engine.appends).max()?;
        let pairs: Vec<Pair> = pairs
            .into_iter()
            .filter(|pair| pair.engine.appends * 4 >= most)
            .collect();
        let ratios = pairs
            .iter()
            .map(|pair| pair.engine.per_second() / pair.bare.per_second());
        let ratio = median(ratios.collect())?;
        let (engine, bare): (Vec<Sample>, Vec<Sample>) = pairs.into_iter().map(|pair| (pair.engine, pair.bare)).unzip();
        Some(Row {
            load,
            ratio,
            engine: Figures::of(engine)?,
            bare: Figures::of(bare)?,
        })
    }
}

impl Figures {
    fn of(samples: Vec<Sample>) -> Option<Figures> {
        let appends: u64 = samples.iter().map(|sample| sample.appends).sum();
        let syncs: u64 = samples.iter().map(|sample| sample.syncs).sum();
        let cpu: f64 = samples.iter().map(|sample| sample.cpu.as_secs_f64()).sum();
        let per_second = median(samples.iter().map(Sample::per_second).collect())?;
        let mut latencies: Vec<u64> = samples.into_iter().flat_map(|sample| sample.latencies).collect();
        latencies.sort_unstable();
        let at = |part: usize| {
            latencies
                .get(latencies.len() * part / 100)
                .map_or(0.0, |nanos| *nanos as f64 / 1e3)
        };
        Some(Figures {
            per_second,
            per_sync: appends as f64 / syncs.max(1) as f64,
            cpu_micros: cpu * 1e6 / appends.max(1) as f64,
            p50: at(50),
            p99: at(99),
        })
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Prints the table and how the target was met.
pub fn print(rows: &[Row], engine: &Nereus) {
    println!();
    println!("appends answered per second, engine beside a bare group-commit log (write + fdatasync per group) in the same run");
    println!(
        "{:>11} {:>6} {:>7} | {:>9} {:>9} {:>6} | {:>6} {:>6} | {:>6} {:>6} | {:>7} {:>7} | {:>7} {:>7}",
        "outstanding",
        "bytes",
        "streams",
        "engine/s",
        "bare/s",
        "ratio",
        "e/sync",
        "bare",
        "cpu us",
        "bare",
        "p50 us",
        "bare",
        "p99 us",
        "bare"
    );
    for Row {
        load,
        ratio,
        engine,
        bare,
    } in rows
    {
        println!(
            "{:>11} {:>6} {:>7} | {:>9.0} {:>9.0} {:>5.0}% | {:>6.1} {:>6.1} | {:>6.1} {:>6.1} | {:>7.0} {:>7.0} | {:>7.0} {:>7.0}",
            load.outstanding,
            load.entry_bytes,
            load.streams,
            engine.per_second,
            bare.per_second,
            ratio * 100.0,
            engine.per_sync,
            bare.per_sync,
            engine.cpu_micros,
            bare.cpu_micros,
            engine.p50,
            bare.p50,
            engine.p99,
            bare.p99
        );
    }
    let stats = engine.engine().journal_stats();
    println!(
        "journal: {} frames, {} MiB, {} checkpoints",
        stats.frames,
        stats.bytes >> 20,
        stats.checkpoints
    );
    for row in rows.iter().filter(|row| row.load.outstanding == TARGET_OUTSTANDING) {
        println!(
            "target: at least {:.0} % of the bare log at {TARGET_OUTSTANDING} outstanding, {} B: {:.0} %, {}",
            TARGET * 100.0,
            row.load.entry_bytes,
            row.ratio * 100.0,
            if row.ratio >= TARGET { "met" } else { "missed" }
        );
    }
}
