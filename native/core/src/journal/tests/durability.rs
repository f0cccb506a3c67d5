//! What is acknowledged, when, and what a failing disk changes about it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::support::*;
use crate::commit::{AppendOutcome, HeadChange, Log};
use crate::env::sim::{Fault, Operation, SimRandom};
use crate::error::ErrorCode;
use crate::metadata::{Expected, Verdict};
use crate::record::Key;
use crate::types::Offset;

fn failing(operation: Operation, after: u64) -> Fault {
    Fault {
        operation,
        path_contains: ".seg".into(),
        after,
        times: 1,
        kind: ErrorKind::Other,
    }
}

#[test]
fn l02_nothing_is_visible_or_answered_before_the_sync() {
    let mut world = World::new(1);
    let journal = world.open();
    let cell = world.create(&journal, stream(1));
    let key = Key::stream_properties(stream(1));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let answered = Arc::new(Mutex::new(0));
    {
        let (seen, answered, cell) = (seen.clone(), answered.clone(), cell.clone());
        let (state, key) = (journal.shared.state.clone(), key.clone());
        world.disk.before_sync(move |_| {
            let end = cell.with(|head| head.unwrap().end.get());
            seen.lock()
                .push((end, state.get(&key).unwrap().is_some(), *answered.lock()));
        });
    }
    let outcome = world.append(&journal, stream(1), 0, b"entry");
    *answered.lock() += 1;
    committed(outcome, 0);
    assert!(matches!(
        world.write(&journal, key, Expected::Absent, b"value"),
        Verdict::Applied(_)
    ));
    let seen: Vec<_> = seen.lock().clone();
    assert_eq!(seen[0], (0, false, 0), "before the sync of the append");
    assert_eq!(seen[1], (1, false, 1), "before the sync of the write");
}

#[test]
fn l06_failed_sync_answers_unknown_and_poisons() {
    let mut world = World::new(2);
    let journal = world.open();
    world.create(&journal, stream(1));
    world.create(&journal, stream(2));
    world.fill(&journal, stream(1), 0, 2);
    world.disk.fail(failing(Operation::Sync, 0));
    let mine = send(&journal, stream(1), 1, 2, b"in the frame that fails");
    let write = journal.store().write(vec![crate::metadata::Write {
        key: Key::stream_properties(stream(2)),
        expected: Expected::Absent,
        value: Some("lost".into()),
    }]);
    let claim = journal.change(stream(2), HeadChange::Claim { owner: "x".into() });
    let (mine, write, claim) = world.executor.run(async { futures::join!(mine, write, claim) });
    assert!(matches!(mine.unwrap(), AppendOutcome::Unknown(error) if error.code() == ErrorCode::Unknown));
    assert!(matches!(&write[..], [Verdict::Unknown(error)] if error.code() == ErrorCode::Unknown));
    assert_eq!(claim.err().unwrap().code(), ErrorCode::Unknown);
    let first = journal.poisoned().expect("poisoned");
    assert_eq!(first.code(), ErrorCode::Io);
    assert!(
        first.to_string().contains("0000000000000001.seg") && first.to_string().contains("restart"),
        "{first}"
    );

    world.disk.heal();
    let later = not_committed(world.append(&journal, stream(1), 2, b"after"));
    assert_eq!(later.to_string(), first.to_string(), "the first reason is kept");
    match world.write(&journal, Key::stream_properties(stream(1)), Expected::Absent, b"x") {
        Verdict::Refused(error) => assert_eq!(error.to_string(), first.to_string()),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.head(&journal, stream(1)).unwrap().end, Offset::new(2));
    assert_eq!(world.read_all(&journal, stream(1)).len(), 2, "reads go on");
    assert_eq!(
        world.executor.run(journal.close()).unwrap_err().to_string(),
        first.to_string()
    );
}

#[test]
fn l06_failed_write_answers_unknown_and_poisons() {
    let mut world = World::new(3);
    let journal = world.open();
    world.create(&journal, stream(1));
    world.disk.fail(failing(Operation::Write, 0));
    assert!(matches!(
        world.append(&journal, stream(1), 0, b"x"),
        AppendOutcome::Unknown(_)
    ));
    assert!(journal.poisoned().is_some());
    let frames = journal.stats().frames;
    not_committed(world.append(&journal, stream(1), 0, b"x"));
    assert_eq!(journal.stats().frames, frames, "nothing is written any more");
}

#[test]
fn l01_what_verifies_after_a_failed_sync_is_brought_down_again_before_it_counts() {
    let mut world = World::new(4);
    let journal = world.open();
    world.create(&journal, stream(1));
    world.disk.fail(failing(Operation::Sync, 0));
    assert!(matches!(
        world.append(&journal, stream(1), 0, b"x"),
        AppendOutcome::Unknown(_)
    ));
    // The process is restarted, the machine is not: the page cache still has the frame.
    let mut world = world.after_kill();
    let journal = world.open();
    assert_eq!(world.head(&journal, stream(1)).unwrap().end, Offset::new(1));
    // Now it has been accepted, so also a loss of power must not take it.
    for seed in 0..10 {
        let mut world = world.after_crash(&SimRandom::new(seed));
        let journal = world.open();
        assert_eq!(
            world.head(&journal, stream(1)).unwrap().end,
            Offset::new(1),
            "seed {seed}"
        );
        assert_eq!(world.read_all(&journal, stream(1)), [&b"x"[..]]);
    }
}

#[test]
fn a_sync_that_fails_during_recovery_is_an_error_and_not_an_open_journal() {
    let mut world = World::new(5);
    let journal = world.open();
    world.create(&journal, stream(1));
    world.fill(&journal, stream(1), 0, 1);
    let mut world = world.after_kill();
    world.disk.fail(Fault {
        times: 1,
        ..failing(Operation::Sync, 0)
    });
    let error = world.try_open().err().unwrap();
    assert_eq!(error.code(), ErrorCode::Io, "{error}");
    world.disk.heal();
    let journal = world.open();
    assert_eq!(world.head(&journal, stream(1)).unwrap().end, Offset::new(1));
}

#[test]
fn a_lane_proves_its_last_frame_once_when_it_goes_idle() {
    let mut world = World::new(6);
    let journal = world.open();
    world.create(&journal, stream(1));
    world.executor.run_for(Duration::from_millis(100));
    let before = journal.stats();
    world.fill(&journal, stream(1), 0, 5);
    assert_eq!(journal.stats().markers, before.markers, "a busy lane writes no markers");
    world.executor.run_for(Duration::from_secs(3600));
    let after = journal.stats();
    assert_eq!(after.markers, before.markers + 1, "one per idle period");
    assert_eq!(after.syncs, before.syncs + 6);
}

#[test]
fn dropping_the_journal_answers_everything_that_waits() {
    let mut world = World::new(7);
    let journal = world.open();
    world.create(&journal, stream(1));
    let asked = send(&journal, stream(1), 1, 0, b"x");
    let store = journal.store();
    drop(journal);
    let outcome = world.executor.run(asked).unwrap();
    assert!(
        matches!(
            outcome,
            AppendOutcome::NotCommitted(_) | AppendOutcome::Committed { .. }
        ),
        "{outcome:?}"
    );
    let write = crate::metadata::Write {
        key: Key::ledger_grant(),
        expected: Expected::Any,
        value: Some("x".into()),
    };
    let verdicts = world.executor.run(store.write(vec![write]));
    assert!(matches!(&verdicts[..], [Verdict::Refused(error)] if error.code() == ErrorCode::Closed));
}
