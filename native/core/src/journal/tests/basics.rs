//! Appends, changes, keys and reads on a disk that works.

use std::sync::Arc;

use futures::FutureExt;

use super::support::*;
use crate::commit::{AppendOutcome, HeadChange, Log, FOLD, RING};
use crate::error::ErrorCode;
use crate::metadata::{Expected, Verdict};
use crate::record::{Key, RecordType};
use crate::types::{Offset, StreamId};

#[test]
fn l01_committed_entries_are_read_back_after_a_restart() {
    let mut world = World::new(1);
    let journal = world.open();
    world.create(&journal, stream(1));
    world.fill(&journal, stream(1), 0, 100);
    let expected: Vec<Vec<u8>> = (0..100).map(|offset| entry(stream(1), offset)).collect();
    assert_eq!(world.read_all(&journal, stream(1)), expected);
    let before = world.head(&journal, stream(1));
    let mut world = world.after_kill();
    let journal = world.open();
    assert_eq!(world.head(&journal, stream(1)), before, "replay gives the same head");
    assert_eq!(world.read_all(&journal, stream(1)), expected);
    assert!(journal.stats().replayed_frames >= 102, "{:?}", journal.stats());
    world.executor.run(journal.close()).unwrap();
    let mut world = world.after_kill();
    let journal = world.open();
    assert_eq!(
        journal.stats().replayed_frames,
        0,
        "a closed journal starts at its checkpoint"
    );
    assert_eq!(world.read_all(&journal, stream(1)), expected);
    world.create(&journal, stream(2));
    world.fill(&journal, stream(1), 100, 3);
    assert_eq!(world.read_all(&journal, stream(1)).len(), 103);
}

#[test]
fn a_group_is_one_frame_with_one_sync_whatever_is_in_it() {
    let mut world = World::new(2);
    let journal = world.open();
    for n in 0..5 {
        world.create(&journal, stream(n));
    }
    world.executor.run_for(std::time::Duration::from_millis(50));
    let before = journal.stats();
    let asked: Vec<_> = (0..20).flat_map(|offset| (0..5).map(move |n| (n, offset))).collect();
    let asked: Vec<_> = asked
        .iter()
        .map(|(n, offset)| send(&journal, stream(*n), 1, *offset, &entry(stream(*n), *offset)))
        .collect();
    let write = journal.store().write(vec![]);
    let outcomes = world.executor.run(futures::future::join_all(asked));
    drop(write);
    assert!(outcomes
        .iter()
        .all(|outcome| matches!(outcome, Ok(AppendOutcome::Committed { .. }))));
    let after = journal.stats();
    assert_eq!(after.syncs - before.syncs, 1, "100 appends, one sync");
    let head = world.head(&journal, stream(3)).unwrap();
    assert_eq!(head.ring.len(), 1, "one slice and one commit per stream and group");
    assert_eq!((head.ring[0].count, head.ring[0].messages), (20, 20));
}

#[test]
fn l04_only_the_next_offset_is_committed_and_refusals_take_nothing() {
    let mut world = World::new(3);
    let journal = world.open();
    world.create(&journal, stream(1));
    let asked = [0, 1, 3, 4, 2].map(|offset| send(&journal, stream(1), 1, offset, b"entry"));
    let outcomes: Vec<_> = world
        .executor
        .run(futures::future::join_all(asked))
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let codes: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| match outcome {
            AppendOutcome::Committed { offset, .. } => Ok(offset.get()),
            other => Err(not_committed(other).code()),
        })
        .collect();
    let suspended = Err(ErrorCode::Suspended);
    assert_eq!(codes, [Ok(0), Ok(1), suspended, suspended, Ok(2)]);
    assert_eq!(world.head(&journal, stream(1)).unwrap().end, Offset::new(3));
}

#[test]
fn l05_fenced_owner_cannot_append_or_change_also_inside_one_group() {
    let mut world = World::new(4);
    let journal = world.open();
    world.create(&journal, stream(1));
    let first = send(&journal, stream(1), 1, 0, b"by the first owner");
    let claim = journal.change(stream(1), HeadChange::Claim { owner: "second".into() });
    let late = send(&journal, stream(1), 1, 1, b"too late");
    let new = send(&journal, stream(1), 2, 1, b"by the second owner");
    let trim = journal.change(
        stream(1),
        HeadChange::Trim {
            epoch: epoch(1),
            before: Offset::new(1),
            trimmed_bytes: 0,
        },
    );
    let (first, claim, late, new, trim) = world
        .executor
        .run(async { futures::join!(first, claim, late, new, trim) });
    committed(first.unwrap(), 0);
    claim
        .unwrap()
        .with(|head| assert_eq!(head.unwrap().owner_epoch, epoch(2)));
    let error = not_committed(late.unwrap());
    assert_eq!(error.code(), ErrorCode::Fenced, "{error}");
    committed(new.unwrap(), 1);
    assert_eq!(trim.err().unwrap().code(), ErrorCode::Fenced);
}

#[test]
fn changes_answer_what_they_found() {
    let mut world = World::new(5);
    let journal = world.open();
    let missing = world.change(&journal, stream(1), HeadChange::Claim { owner: "x".into() });
    assert_eq!(missing.err().unwrap().code(), ErrorCode::NotFound);
    let error = not_committed(world.append(&journal, stream(1), 0, b"x"));
    assert_eq!(error.code(), ErrorCode::NotFound);
    world.create(&journal, stream(1));
    let again = HeadChange::Create {
        stream: stream(1),
        incarnation: crate::types::Incarnation::new(1),
        created_millis: 0,
    };
    assert_eq!(
        world.change(&journal, stream(1), again).err().unwrap().code(),
        ErrorCode::AlreadyExists
    );
    world.fill(&journal, stream(1), 0, 3);
    let cell = world
        .change(&journal, stream(1), HeadChange::Terminate { epoch: epoch(1) })
        .unwrap();
    let frames = journal.stats().frames;
    let twice = world
        .change(&journal, stream(1), HeadChange::Terminate { epoch: epoch(1) })
        .unwrap();
    assert!(std::sync::Arc::ptr_eq(&cell, &twice));
    assert_eq!(
        journal.stats().frames - journal.stats().markers,
        frames,
        "what changes nothing writes nothing"
    );
    assert_eq!(
        not_committed(world.append(&journal, stream(1), 3, b"x")).code(),
        ErrorCode::Terminated
    );
    let gone = world
        .change(&journal, stream(1), HeadChange::Delete { epoch: None })
        .unwrap();
    gone.with(|head| assert!(head.is_none()));
    assert!(world.head(&journal, stream(1)).is_none());
    let mut world = world.after_kill();
    let journal = world.open();
    assert!(world.head(&journal, stream(1)).is_none());
    let nothing = world
        .change(&journal, stream(1), HeadChange::Delete { epoch: None })
        .unwrap();
    nothing.with(|head| assert!(head.is_none()));
}

#[test]
fn a_full_ring_is_folded_into_pages_the_same_way_at_commit_and_at_replay() {
    let mut world = World::new(6);
    let journal = world.open();
    world.create(&journal, stream(1));
    let commits = (RING + 2 * FOLD + 3) as u64;
    world.fill(&journal, stream(1), 0, commits);
    let (from, to) = Key::stream_range(RecordType::CommitPage, stream(1));
    let pages = world
        .executor
        .run(journal.store().scan(from.clone(), to.clone(), 100))
        .unwrap();
    assert_eq!(pages.len(), 3);
    assert_eq!(world.commits(&journal, stream(1)).len() as u64, commits);
    let mut world = world.after_kill();
    let journal = world.open();
    assert_eq!(world.executor.run(journal.store().scan(from, to, 100)).unwrap(), pages);
    assert_eq!(world.read_all(&journal, stream(1)).len() as u64, commits);
}

#[test]
fn heads_and_pages_change_through_the_log_only() {
    let mut world = World::new(7);
    let journal = world.open();
    world.create(&journal, stream(1));
    for key in [Key::stream_head(stream(1)), Key::commit_page(stream(1), Offset::ZERO)] {
        match world.write(&journal, key, Expected::Any, b"x") {
            Verdict::Refused(error) => assert_eq!(error.code(), ErrorCode::Invalid, "{error}"),
            other => panic!("{other:?}"),
        }
    }
    let stored = world
        .executor
        .run(journal.store().get(Key::stream_head(stream(1))))
        .unwrap()
        .unwrap();
    assert_eq!(
        stored.version.0, 2,
        "the head reads as a record under its commit version"
    );
}

#[test]
fn one_stream_has_one_cell_while_somebody_holds_it_and_none_in_memory_afterwards() {
    let mut world = World::new(8);
    let journal = world.open();
    let cell = world.create(&journal, stream(1));
    world.fill(&journal, stream(1), 0, 2);
    world.executor.run(journal.checkpoint()).unwrap();
    let again = world.executor.run(journal.load(stream(1))).unwrap().unwrap();
    assert!(std::sync::Arc::ptr_eq(&cell, &again));
    drop((cell, again));
    world.fill(&journal, stream(1), 2, 1);
    assert_eq!(world.head(&journal, stream(1)).unwrap().end, Offset::new(3));
    world.executor.run(journal.checkpoint()).unwrap();
    assert_eq!(journal.heads_in_memory(), 0, "idle streams cost no memory");
    assert_eq!(world.head(&journal, stream(1)).unwrap().end, Offset::new(3));
    assert!(world.head(&journal, StreamId::new(99)).is_none());
}

#[test]
fn an_entry_above_the_limit_is_refused_at_the_door() {
    let mut world = World::new(9);
    let journal = world.open();
    world.create(&journal, stream(1));
    let large = vec![1; world.options.max_entry + 1];
    assert_eq!(
        not_committed(world.append(&journal, stream(1), 0, &large)).code(),
        ErrorCode::Invalid
    );
    committed(world.append(&journal, stream(1), 0, &large[1..]), 0);
}

#[test]
fn a_closed_journal_answers_everything() {
    let mut world = World::new(10);
    let journal = world.open();
    world.create(&journal, stream(1));
    let before = send(&journal, stream(1), 1, 0, b"queued before the close");
    let closing = journal.close();
    let after = send(&journal, stream(1), 1, 1, b"queued after it");
    let (before, closed, after) = world.executor.run(async { futures::join!(before, closing, after) });
    committed(before.unwrap(), 0);
    closed.unwrap();
    assert_eq!(not_committed(after.unwrap()).code(), ErrorCode::Closed);
    assert_eq!(
        world.executor.run(journal.close()).unwrap_err().code(),
        ErrorCode::Closed
    );
    assert_eq!(
        not_committed(world.append(&journal, stream(1), 1, b"x")).code(),
        ErrorCode::Closed
    );
    assert_eq!(world.read_all(&journal, stream(1)).len(), 1, "reads go on");
}

#[test]
fn segments_roll_over_and_reads_find_every_one() {
    let mut world = World::new(11);
    let journal = world.open();
    world.create(&journal, stream(1));
    let large = vec![7; 60 << 10];
    for offset in 0..200 {
        committed(world.append(&journal, stream(1), offset, &large), offset);
    }
    let segments: std::collections::BTreeSet<_> = world
        .commits(&journal, stream(1))
        .iter()
        .map(|commit| match commit.target {
            crate::commit::ReadTarget::Journal { segment, .. } => segment,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(segments.len() >= 3, "{segments:?}");
    let mut world = world.after_kill();
    let journal = world.open();
    assert_eq!(world.read_all(&journal, stream(1)).len(), 200);
}

#[test]
fn what_memory_knows_is_answered_at_once_and_the_rest_by_the_backend() {
    let mut world = World::new(90);
    let journal = world.open();
    let held = world.create(&journal, stream(1));
    world.fill(&journal, stream(1), 0, 3);
    let key = Key::stream_properties(stream(1));
    let _ = world.write(&journal, key.clone(), Expected::Absent, b"v");
    let loaded = journal.load(stream(1)).now_or_never().unwrap().unwrap().unwrap();
    assert!(Arc::ptr_eq(&loaded, &held));
    let found = journal.store().get(key.clone()).now_or_never().unwrap().unwrap();
    assert_eq!(found.unwrap().value, b"v"[..]);
    // After two checkpoints nothing is above the backend, and the head is in memory only where somebody holds it.
    world.executor.run(journal.checkpoint()).unwrap();
    assert!(journal.load(stream(1)).now_or_never().is_some());
    drop((loaded, held));
    world.executor.run(journal.checkpoint()).unwrap();
    assert!(journal.store().get(key.clone()).now_or_never().is_none());
    assert_eq!(world.value(&journal, key).unwrap(), b"v"[..]);
    assert_eq!(world.head(&journal, stream(1)).unwrap().end, Offset::new(3));
    world
        .change(&journal, stream(1), HeadChange::Delete { epoch: None })
        .unwrap();
    assert!(journal.load(stream(1)).now_or_never().unwrap().unwrap().is_none());
}
