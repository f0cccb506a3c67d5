//! Heads against a model: random commits and changes, every legal one and many illegal ones.

use proptest::prelude::*;

use super::*;
use crate::error::ErrorCode;
use crate::types::{CommitId, Incarnation, Offset, OwnerEpoch, StreamId};

const STREAM: StreamId = StreamId::new(9);

fn head() -> StreamHead {
    StreamHead::new(STREAM, Incarnation::new(1), 5)
}

fn commit(id: u128, start: u64, count: u32, bytes: u64) -> Commit {
    Commit {
        id: CommitId::new(id),
        start: Offset::new(start),
        count,
        bytes,
        messages: u64::from(count),
        // Goes back now and then.
        append_millis: 1000 + start * 7 % 50,
        target: ReadTarget::Memory { slice: id as u64 },
        crc32c: 0,
    }
}

fn latest(commits: &[Commit]) -> u64 {
    commits.iter().map(|c| c.append_millis).max().unwrap_or(0)
}

fn changed(head: &StreamHead, change: HeadChange) -> StreamHead {
    match change.judge(STREAM, Some(head)).unwrap() {
        Changed::Head(next) => *next,
        other => panic!("expected a new head, got {other:?}"),
    }
}

fn refusal(head: Option<&StreamHead>, change: HeadChange) -> ErrorCode {
    change.judge(STREAM, head).unwrap_err().code()
}

#[derive(Debug, Clone)]
enum Op {
    Commit { count: u32, bytes: u64 },
    Trim { to: prop::sample::Index, bytes: u64 },
    Claim,
    Terminate,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1u32..70, 0u64..5000).prop_map(|(count, bytes)| Op::Commit { count, bytes }),
        1 => (any::<prop::sample::Index>(), any::<u64>()).prop_map(|(to, bytes)| Op::Trim { to, bytes }),
        1 => Just(Op::Claim),
        1 => Just(Op::Terminate),
    ]
}

proptest! {
    #[test]
    fn l04_dense_ring_and_folds_tile_the_stream_and_every_change_is_one_version(ops in prop::collection::vec(op(), 0..250)) {
        let mut head = head();
        let mut folded: Vec<Commit> = Vec::new();
        let mut all: Vec<Commit> = Vec::new();
        for (n, op) in ops.into_iter().enumerate() {
            let before = head.clone();
            match op {
                Op::Commit { count, bytes } => {
                    if head.terminated {
                        let refused = head.tail().check(head.owner_epoch, head.end).unwrap_err();
                        prop_assert_eq!(refused.code(), ErrorCode::Terminated);
                        continue;
                    }
                    let next = commit(n as u128 + 1, head.end.get(), count, bytes);
                    all.push(next);
                    if let Some(fold) = head.commit(next) {
                        prop_assert_eq!(fold.bytes_before, folded.iter().map(|c| c.bytes).sum::<u64>());
                        prop_assert_eq!(fold.latest_before, latest(&folded));
                        prop_assert_eq!(fold.commits.len(), FOLD);
                        folded.extend(fold.commits);
                    }
                }
                Op::Trim { to, bytes } => {
                    let to = to.index(usize::try_from(head.end.get()).unwrap() + 1) as u64;
                    let change = HeadChange::Trim { epoch: head.owner_epoch, before: Offset::new(to), trimmed_bytes: bytes };
                    match change.judge(STREAM, Some(&head)).unwrap() {
                        Changed::Head(next) => head = *next,
                        other => {
                            prop_assert_eq!(other, Changed::Nothing);
                            prop_assert!(to <= head.trim.get());
                            continue;
                        }
                    }
                }
                Op::Claim => head = changed(&head, HeadChange::Claim { owner: "me".into() }),
                Op::Terminate => match (HeadChange::Terminate { epoch: head.owner_epoch }).judge(STREAM, Some(&head)).unwrap() {
                    Changed::Head(next) => head = *next,
                    _ => continue,
                },
            }
            prop_assert_eq!(head.version.get(), before.version.get() + 1);
            prop_assert!(head.trim >= before.trim && head.trim <= head.end && head.end >= before.end);
            prop_assert!(head.trimmed_bytes >= before.trimmed_bytes && head.trimmed_bytes <= head.total_bytes);
            prop_assert!(head.ring.len() <= RING);
            let tiled: Vec<Commit> = folded.iter().chain(&head.ring).copied().collect();
            prop_assert_eq!(&tiled, &all);
            prop_assert_eq!(head.bytes_before_ring(), folded.iter().map(|c| c.bytes).sum::<u64>());
            prop_assert_eq!((head.folded_append_millis, head.latest_append_millis()), (latest(&folded), latest(&all)));
        }
        for c in &head.ring {
            prop_assert_eq!(head.find(c.start).map(|f| f.id), Some(c.id));
            prop_assert_eq!(head.find(Offset::new(c.end().unwrap().get() - 1)).map(|f| f.id), Some(c.id));
        }
        prop_assert!(head.find(head.end).is_none());
    }
}

#[test]
#[should_panic(expected = "starts at 3, the stream ends at 2")]
fn l04_commit_that_does_not_touch_the_end_stops_the_program() {
    let mut head = head();
    head.commit(commit(1, 0, 2, 10));
    head.commit(commit(2, 3, 1, 10));
}

#[test]
fn l05_every_change_of_an_old_owner_is_fenced() {
    let old = OwnerEpoch::new(1);
    let first = changed(&head(), HeadChange::Claim { owner: "a".into() });
    assert_eq!(first.owner_epoch, old);
    let second = changed(&first, HeadChange::Claim { owner: "b".into() });
    for change in [
        HeadChange::Trim {
            epoch: old,
            before: Offset::ZERO,
            trimmed_bytes: 0,
        },
        HeadChange::Terminate { epoch: old },
        HeadChange::Delete { epoch: Some(old) },
    ] {
        let error = change.judge(STREAM, Some(&second)).unwrap_err();
        assert!(
            matches!(error, crate::Error::Fenced { by_epoch, .. } if by_epoch == OwnerEpoch::new(2)),
            "{error}"
        );
    }
}

#[test]
fn repeated_change_changes_nothing() {
    let mut live = changed(&head(), HeadChange::Claim { owner: "a".into() });
    live.commit(commit(1, 0, 4, 40));
    let epoch = live.owner_epoch;
    let trim = HeadChange::Trim {
        epoch,
        before: Offset::new(2),
        trimmed_bytes: 20,
    };
    let trimmed = changed(&live, trim.clone());
    assert_eq!(trim.judge(STREAM, Some(&trimmed)).unwrap(), Changed::Nothing);
    let ended = changed(&trimmed, HeadChange::Terminate { epoch });
    assert_eq!(
        HeadChange::Terminate { epoch }.judge(STREAM, Some(&ended)).unwrap(),
        Changed::Nothing
    );
    assert_eq!(
        HeadChange::Delete { epoch: Some(epoch) }
            .judge(STREAM, Some(&ended))
            .unwrap(),
        Changed::Deleted
    );
    assert_eq!(
        HeadChange::Delete { epoch: Some(epoch) }.judge(STREAM, None).unwrap(),
        Changed::Nothing
    );
}

#[test]
fn change_of_a_missing_or_existing_stream_is_refused_by_name() {
    let create = HeadChange::Create {
        stream: STREAM,
        incarnation: Incarnation::new(1),
        created_millis: 5,
    };
    assert_eq!(create.judge(STREAM, None).unwrap(), Changed::Head(Box::new(head())));
    assert_eq!(refusal(Some(&head()), create), ErrorCode::AlreadyExists);
    assert_eq!(
        refusal(None, HeadChange::Claim { owner: "a".into() }),
        ErrorCode::NotFound
    );
    assert_eq!(
        refusal(
            None,
            HeadChange::Terminate {
                epoch: OwnerEpoch::new(0)
            }
        ),
        ErrorCode::NotFound
    );
}

#[test]
fn trim_past_the_end_is_refused_and_trim_to_the_end_counts_every_byte() {
    let mut live = head();
    live.commit(commit(1, 0, 4, 41));
    let epoch = live.owner_epoch;
    let past = HeadChange::Trim {
        epoch,
        before: Offset::new(5),
        trimmed_bytes: 0,
    };
    assert_eq!(refusal(Some(&live), past), ErrorCode::Invalid);
    let all = changed(
        &live,
        HeadChange::Trim {
            epoch,
            before: Offset::new(4),
            trimmed_bytes: 7,
        },
    );
    assert_eq!(all.trimmed_bytes, 41);
    assert_eq!(all.ring.len(), 1, "the last commit stays readable");
}
