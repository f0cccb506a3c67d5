//! Dead segments that nobody uses again go back to the file system a piece at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use super::support::*;
use crate::commit::HeadChange;
use crate::env::sim::SimRandom;
use crate::journal::Journal;

const LARGE: usize = 60 << 10;
const SEGMENTS: usize = 12;

fn paths(world: &World, suffix: &str) -> Vec<std::path::PathBuf> {
    let mut paths = world.disk.paths();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == suffix));
    paths
}

/// A journal whose many segments have all died with one stream; one checkpoint has seen it.
fn deleted(seed: u64) -> (World, Arc<Journal>) {
    let mut world = World::new(seed);
    world.options.segment_bytes = 4 * SEGMENT;
    world.options.checkpoint_bytes = 4 * SEGMENT;
    let journal = world.open();
    world.create(&journal, stream(1));
    world.create(&journal, stream(2));
    let entries = SEGMENTS as u64 * 4 * SEGMENT / LARGE as u64;
    for offset in 0..entries {
        let mut large = entry(stream(1), offset);
        large.resize(LARGE, offset as u8);
        committed(world.append(&journal, stream(1), offset, &large), offset);
    }
    world.fill(&journal, stream(2), 0, 5);
    assert!(paths(&world, "seg").len() >= SEGMENTS);
    world
        .change(&journal, stream(1), HeadChange::Delete { epoch: None })
        .unwrap();
    world.executor.run(journal.checkpoint()).unwrap();
    (world, journal)
}

#[test]
fn dead_files_shrink_piece_by_piece_while_the_journal_goes_on() {
    let (mut world, journal) = deleted(1);
    let aside = paths(&world, "dead").len();
    let pieces = Arc::new(AtomicU64::new(0));
    let counted = pieces.clone();
    world.disk.before_sync(move |path| {
        let dead = path.extension().is_some_and(|extension| extension == "dead");
        counted.fetch_add(u64::from(dead), Ordering::Relaxed);
    });
    assert!(aside > SEGMENTS / 2, "{aside} files");
    assert!(
        paths(&world, "seg").len() <= 3,
        "none of them counts as a segment any more"
    );
    world.fill(&journal, stream(2), 5, 20);
    world.executor.run_for(Duration::from_secs(20));
    assert!(paths(&world, "dead").is_empty());
    let pieces = pieces.load(Ordering::Relaxed);
    assert!(pieces >= 3 * aside as u64, "{pieces} pieces of {aside} files");
    assert_eq!(world.read_all(&journal, stream(2)).len(), 25);
}

#[test]
fn what_a_crash_leaves_of_a_removal_is_no_segment_and_goes_with_the_next_start() {
    for seed in 2..12 {
        let (mut world, journal) = deleted(seed);
        let random = SimRandom::new(seed);
        world.executor.run_for(Duration::from_micros(random.below(3000)));
        drop(journal);
        let mut world = match random.chance(50) {
            true => world.after_kill(),
            false => world.after_crash(&random),
        };
        let journal = world.open();
        assert_eq!(world.read_all(&journal, stream(2)).len(), 5);
        assert!(world.head(&journal, stream(1)).is_none());
        world.executor.run(journal.checkpoint()).unwrap();
        world.executor.run_for(Duration::from_secs(20));
        assert!(paths(&world, "dead").is_empty());
        assert!(paths(&world, "seg").len() <= 4);
    }
}

#[test]
fn while_space_is_short_dead_files_go_at_once() {
    let (world, _journal) = deleted(20);
    let mut world = world.copy();
    world.options.reserve_bytes = 1 << 50;
    let journal = world.open();
    world.executor.run(journal.checkpoint()).unwrap();
    assert!(paths(&world, "dead").is_empty() && paths(&world, "free").is_empty());
}
