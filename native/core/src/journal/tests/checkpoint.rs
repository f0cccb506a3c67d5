//! Checkpoints, the segments they free, and the space they need.

use std::io::ErrorKind;

use super::support::*;
use crate::commit::{HeadChange, Log};
use crate::env::sim::{Fault, Operation};
use crate::error::{Error, ErrorCode};
use crate::metadata::{Expected, Verdict, Write};
use crate::record::{Key, Record, StreamProperties};
use crate::types::Offset;

fn trim(before: u64) -> HeadChange {
    HeadChange::Trim {
        epoch: epoch(1),
        before: Offset::new(before),
        trimmed_bytes: before * LARGE as u64,
    }
}

fn fill_large(world: &mut World, journal: &crate::journal::Journal, n: u128, from: u64, count: u64) {
    for offset in from..from + count {
        committed(world.append(journal, stream(n), offset, &vec![n as u8; LARGE]), offset);
    }
}

/// Segments that are there once nothing is being prepared any more.
fn segments(world: &mut World) -> usize {
    world.executor.run_for(std::time::Duration::from_millis(50));
    world
        .disk
        .paths()
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .count()
}

#[test]
fn a_checkpoint_is_due_after_so_many_bytes_and_bounds_the_replay() {
    let mut world = World::new(1);
    world.options.checkpoint_bytes = 1 << 20;
    let journal = world.open();
    world.create(&journal, stream(1));
    fill_large(&mut world, &journal, 1, 0, 100);
    let stats = journal.stats();
    assert!((4..=7).contains(&stats.checkpoints), "{stats:?}");
    assert!(stats.replay_bytes <= 2 << 20, "{stats:?}");
    let mut world = world.after_kill();
    let journal = world.open();
    assert!(journal.stats().replayed_frames < 40, "{:?}", journal.stats());
    assert_eq!(world.read_all(&journal, stream(1)).len(), 100);
}

#[test]
fn l16_segments_go_only_when_every_range_in_them_is_trimmed_or_deleted() {
    let mut world = World::new(2);
    let journal = world.open();
    world.create(&journal, stream(1));
    world.create(&journal, stream(2));
    world.fill(&journal, stream(2), 0, 1);
    fill_large(&mut world, &journal, 1, 0, 200);
    world.executor.run(journal.checkpoint()).unwrap();
    let all = segments(&mut world);
    assert_eq!(journal.stats().removed_segments, 0);
    world.change(&journal, stream(1), trim(199)).unwrap();
    world.executor.run(journal.checkpoint()).unwrap();
    assert!(segments(&mut world) < all, "{} of {all}", segments(&mut world));
    assert!(
        world.disk.paths().contains(&segment_path(1)),
        "stream 2 has its only entry there"
    );
    let small = world.commits(&journal, stream(2));
    world.read(&journal, stream(2), small[0]).unwrap();
    let old = world.commits(&journal, stream(1))[80];
    let gone = world.read(&journal, stream(1), old).unwrap_err();
    assert_eq!(gone.code(), ErrorCode::OffsetTrimmed, "{gone}");

    world
        .change(&journal, stream(2), HeadChange::Delete { epoch: None })
        .unwrap();
    world.executor.run(journal.checkpoint()).unwrap();
    assert!(!world.disk.paths().contains(&segment_path(1)));
    let last = *world.commits(&journal, stream(1)).last().unwrap();
    world.read(&journal, stream(1), last).unwrap();
    let mut world = world.after_kill();
    let journal = world.open();
    world.read(&journal, stream(1), last).unwrap();
    fill_large(&mut world, &journal, 1, 200, 1);
}

#[test]
fn l16_the_last_committed_entry_is_kept_when_everything_is_trimmed() {
    let mut world = World::new(3);
    let journal = world.open();
    world.create(&journal, stream(1));
    world.create(&journal, stream(2));
    fill_large(&mut world, &journal, 1, 0, 3);
    world.change(&journal, stream(1), trim(3)).unwrap();
    fill_large(&mut world, &journal, 2, 0, 200);
    world.change(&journal, stream(2), trim(200)).unwrap();
    world.executor.run(journal.checkpoint()).unwrap();
    assert!(segments(&mut world) <= 4, "{}", segments(&mut world));
    for n in [1, 2] {
        let last = *world.commits(&journal, stream(n)).last().unwrap();
        world.read(&journal, stream(n), last).unwrap();
    }
}

#[test]
fn l16_nothing_is_removed_before_the_checkpoint_that_makes_it_unnecessary_is_durable() {
    let mut world = World::new(4);
    let journal = world.open();
    world.create(&journal, stream(1));
    fill_large(&mut world, &journal, 1, 0, 150);
    world.change(&journal, stream(1), trim(149)).unwrap();
    let all = segments(&mut world);
    world.backend.fail_writes(Some("no"));
    assert!(world.executor.run(journal.checkpoint()).is_err());
    assert_eq!(segments(&mut world), all);
    assert_eq!(journal.stats().failed_checkpoints, 1);
    fill_large(&mut world, &journal, 1, 150, 2);
    world.backend.fail_writes(None);
    world.executor.run(journal.checkpoint()).unwrap();
    assert!(segments(&mut world) < all);
    let mut world = world.after_kill();
    let journal = world.open();
    assert!(
        journal.stats().replayed_frames <= 1,
        "the second try covered all but a marker"
    );
    assert_eq!(world.head(&journal, stream(1)).unwrap().end, Offset::new(152));
}

/// Appends large entries to stream 1 until one is not committed; answers how many were, and why that one was not.
fn fill_until_refused(world: &mut World, journal: &crate::journal::Journal) -> (u64, Error) {
    for end in 0..1000 {
        match world.append(journal, stream(1), end, &vec![1; LARGE]) {
            crate::commit::AppendOutcome::Committed { .. } => {}
            other => return (end, not_committed(other)),
        }
    }
    panic!("1000 large entries were taken");
}

#[test]
fn a_full_disk_refuses_appends_by_name_while_trims_go_on_and_recovers_when_space_is_there() {
    let mut world = World::new(5);
    world.options.reserve_bytes = 2 * SEGMENT;
    world.disk.set_capacity(6 * SEGMENT);
    let journal = world.open();
    world.create(&journal, stream(1));
    let (end, refusal) = fill_until_refused(&mut world, &journal);
    assert_eq!(refusal.code(), ErrorCode::Unavailable);
    assert!(
        refusal.to_string().contains("/data/journal") && refusal.to_string().contains("free"),
        "{refusal}"
    );
    assert!(journal.poisoned().is_none());
    let key = Key::stream_properties(stream(1));
    let named = StreamProperties {
        stream: stream(1),
        version: 1,
        properties: Default::default(),
        ledger: "public/default/persistent/orders".into(),
    };
    let write = Write {
        key,
        expected: Expected::Absent,
        value: Some(named.encode().unwrap()),
    };
    let verdict = world.executor.run(journal.store().write(vec![write])).pop();
    assert!(matches!(verdict, Some(Verdict::Applied(_))), "acks go on");
    world.executor.run(journal.checkpoint()).unwrap();
    let refusal = not_committed(world.append(&journal, stream(1), end, &vec![1; LARGE]));
    let text = refusal.to_string();
    assert!(
        text.contains("public/default/persistent/orders") && text.contains("0000000000000001"),
        "what keeps the space is named: {text}"
    );
    world.change(&journal, stream(1), trim(end)).unwrap();
    world.executor.run(journal.checkpoint()).unwrap();
    assert!(journal.stats().removed_segments > 0);
    world.executor.run_for(std::time::Duration::from_millis(200));
    fill_large(&mut world, &journal, 1, end, 10);
}

#[test]
fn trims_free_a_full_disk_although_no_checkpoint_would_be_due() {
    let mut world = World::new(8);
    world.options.reserve_bytes = 2 * SEGMENT;
    world.options.checkpoint_bytes = 1 << 30;
    world.disk.set_capacity(6 * SEGMENT);
    let journal = world.open();
    world.create(&journal, stream(1));
    let (end, _) = fill_until_refused(&mut world, &journal);
    world.change(&journal, stream(1), trim(end)).unwrap();
    let mut tries = 0;
    while let crate::commit::AppendOutcome::NotCommitted(_) = world.append(&journal, stream(1), end, &vec![1; LARGE]) {
        tries += 1;
        assert!(tries < 30, "a producer that goes on trying gets through within seconds");
        world.executor.run_for(std::time::Duration::from_millis(200));
    }
    assert!(journal.stats().removed_segments > 0);
    fill_large(&mut world, &journal, 1, end + 1, 10);
}

#[test]
fn no_space_for_a_segment_is_a_refusal_and_not_poison() {
    let mut world = World::new(6);
    world.disk.set_capacity(2 * SEGMENT + 10_000);
    let journal = world.open();
    world.create(&journal, stream(1));
    let (end, refusal) = fill_until_refused(&mut world, &journal);
    assert_eq!(refusal.code(), ErrorCode::Unavailable, "{refusal}");
    assert!(journal.poisoned().is_none());
    assert_eq!(world.read_all(&journal, stream(1)).len() as u64, end);
    world.disk.set_capacity(20 * SEGMENT);
    fill_large(&mut world, &journal, 1, end, 100);
    let mut world = world.after_kill();
    let journal = world.open();
    assert_eq!(world.read_all(&journal, stream(1)).len() as u64, end + 100);
}

#[test]
fn a_segment_that_cannot_be_made_for_another_reason_poisons() {
    let mut world = World::new(7);
    let journal = world.open();
    world.create(&journal, stream(1));
    world.disk.fail(Fault {
        operation: Operation::Allocate,
        path_contains: ".new".into(),
        after: 0,
        times: 1000,
        kind: ErrorKind::Other,
    });
    let (_, refusal) = fill_until_refused(&mut world, &journal);
    assert_eq!(refusal.code(), ErrorCode::Io, "its frame was never written: {refusal}");
    assert!(journal.poisoned().is_some());
}
