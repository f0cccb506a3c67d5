//! Storage cases about appends whose answer is lost, late or refused, on the path where each of them can happen.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use bytes::Bytes;

use super::tests::Memory;
use crate::commit::AppendOutcome;
use crate::error::{Error, ErrorCode};
use crate::metadata::faults::Fault;
use crate::stream::suite::{append, outcome, plenty, put, read_all, World};
use crate::types::Offset;

fn texts(numbers: std::ops::RangeInclusive<u8>) -> Vec<Vec<u8>> {
    numbers.map(|n| vec![n]).collect()
}

#[test]
fn l04_stored_entry_whose_reply_was_lost_is_there_once_case_001() {
    for fault in [Fault::LoseAnswer, Fault::Late] {
        let mut world = World::new(Memory::default());
        let stream = world.stream();
        put(&stream, &[1]);
        world.fixture.faults().next(fault);
        let lost = append(&stream, &[2]).unwrap().1;
        assert!(matches!(outcome(&lost), AppendOutcome::Committed { offset, .. } if offset == Offset::new(1)));
        world.rt.block_on(world.fixture.faults().arrive());
        put(&stream, &[3]);
        assert_eq!(read_all(&world.rt, &stream, 0), texts(1..=3), "{fault:?}");
        assert_eq!((stream.state().entries, stream.state().bytes), (3, 3));
        world.reopen();
        let stream = world.uncached();
        assert_eq!(read_all(&world.rt, &stream, 0), texts(1..=3), "{fault:?}");
        assert_eq!(
            (stream.state().entries, stream.state().bytes),
            (3, 3),
            "counters agree with what is read"
        );
    }
}

#[test]
fn l06_after_a_failed_append_a_resend_closes_the_gap_in_order_case_003() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    texts(1..=3)
        .iter()
        .for_each(|entry| assert!(put(&stream, entry).get() < 3));
    world.fixture.wal().refuse_writes(Some(Error::Unavailable {
        what: "no space".into(),
        retry: std::time::Duration::from_millis(1),
    }));
    for entry in texts(4..=10) {
        // Refused at once, or after it was queued: in both cases certainly not stored.
        if let Ok((_, receiver)) = append(&stream, &entry) {
            assert!(matches!(outcome(&receiver), AppendOutcome::NotCommitted(_)));
        }
    }
    world.fixture.wal().refuse_writes(None);
    stream.resume().unwrap();
    let resent: Vec<_> = texts(4..=10)
        .iter()
        .map(|entry| append(&stream, entry).unwrap())
        .collect();
    for (n, (reserved, receiver)) in resent.iter().enumerate() {
        assert_eq!(*reserved, Offset::new(3 + n as u64));
        assert!(matches!(outcome(receiver), AppendOutcome::Committed { offset, .. } if offset == *reserved));
    }
    world.reopen();
    let stream = world.uncached();
    assert_eq!(read_all(&world.rt, &stream, 0), texts(1..=10), "no gap, no copy");
}

#[test]
fn l06_closing_answers_every_pending_append_once_and_frees_its_memory_case_022() {
    let mut world = World::new(Memory::default());
    let caches = plenty();
    let memory = caches.budget.open_groups.clone();
    let stream = world.take_over(caches).unwrap().0;
    for n in 1..1000 {
        world.fixture.faults().nth(n, Fault::Late);
    }
    let answers: Arc<[AtomicUsize; 100]> = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
    for n in 0..100 {
        let answers = answers.clone();
        let answered = move |outcome| {
            assert!(!matches!(outcome, AppendOutcome::Committed { .. }), "{outcome:?}");
            answers[n].fetch_add(1, Ordering::SeqCst);
        };
        stream.append(Bytes::from_static(b"pending"), 1, answered).unwrap();
    }
    let closing = stream.close();
    crate::stream::suite::Fixture::close(&mut world.fixture, &world.rt);
    world.rt.block_on(closing).unwrap();
    assert!(
        answers.iter().all(|answers| answers.load(Ordering::SeqCst) == 1),
        "before the close completes"
    );
    assert_eq!(memory.used(), 0);
    assert_eq!(append(&stream, b"x").map(drop).unwrap_err().code(), ErrorCode::Closed);
}

#[test]
fn l06_late_reply_of_an_earlier_copy_completes_nothing_again_case_062() {
    let mut world = World::new(Memory::default());
    let stream = world.stream();
    world.fixture.faults().next(Fault::Late);
    let answers = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (seen, (sender, receiver)) = (answers.clone(), std::sync::mpsc::channel());
    let answered = move |outcome| {
        seen.lock().push(match outcome {
            AppendOutcome::Committed { offset, .. } => Some(offset.get()),
            _ => None,
        });
        sender.send(()).unwrap();
    };
    stream.append(Bytes::from_static(&[1]), 1, answered).unwrap();
    receiver.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    // The first copy arrives after the second was applied and answered.
    world.rt.block_on(world.fixture.faults().arrive());
    put(&stream, &[2]);
    assert_eq!(*answers.lock(), [Some(0)], "once, with the offset that readers see");
    assert_eq!(read_all(&world.rt, &stream, 0), texts(1..=2));
}
