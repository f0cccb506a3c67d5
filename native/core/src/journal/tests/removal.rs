//! Dead segments that nobody uses again go back to the file system a piece at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use super::support::*;
use crate::commit::HeadChange;
use crate::env::sim::SimRandom;
use crate::journal::Journal;

const SEGMENTS: usize = 12;

/// A journal with many segments that one stream needs, and appends are refused below `reserve` free bytes.
fn filled(seed: u64, reserve: u64) -> (World, Arc<Journal>) {
    let mut world = World::new(seed);
    world.options.reserve_bytes = reserve;
    world.options.segment_bytes = 4 * SEGMENT;
    world.options.checkpoint_bytes = 4 * SEGMENT;
    let journal = world.open();
    world.create(&journal, stream(1));
    world.create(&journal, stream(2));
    let entries = SEGMENTS as u64 * 4 * SEGMENT / LARGE as u64;
    for offset in 0..entries {
        committed(
            world.append(&journal, stream(1), offset, &large(stream(1), offset)),
            offset,
        );
    }
    world.fill(&journal, stream(2), 0, 5);
    assert!(files(&world, "seg").len() >= SEGMENTS);
    (world, journal)
}

/// The segments die with their stream; one checkpoint sees it.
fn delete(world: &mut World, journal: &Journal) {
    world
        .change(journal, stream(1), HeadChange::Delete { epoch: None })
        .unwrap();
    world.executor.run(journal.checkpoint()).unwrap();
}

fn deleted(seed: u64) -> (World, Arc<Journal>) {
    let (mut world, journal) = filled(seed, 0);
    delete(&mut world, &journal);
    (world, journal)
}

#[test]
fn dead_files_shrink_piece_by_piece_while_the_journal_goes_on() {
    let (mut world, journal) = deleted(1);
    let aside = files(&world, "dead").len();
    let pieces = Arc::new(AtomicU64::new(0));
    let counted = pieces.clone();
    world.disk.before_sync(move |path| {
        let dead = path.extension().is_some_and(|extension| extension == "dead");
        counted.fetch_add(u64::from(dead), Ordering::Relaxed);
    });
    assert!(aside > SEGMENTS / 2, "{aside} files");
    assert!(
        files(&world, "seg").len() <= 3,
        "none of them counts as a segment any more"
    );
    world.fill(&journal, stream(2), 5, 20);
    world.executor.run_for(Duration::from_secs(20));
    assert!(files(&world, "dead").is_empty());
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
        assert!(files(&world, "dead").is_empty());
        assert!(files(&world, "seg").len() <= 4);
    }
}

#[test]
fn while_space_is_short_dead_files_go_at_once() {
    let (mut world, journal) = filled(20, SEGMENT);
    world.disk.set_capacity(world.disk.used());
    delete(&mut world, &journal);
    assert!(files(&world, "seg").len() <= 3, "they are gone");
    assert!(files(&world, "dead").is_empty() && files(&world, "free").is_empty());
}
