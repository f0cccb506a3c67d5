//! The simulation as a test: a fixed set of seeds, the same trace for the same seed, and every deliberate bug caught.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use nereus_core::mutant::Mutant;
use nereus_sim::hunt::{hunt, Hunted};
use nereus_sim::runner::{run, Options, Verdict};

const SEEDS: Range<u64> = 0..1_000;
const TRACED: Range<u64> = 0..60;
/// Seeds that a deliberate bug may take.
const MOST: u64 = 3_000;

/// Runs `work` for every number of `range`, on every core; gives what it found.
fn on_every_core<T: Send>(range: Range<u64>, work: impl Fn(u64) -> Option<T> + Sync) -> Vec<T> {
    let (next, found) = (AtomicU64::new(range.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= range.end {
                    return;
                }
                if let Some(one) = work(number) {
                    found.lock().unwrap().push(one);
                }
            });
        }
    });
    found.into_inner().unwrap()
}

#[test]
fn a_thousand_seeds_keep_every_law() {
    let broken = on_every_core(SEEDS, |seed| match run(seed, &Options::default()).verdict {
        Verdict::Passed => None,
        Verdict::Broken { violation, .. } => Some(format!("scripts/sim --replay {seed}: {violation}")),
    });
    assert!(broken.is_empty(), "{} seeds: {broken:#?}", broken.len());
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let options = Options {
        trace: true,
        ..Options::default()
    };
    let differing = on_every_core(TRACED, |seed| {
        let (first, second) = (run(seed, &options), run(seed, &options));
        assert!(first.trace.text().lines().count() > 10, "seed {seed} leaves a trace");
        (first != second).then_some(seed)
    });
    assert!(differing.is_empty(), "{differing:?}");
}

#[test]
fn every_deliberate_bug_is_caught() {
    let count = Mutant::ALL.len() as u64;
    assert!(count >= 18);
    let survivors = on_every_core(0..count, |at| {
        let (mutant, name, _) = Mutant::ALL[at as usize];
        (hunt(mutant, 0, MOST) == Hunted::Survived).then_some(name)
    });
    assert!(survivors.is_empty(), "{survivors:?}");
}
