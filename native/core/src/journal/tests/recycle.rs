//! Dead segments become new ones: what they held before is never taken for what they hold now, at whatever moment a crash comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::support::*;
use crate::commit::{AppendOutcome, HeadChange};
use crate::env::sim::{Fault, Operation, SimRandom};
use crate::env::Disk;
use crate::error::ErrorCode;
use crate::journal::frame::BLOCK;
use crate::journal::segment::Segments;
use crate::journal::{Found, Holder, Journal, Oldest, Scan};
use crate::types::Offset;

/// Segments that one run may have: what a checkpoint sets free and what it covers, the one written, the next, and one that is kept.
const FLAT: usize = 8;

fn trim(journal: &Journal, world: &mut World, n: u128, epoch_: u64, before: u64) {
    let change = HeadChange::Trim {
        epoch: epoch(epoch_),
        before: Offset::new(before),
        trimmed_bytes: 0,
    };
    world.change(journal, stream(n), change).unwrap();
}

/// Appends large entries and trims all but the last few, as a consumer that keeps up does. Answers the end.
fn consume(world: &mut World, journal: &Arc<Journal>, n: u128, from: u64, count: u64) -> u64 {
    for offset in from..from + count {
        committed(
            world.append(journal, stream(n), offset, &large(stream(n), offset)),
            offset,
        );
        if offset % 16 == 15 {
            trim(journal, world, n, 1, offset - 4);
        }
    }
    from + count
}

/// A world whose journal goes on in a re-used segment: its number, and the end of stream 1.
fn recycled(seed: u64) -> (World, Arc<Journal>, u64, u64) {
    let mut world = World::new(seed);
    world.options.checkpoint_bytes = 2 * SEGMENT;
    let journal = world.open();
    world.create(&journal, stream(1));
    world.create(&journal, stream(2));
    let mut end = consume(&mut world, &journal, 1, 0, 450);
    world.executor.run_for(Duration::from_millis(100));
    // From here no segment is made afresh.
    world.disk.fail(no_fresh_segment());
    end = consume(&mut world, &journal, 1, end, 200);
    world.fill(&journal, stream(2), 0, 5);
    world.disk.heal();
    assert!(journal.stats().kept_segments > 4, "{:?}", journal.stats());
    let current = journal.shared.state.position().segment;
    (world, journal, current, end)
}

fn no_fresh_segment() -> Fault {
    Fault {
        operation: Operation::Allocate,
        path_contains: ".new".into(),
        after: 0,
        times: u64::MAX,
        kind: std::io::ErrorKind::Other,
    }
}

#[test]
fn dead_segments_become_new_ones_and_no_file_is_made_afresh() {
    let (mut world, journal, _, end) = recycled(1);
    // A quiet stream keeps a file out of the circle, for which one more may have to be made.
    let gone = HeadChange::Delete { epoch: None };
    world.change(&journal, stream(2), gone).unwrap();
    let end = consume(&mut world, &journal, 1, end, 200);
    world.disk.fail(no_fresh_segment());
    consume(&mut world, &journal, 1, end, 300);
    assert!(journal.poisoned().is_none());
    assert_eq!(world.read_all_from(&journal, stream(1), end + 200).len(), 100);
}

#[test]
fn an_all_consumed_load_of_twenty_times_the_journal_keeps_it_flat() {
    let mut world = World::new(2);
    world.options.checkpoint_bytes = 2 * SEGMENT;
    let journal = world.open();
    world.create(&journal, stream(1));
    let per_round = FLAT as u64 * SEGMENT / LARGE as u64;
    let (mut end, mut most, mut bytes) = (0, 0, 0);
    for _ in 0..20 {
        end = consume(&mut world, &journal, 1, end, per_round);
        let all = [files(&world, "seg"), files(&world, "free"), files(&world, "new")].concat();
        most = most.max(all.len());
        bytes = bytes.max(
            all.iter()
                .map(|path| world.disk.content(path).unwrap().len() as u64)
                .sum(),
        );
    }
    assert!(
        most <= FLAT && bytes <= FLAT as u64 * SEGMENT,
        "{most} files, {bytes} bytes"
    );
    assert!(
        journal.stats().removed_segments > 19 * FLAT as u64,
        "{:?}",
        journal.stats()
    );
}

#[test]
fn l16_a_quiet_stream_keeps_its_segment_from_being_used_again() {
    let mut world = World::new(3);
    world.options.checkpoint_bytes = SEGMENT;
    let journal = world.open();
    world.create(&journal, stream(1));
    world.create(&journal, stream(2));
    world.fill(&journal, stream(2), 0, 3);
    let quiet = world.commits(&journal, stream(2));
    consume(&mut world, &journal, 1, 0, 600);
    assert_eq!(journal.stats().oldest_segment, 1);
    let oldest = world.executor.run(journal.state()).unwrap().oldest.unwrap();
    let holder = Holder::Stream {
        stream: stream(2),
        ledger: None,
    };
    assert_eq!(oldest, Oldest { segment: 1, holder });
    assert!(files(&world, "seg").len() <= FLAT + 1);
    for commit in quiet {
        world.read(&journal, stream(2), commit).unwrap();
    }
}

#[test]
fn l01_any_part_of_a_frame_over_former_content_is_a_torn_tail_until_it_is_proven() {
    let (mut world, journal, segment, _) = recycled(4);
    let path = segment_path(segment);
    let before = world.disk.content(&path).unwrap();
    let at = journal.shared.state.position().offset as usize;
    committed(world.append(&journal, stream(2), 5, &vec![9; 15_000]), 5);
    let end = journal.shared.state.position().offset as usize;
    let after = world.disk.content(&path).unwrap();
    let blocks = (end - at) / 4096;
    assert_eq!(blocks, 4);
    assert!(
        before[at..end].iter().any(|byte| *byte != 0),
        "there was something before"
    );
    for kept in 0..1u32 << blocks {
        let mut world = world.copy();
        world.disk.tamper(&path, |bytes| {
            bytes.clone_from(&after);
            for block in (0..blocks).filter(|block| kept & (1 << block) == 0) {
                let range = at + block * 4096..at + (block + 1) * 4096;
                bytes[range.clone()].copy_from_slice(&before[range]);
            }
        });
        let journal = world.open();
        assert!(
            journal.damages().is_empty(),
            "blocks {kept:04b}: {:?}",
            journal.damages()
        );
        let whole = kept == (1 << blocks) - 1;
        let found = world.head(&journal, stream(2)).unwrap().end.get();
        assert_eq!(found, if whole { 6 } else { 5 }, "blocks {kept:04b}");
        world.fill(&journal, stream(2), found, 3);
        let mut world = world.after_kill();
        let journal = world.open();
        assert!(
            journal.damages().is_empty(),
            "blocks {kept:04b}: {:?}",
            journal.damages()
        );
        assert_eq!(world.head(&journal, stream(2)).unwrap().end.get(), found + 3);
    }
    // With a marker behind it, the same is damage.
    world.executor.run_for(Duration::from_millis(100));
    let proven = world.disk.content(&path).unwrap();
    for kept in 0..(1u32 << blocks) - 1 {
        let mut world = world.copy();
        world.disk.tamper(&path, |bytes| {
            bytes.clone_from(&proven);
            for block in (0..blocks).filter(|block| kept & (1 << block) == 0) {
                let range = at + block * 4096..at + (block + 1) * 4096;
                bytes[range.clone()].copy_from_slice(&before[range]);
            }
        });
        let journal = world.open();
        let refused = world.try_head(&journal, stream(2)).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Corrupt, "blocks {kept:04b}");
        assert!(world.head(&journal, stream(1)).is_some(), "blocks {kept:04b}");
    }
}

#[test]
fn a_damaged_header_block_of_a_used_again_segment_lets_no_former_frame_in() {
    let (world, _journal, segment, end) = recycled(5);
    let mut world = world.copy();
    world.disk.tamper(&segment_path(segment), |bytes| bytes[30] ^= 1);
    let journal = world.open();
    assert!(journal.damages().is_empty(), "{:?}", journal.damages());
    assert_eq!(world.head(&journal, stream(1)).unwrap().end.get(), end);
    assert_eq!(world.head(&journal, stream(2)).unwrap().end.get(), 5);
}

#[test]
fn former_frames_are_neither_found_at_their_place_nor_by_a_look_ahead() {
    let (world, journal, segment, _) = recycled(9);
    let end = journal.shared.state.position().offset;
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    let segments = Arc::new(Segments::new(disk, "/data/journal".into()).unwrap());
    let mut scan = Scan::open(segments, &[segment], DIRECTORY_ID).unwrap();
    let content = world.disk.content(&segment_path(segment)).unwrap();
    let former = (end..SEGMENT)
        .step_by(BLOCK)
        .filter(|at| content[*at as usize..].starts_with(b"NEREUSjf"))
        .inspect(|at| assert!(matches!(scan.at(0, *at).unwrap(), Found::Nothing)))
        .count();
    assert!(former > 10, "{former}");
    assert_eq!(scan.later(0, end - BLOCK as u64, 0).unwrap(), None);
    assert!(scan.behind(0, end).unwrap().reused);
}

#[test]
fn segments_of_another_size_are_not_used_again() {
    let (world, _journal, _, end) = recycled(6);
    assert!(!files(&world, "free").is_empty());
    let mut world = world.copy();
    world.options.segment_bytes = 2 * SEGMENT;
    let journal = world.open();
    assert!(files(&world, "free").is_empty(), "they go back to the file system");
    consume(&mut world, &journal, 1, end, 400);
    world.executor.run(journal.checkpoint()).unwrap();
    let sizes: Vec<u64> = files(&world, "free")
        .iter()
        .map(|path| world.disk.content(path).unwrap().len() as u64)
        .collect();
    assert!(sizes.iter().all(|size| *size == 2 * SEGMENT), "{sizes:?}");
    assert!(journal.stats().removed_segments > 0);
}

#[test]
fn dead_files_are_taken_over_by_the_next_run_and_given_back_when_space_is_short() {
    let (world, _journal, _, end) = recycled(7);
    let kept = files(&world, "free").len();
    let mut world = world.copy();
    world.options.reserve_bytes = SEGMENT;
    let journal = world.open();
    assert!(
        kept > 0 && files(&world, "free").len() + 1 >= kept,
        "one may be in use by now"
    );
    world.disk.set_capacity(0);
    trim(&journal, &mut world, 1, 1, end - 1);
    world.executor.run(journal.checkpoint()).unwrap();
    assert!(files(&world, "free").is_empty());
    world.disk.set_capacity(1 << 40);
    world.executor.run_for(Duration::from_secs(1));
    consume(&mut world, &journal, 1, end, 100);
}

#[test]
fn a_dead_file_that_is_not_what_its_name_says_is_not_used_again() {
    let (world, _journal, _, _) = recycled(8);
    let free = files(&world, "free");
    let live = files(&world, "seg");
    let damage = |change: &dyn Fn(&mut World)| {
        let mut world = world.copy();
        change(&mut world);
        world.options.checkpoint_bytes = 1 << 30;
        world.open();
        files(&world, "free").contains(&free[0])
    };
    // Of several files the oldest is used first, here for the segment that the new run writes.
    assert!(free.len() > 1);
    let second = free[1].clone();
    let stays = |change: &dyn Fn(&mut World)| {
        let mut world = world.copy();
        change(&mut world);
        world.open();
        files(&world, "free").contains(&second)
    };
    assert!(stays(&|_| ()));
    assert!(!stays(&|world| world.disk.tamper(&second, |bytes| bytes[20] ^= 1)));
    assert!(!stays(&|world| world
        .disk
        .tamper(&second, |bytes| bytes.truncate(4096))));
    let other = world.disk.content(&live[0]).unwrap();
    assert!(!stays(&|world| world
        .disk
        .tamper(&second, |bytes| bytes.clone_from(&other))));
    assert!(!damage(&|_| ()), "the first one is a segment now");
}

/// What a stream may hold, in a life of crashes.
#[derive(Default)]
struct Expectation {
    epoch: u64,
    end: u64,
    open: u64,
    trim: u64,
}

#[test]
fn l01_acknowledged_appends_survive_any_crash_in_the_middle_of_a_recycling() {
    let seeds = std::env::var("NEREUS_SEEDS").map_or(12, |count| count.parse().expect("a number"));
    let mut kept = 0;
    for seed in 0..seeds {
        let random = SimRandom::new(seed);
        let mut world = World::new(seed);
        world.options.checkpoint_bytes = SEGMENT;
        let mut model: BTreeMap<u128, Expectation> = BTreeMap::new();
        for _ in 0..6 {
            if random.chance(80) {
                world.disk.crash_in(random.below(500) + 1);
            }
            if let Ok(journal) = world.try_open() {
                live(&mut world, &journal, &random, &mut model, seed);
                kept += journal.stats().kept_segments;
            }
            world = if random.chance(70) {
                world.after_crash(&random)
            } else {
                world.after_kill()
            };
        }
        let journal = world.open();
        check(&mut world, &journal, &mut model, seed);
        assert!(journal.damages().is_empty(), "seed {seed}: {:?}", journal.damages());
        let bound = files(&world, "seg").len() + files(&world, "free").len();
        assert!(bound <= 2 * FLAT, "seed {seed}: {bound} files");
    }
    assert!(kept > 3 * seeds, "only {kept} segments were kept: this proves nothing");
}

fn live(
    world: &mut World,
    journal: &Arc<Journal>,
    random: &SimRandom,
    model: &mut BTreeMap<u128, Expectation>,
    seed: u64,
) {
    check(world, journal, model, seed);
    for step in 0..150 {
        if world.disk.has_crashed() || journal.poisoned().is_some() {
            return;
        }
        let n = u128::from(random.below(2));
        let expectation = model.entry(n).or_default();
        if expectation.epoch == 0 {
            let create = HeadChange::Create {
                stream: stream(n),
                incarnation: crate::types::Incarnation::new(1),
                created_millis: 1,
            };
            drop(world.change(journal, stream(n), create));
            let claimed = world.change(journal, stream(n), HeadChange::Claim { owner: "o".into() });
            expectation.epoch = claimed.map_or(0, |cell| {
                cell.with(|head| head.map_or(0, |head| head.owner_epoch.get()))
            });
            continue;
        }
        for offset in expectation.end..expectation.end + 1 + random.below(4) {
            match world
                .executor
                .run(send(
                    journal,
                    stream(n),
                    expectation.epoch,
                    offset,
                    &large(stream(n), offset),
                ))
                .unwrap()
            {
                AppendOutcome::Committed { .. } => expectation.end += 1,
                AppendOutcome::Unknown(_) => expectation.open = offset + 1,
                AppendOutcome::NotCommitted(_) => break,
            }
        }
        if step % 5 == 4 {
            let before = expectation.end.saturating_sub(random.below(6));
            let change = HeadChange::Trim {
                epoch: epoch(expectation.epoch),
                before: Offset::new(before),
                trimmed_bytes: 0,
            };
            if world.change(journal, stream(n), change).is_ok() {
                expectation.trim = expectation.trim.max(before);
            }
        }
        if random.chance(10) {
            world.executor.run_for(Duration::from_millis(random.below(12)));
        }
    }
}

fn check(world: &mut World, journal: &Arc<Journal>, model: &mut BTreeMap<u128, Expectation>, seed: u64) {
    for (n, expectation) in model {
        if world.disk.has_crashed() {
            return;
        }
        let head = match world.try_head(journal, stream(*n)) {
            Ok(Some(head)) => head,
            Ok(None) => {
                assert_eq!(expectation.end, 0, "seed {seed}: the head of stream {n} is lost");
                continue;
            }
            Err(_) if world.disk.has_crashed() => return,
            Err(error) => panic!("seed {seed}, stream {n}: {error}"),
        };
        let end = head.end.get();
        assert!(
            end >= expectation.end && end <= expectation.end.max(expectation.open),
            "seed {seed}: stream {n} ends at {end}, {} were acknowledged (L1)",
            expectation.end
        );
        assert!(head.trim.get() >= expectation.trim, "seed {seed}: the trim went back");
        (expectation.end, expectation.open, expectation.trim) = (end, 0, head.trim.get());
        expectation.epoch = head.owner_epoch.get();
        let from = head.trim.get().min(end.saturating_sub(1));
        for commit in world.commits(journal, stream(*n)) {
            if commit.end().unwrap().get() <= from {
                continue;
            }
            let slice = match world.read(journal, stream(*n), commit) {
                Ok(slice) => slice,
                Err(_) if world.disk.has_crashed() => return,
                Err(error) => panic!("seed {seed}, stream {n}: {error}"),
            };
            for (read, offset) in slice.entries.iter().zip(commit.start.get()..) {
                assert_eq!(
                    read.entry,
                    large(stream(*n), offset),
                    "seed {seed}: stream {n} at {offset}"
                );
            }
        }
    }
}
