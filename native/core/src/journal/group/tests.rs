//! When a group closes and what it says, without a disk.

use futures::executor::block_on;

use super::*;
use crate::commit::{AppendOutcome, AppendReply};
use crate::error::ErrorCode;
use crate::journal::backend::ModelBackend;
use crate::journal::frame::Frame;
use crate::journal::layout::Position;
use crate::journal::state::HeadUpdate;

const START: Position = Position {
    segment: 1,
    offset: 4096,
    sequence: 1,
    versions: 40,
};
const HEADER: Header = Header {
    segment: 1,
    sequence: 1,
    durable_through: 0,
    run: 5,
    time_millis: 77,
};

type Outcome = oneshot::Receiver<AppendOutcome>;

fn state() -> StateTable {
    let state = StateTable::create(Arc::new(ModelBackend::default()), 7, "here", START).unwrap();
    let mut heads = Vec::new();
    for n in 1..=3 {
        let mut head = StreamHead::new(StreamId::new(n), Incarnation::new(1), 0);
        head.owner_epoch = OwnerEpoch::new(1);
        heads.push((StreamId::new(n), HeadUpdate::set(Some(head))));
    }
    // Not checkpointed: the state holds the heads for the life of the test, as open streams do.
    state.publish(
        Update {
            heads,
            ..Update::default()
        },
        START,
    );
    state
}

fn limits() -> Limits {
    Limits {
        soft: 64 << 10,
        hard: 256 << 10,
        refuse_appends: None,
    }
}

fn group() -> Group {
    Group::new(limits(), 0, START.versions)
}

fn append(n: u128, offset: u64, length: usize) -> (Work, Outcome) {
    let (send, receive) = oneshot::channel();
    let entry = Bytes::from(vec![n as u8; length]);
    let crc32c = crc32c::crc32c(&entry);
    let append = Append {
        stream: StreamId::new(n),
        epoch: OwnerEpoch::new(1),
        offset: Offset::new(offset),
        entry,
        crc32c,
        messages: 1,
        reply: AppendReply::new(move |outcome| drop(send.send(outcome))),
    };
    (Work::Append(append), receive)
}

fn claim(n: u128) -> (Work, oneshot::Receiver<Result<Arc<HeadCell>>>) {
    let (reply, receive) = oneshot::channel();
    let change = HeadChange::Claim { owner: "x".into() };
    (
        Work::Change {
            stream: StreamId::new(n),
            change,
            reply,
        },
        receive,
    )
}

fn write(batch: Vec<Write>) -> (Work, oneshot::Receiver<Vec<Verdict>>) {
    let (reply, receive) = oneshot::channel();
    (Work::Write { batch, reply }, receive)
}

fn put(key: Key, expected: Expected) -> Write {
    Write {
        key,
        expected,
        value: Some("v".into()),
    }
}

fn takes(group: &mut Group, state: &StateTable, work: Work) -> bool {
    group.offer(state, work).is_ok()
}

fn frame(group: Group) -> (Frame, Sealed) {
    let mut out = AlignedBuffer::default();
    let mut id = 0;
    let ids = || {
        id += 1;
        CommitId::new(id)
    };
    let sealed = group
        .seal(&HEADER, 4096, &[], ids, &mut out)
        .map_err(|(_, error)| error)
        .unwrap();
    (Frame::decode(&out).unwrap(), sealed)
}

#[test]
fn a_group_closes_when_it_is_full_but_takes_one_large_item() {
    let state = state();
    let mut group = group();
    assert!(takes(&mut group, &state, append(1, 0, 40 << 10).0));
    assert!(
        !takes(&mut group, &state, append(1, 1, 40 << 10).0),
        "beyond the soft limit"
    );
    assert!(takes(&mut group, &state, append(2, 0, 10 << 10).0));
    assert!(group.frame_bytes() <= 64 << 10);
    let mut large = self::group();
    assert!(
        takes(&mut large, &state, append(1, 0, 200 << 10).0),
        "one large item is a group of its own"
    );
    let (too_large, outcome) = append(1, 0, 300 << 10);
    assert!(takes(&mut self::group(), &state, too_large));
    assert!(
        matches!(block_on(outcome), Ok(AppendOutcome::Unknown(_))),
        "its group was dropped unanswered"
    );
}

#[test]
fn an_item_that_fits_into_no_frame_is_refused() {
    let state = state();
    let mut group = group();
    let (work, outcome) = append(1, 0, 300 << 10);
    assert!(takes(&mut group, &state, work));
    assert!(group.has_no_deltas());
    group.into_answers().give(&state);
    match block_on(outcome).unwrap() {
        AppendOutcome::NotCommitted(error) => assert_eq!(error.code(), ErrorCode::Invalid),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_change_behind_a_slice_of_its_stream_closes_the_group_and_one_before_does_not() {
    let state = state();
    let mut group = group();
    assert!(takes(&mut group, &state, append(1, 0, 10).0));
    assert!(!takes(&mut group, &state, claim(1).0));
    assert!(takes(&mut group, &state, claim(2).0));
    assert!(takes(&mut group, &state, append(1, 1, 10).0));
    let (frame, _) = frame(group);
    assert_eq!(frame.deltas.len(), 2, "one slice, one change");
}

#[test]
fn l05_a_claim_fences_the_appends_behind_it_in_the_same_group() {
    let state = state();
    let mut group = group();
    let (change, _claimed) = claim(1);
    let (late, outcome) = append(1, 0, 10);
    assert!(takes(&mut group, &state, change) && takes(&mut group, &state, late));
    let (frame, sealed) = frame(group);
    assert_eq!(frame.deltas.len(), 1);
    let (_, answers) = sealed.split();
    answers.give(&state);
    match block_on(outcome).unwrap() {
        AppendOutcome::NotCommitted(error) => assert_eq!(error.code(), ErrorCode::Fenced),
        other => panic!("{other:?}"),
    }
}

#[test]
fn l03_a_slice_describes_its_commit_before_it_is_one() {
    let state = state();
    let mut group = group();
    for offset in 0..3 {
        assert!(takes(&mut group, &state, append(1, offset, 10).0));
    }
    let (frame, sealed) = frame(group);
    let Descriptor::Slice {
        stream,
        start,
        count,
        bytes,
        messages,
        previous,
        id,
        makes,
        epoch,
        ..
    } = &frame.deltas[0].0
    else {
        panic!("{:?}", frame.deltas);
    };
    assert_eq!(
        (*stream, *start, *count, *bytes, *messages),
        (StreamId::new(1), Offset::ZERO, 3, 30, 3)
    );
    assert_eq!(
        (*previous, *id, makes.get(), epoch.get()),
        (CommitId::NONE, CommitId::new(1), 2, 1)
    );
    assert!(
        state
            .head(StreamId::new(1))
            .unwrap()
            .unwrap()
            .with(|head| head.unwrap().ring.is_empty()),
        "nothing is published"
    );
    let (update, _) = sealed.split();
    state.publish(update, START);
    let cell = state.head(StreamId::new(1)).unwrap().unwrap();
    let head = cell.with(|head| head.cloned()).unwrap();
    assert_eq!(
        (head.end, head.ring.len(), head.last_append_millis),
        (Offset::new(3), 1, 77)
    );
}

#[test]
fn every_append_of_a_group_gets_its_own_entry_back() {
    let state = state();
    let mut group = group();
    let back = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let wanted: Vec<(u128, u64)> = vec![(1, 0), (2, 0), (1, 1), (3, 0), (2, 1), (1, 2)];
    for (stream, offset) in &wanted {
        let heard = back.clone();
        let entry = Bytes::from(format!("{stream}/{offset}"));
        let reply = AppendReply::with_entry(move |outcome, entry| match outcome {
            AppendOutcome::Committed { offset, .. } => heard.lock().push((offset, entry)),
            other => panic!("{other:?}"),
        });
        let (Work::Append(append), _) = append(*stream, *offset, 1) else {
            panic!("not an append")
        };
        assert!(takes(
            &mut group,
            &state,
            Work::Append(Append { entry, reply, ..append })
        ));
    }
    let (update, answers) = frame(group).1.split();
    state.publish(update, START);
    answers.give(&state);
    let wanted: Vec<_> = wanted
        .iter()
        .map(|(stream, offset)| (Offset::new(*offset), Some(Bytes::from(format!("{stream}/{offset}")))))
        .collect();
    assert_eq!(*back.lock(), wanted);
}

#[test]
fn verdicts_of_a_batch_see_the_writes_before_them_and_versions_rise_over_all_keys() {
    let state = state();
    let key = |n| Key::trim_mark(StreamId::new(n), Offset::ZERO);
    let mut group = group();
    let (batch, verdicts) = write(vec![
        put(key(1), Expected::Absent),
        put(key(1), Expected::Absent),
        put(key(1), Expected::Version(Version(41))),
        Write {
            key: key(1),
            expected: Expected::Version(Version(42)),
            value: None,
        },
        Write {
            key: key(1),
            expected: Expected::Any,
            value: None,
        },
        put(key(1), Expected::Absent),
        put(Key::stream_head(StreamId::new(1)), Expected::Any),
        put(key(2), Expected::Any),
    ]);
    assert!(takes(&mut group, &state, batch));
    let (frame, sealed) = frame(group);
    assert_eq!(frame.deltas.len(), 5);
    assert_eq!(sealed.versions(), 45);
    sealed.split().1.give(&state);
    let verdicts = block_on(verdicts).unwrap();
    let shown: Vec<String> = verdicts
        .iter()
        .map(|verdict| match verdict {
            Verdict::Applied(version) => format!("applied {}", version.0),
            Verdict::Conflict(there) => format!("conflict {:?}", there.as_ref().map(|there| there.version.0)),
            Verdict::Refused(error) => format!("refused {:?}", error.code()),
            Verdict::Unknown(_) => "unknown".into(),
        })
        .collect();
    let wanted = [
        "applied 41",
        "conflict Some(41)",
        "applied 42",
        "applied 42",
        "applied 0",
        "applied 44",
        "refused Invalid",
        "applied 45",
    ];
    assert_eq!(shown, wanted);
}

#[test]
fn a_large_batch_gets_the_verdicts_that_its_writes_get_alone() {
    let key = |stream, n| Key::trim_mark(StreamId::new(stream), Offset::new(n));
    let holding = || {
        let state = state();
        let value = |version| Versioned {
            value: "old".into(),
            version: Version(version),
        };
        let keys = (0..300)
            .filter(|n| n % 3 > 0)
            .map(|n| (key(1, n), Some(value(n))))
            .collect();
        let update = Update {
            keys,
            ..Update::default()
        };
        state.publish(update, START);
        state
    };
    let delete = |n: u64, version| Write {
        key: key(1, n),
        expected: Expected::Version(Version(version)),
        value: None,
    };
    let neighbours: Vec<Write> = (0..100).map(|n| delete(n, n)).collect();
    let mut conflicting = neighbours.clone();
    conflicting.push(delete(7, 8));
    conflicting.push(delete(8, 8));
    let mut mixed = conflicting.clone();
    mixed.push(put(key(1, 0), Expected::Absent));
    mixed.push(put(key(1, 299), Expected::Any));
    let spread: Vec<Write> = (0..30).map(|n| delete(n * 10, n * 10)).collect();
    let mut streams = neighbours.clone();
    streams.push(Write {
        key: key(2, 5),
        ..delete(5, 5)
    });
    for batch in [neighbours, conflicting, mixed, spread, streams] {
        let alone = {
            let (state, mut group) = (holding(), group());
            let verdicts: Vec<_> = batch
                .iter()
                .map(|one| {
                    let (work, verdicts) = write(vec![one.clone()]);
                    assert!(takes(&mut group, &state, work));
                    verdicts
                })
                .collect();
            frame(group).1.split().1.give(&state);
            let verdicts = verdicts.into_iter().flat_map(|verdicts| block_on(verdicts).unwrap());
            verdicts.map(|verdict| format!("{verdict:?}")).collect::<Vec<_>>()
        };
        let (state, mut group) = (holding(), group());
        let (work, verdicts) = write(batch);
        assert!(takes(&mut group, &state, work));
        frame(group).1.split().1.give(&state);
        let together: Vec<_> = block_on(verdicts)
            .unwrap()
            .iter()
            .map(|verdict| format!("{verdict:?}"))
            .collect();
        assert_eq!(together, alone);
    }
}

#[test]
fn l06_a_group_whose_frame_may_be_written_answers_unknown_and_one_never_written_a_refusal() {
    let state = state();
    for failure in [
        Failure::Unknown(Error::Unknown { what: "why".into() }),
        Failure::NeverWritten(Error::Unavailable {
            what: "full".into(),
            retry: std::time::Duration::ZERO,
        }),
    ] {
        let mut group = group();
        let (good, good_outcome) = append(1, 0, 10);
        let (gap, gap_outcome) = append(1, 5, 10);
        let (batch, verdicts) = write(vec![
            put(Key::trim_mark(StreamId::new(1), Offset::ZERO), Expected::Absent),
            put(Key::trim_mark(StreamId::new(1), Offset::ZERO), Expected::Absent),
        ]);
        let (change, changed) = claim(2);
        for work in [good, gap, batch, change] {
            assert!(takes(&mut group, &state, work));
        }
        group.fail(&failure);
        let unknown = matches!(failure, Failure::Unknown(_));
        let outcome = block_on(good_outcome).unwrap();
        assert_eq!(matches!(outcome, AppendOutcome::Unknown(_)), unknown, "{outcome:?}");
        assert_eq!(matches!(outcome, AppendOutcome::NotCommitted(_)), !unknown);
        assert!(matches!(
            block_on(gap_outcome).unwrap(),
            AppendOutcome::NotCommitted(Error::Suspended { .. })
        ));
        let verdicts = block_on(verdicts).unwrap();
        assert_eq!(matches!(verdicts[0], Verdict::Unknown(_)), unknown);
        assert!(
            matches!(verdicts[1], Verdict::Refused(_)),
            "a conflict with a write that may not be: {:?}",
            verdicts[1]
        );
        assert!(block_on(changed).unwrap().is_err());
    }
}

#[test]
fn appends_are_refused_by_name_while_changes_and_writes_go_on() {
    let state = state();
    let full = Error::Unavailable {
        what: "full".into(),
        retry: std::time::Duration::ZERO,
    };
    let mut group = Group::new(
        Limits {
            refuse_appends: Some(full),
            ..limits()
        },
        0,
        0,
    );
    let (work, outcome) = append(1, 0, 10);
    assert!(takes(&mut group, &state, work));
    assert!(takes(&mut group, &state, claim(1).0));
    assert!(takes(
        &mut group,
        &state,
        write(vec![put(Key::ledger_grant(), Expected::Any)]).0
    ));
    let (frame, sealed) = frame(group);
    assert_eq!(frame.deltas.len(), 2);
    sealed.split().1.give(&state);
    assert!(matches!(
        block_on(outcome).unwrap(),
        AppendOutcome::NotCommitted(Error::Unavailable { .. })
    ));
}
