//! One suite for every provider: what [`MetadataStore`] promises, checked from outside.
//!
//! `metadata_store_suite!(fixture)` expands every case in the module that calls it. A case that depends on a capability asserts
//! what the provider declared: that it works, or that it is refused by name.

use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;

use super::faults::{Fault, Faults};
use super::settle::write_settled;
use super::{Expected, MetadataStore, Verdict, Version, Versioned, Write};
use crate::env::{BoxFuture, Clock};
use crate::error::ErrorCode;
use crate::record::{Key, RecordType};
use crate::types::{Offset, StreamId};

/// A provider under test.
pub(crate) trait Fixture {
    /// The store, opened.
    fn store(&self) -> Arc<dyn MetadataStore>;
    /// Closes and reopens it on what is durable. Stores handed out before are not used again.
    fn restart(&mut self);
    /// The keys it can hold.
    fn keys(&self) -> Keys;
    /// The plan of the faults of its writes; `None` when answers cannot be lost on the way to this provider.
    fn faults(&self) -> Option<Faults>;
}

/// Which records a provider holds.
pub(crate) enum Keys {
    /// Records that hang on a stream.
    OfAStream,
    /// Bindings.
    OfBindings,
}

const STREAM: StreamId = StreamId::new(0xabcd);

/// The `n`th of a provider's keys, ascending.
pub(crate) fn key(fixture: &impl Fixture, n: u64) -> Key {
    key_of(fixture, STREAM, n)
}

fn key_of(fixture: &impl Fixture, stream: StreamId, n: u64) -> Key {
    match fixture.keys() {
        Keys::OfAStream => Key::trim_mark(stream, Offset::new(n + 1)),
        Keys::OfBindings => Key::binding(&format!("tenant/{n:09}")).unwrap(),
    }
}

fn put(key: &Key, expected: Expected, value: &'static str) -> Write {
    Write {
        key: key.clone(),
        expected,
        value: Some(Bytes::from_static(value.as_bytes())),
    }
}

fn delete(key: &Key, expected: Expected) -> Write {
    Write {
        key: key.clone(),
        expected,
        value: None,
    }
}

fn write(store: &Arc<dyn MetadataStore>, write: Write) -> Verdict {
    let mut verdicts = block_on(store.write(vec![write]));
    assert_eq!(verdicts.len(), 1, "one verdict per write");
    verdicts.pop().unwrap()
}

fn applied(verdict: Verdict) -> Version {
    match verdict {
        Verdict::Applied(version) => version,
        other => panic!("expected Applied, got {other:?}"),
    }
}

fn conflict(verdict: Verdict) -> Option<Versioned> {
    match verdict {
        Verdict::Conflict(there) => there,
        other => panic!("expected Conflict, got {other:?}"),
    }
}

fn get(store: &Arc<dyn MetadataStore>, key: &Key) -> Option<Versioned> {
    block_on(store.get(key.clone())).unwrap()
}

fn value(store: &Arc<dyn MetadataStore>, key: &Key) -> Option<Bytes> {
    get(store, key).map(|there| there.value)
}

/// A clock whose pauses are over at once.
struct NoPauses;

impl Clock for NoPauses {
    fn wall_millis(&self) -> u64 {
        0
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    fn sleep(&self, _pause: std::time::Duration) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

pub(crate) fn absent_key_reads_as_absent(fixture: impl Fixture) {
    assert_eq!(get(&fixture.store(), &key(&fixture, 0)), None);
}

pub(crate) fn only_one_creation_wins_and_the_loser_sees_what_is_there(fixture: impl Fixture) {
    let (store, key) = (fixture.store(), key(&fixture, 0));
    let version = applied(write(&store, put(&key, Expected::Absent, "first")));
    let there = conflict(write(&store, put(&key, Expected::Absent, "second")));
    assert_eq!(
        there,
        Some(Versioned {
            value: "first".into(),
            version
        })
    );
    assert_eq!(get(&store, &key), there);
}

pub(crate) fn a_versioned_write_applies_only_onto_its_version(fixture: impl Fixture) {
    let (store, key) = (fixture.store(), key(&fixture, 0));
    assert_eq!(
        conflict(write(&store, put(&key, Expected::Version(Version(1)), "x"))),
        None,
        "onto nothing"
    );
    let first = applied(write(&store, put(&key, Expected::Absent, "first")));
    let second = applied(write(&store, put(&key, Expected::Version(first), "second")));
    assert!(second > first, "versions rise");
    let there = conflict(write(&store, put(&key, Expected::Version(first), "third"))).unwrap();
    assert_eq!(
        there,
        Versioned {
            value: "second".into(),
            version: second
        }
    );
    let third = applied(write(&store, put(&key, Expected::Any, "third")));
    assert!(third > second, "versions rise also without a condition");
    assert_eq!(
        get(&store, &key),
        Some(Versioned {
            value: "third".into(),
            version: third
        })
    );
}

pub(crate) fn writes_of_one_batch_have_independent_verdicts(fixture: impl Fixture) {
    let store = fixture.store();
    let keys: Vec<Key> = (0..3).map(|n| key(&fixture, n)).collect();
    applied(write(&store, put(&keys[1], Expected::Absent, "there")));
    let batch = keys.iter().map(|key| put(key, Expected::Absent, "new")).collect();
    let verdicts = block_on(store.write(batch));
    assert!(
        matches!(
            verdicts[..],
            [Verdict::Applied(_), Verdict::Conflict(Some(_)), Verdict::Applied(_)]
        ),
        "{verdicts:?}"
    );
    let values: Vec<_> = keys.iter().map(|key| value(&store, key).unwrap()).collect();
    assert_eq!(values, ["new", "there", "new"]);
}

pub(crate) fn writes_of_one_batch_apply_in_order(fixture: impl Fixture) {
    let (store, key) = (fixture.store(), key(&fixture, 0));
    let batch = vec![
        put(&key, Expected::Absent, "one"),
        put(&key, Expected::Any, "two"),
        put(&key, Expected::Absent, "three"),
        put(&key, Expected::Any, "four"),
    ];
    let verdicts = block_on(store.write(batch));
    match &verdicts[..] {
        [Verdict::Applied(one), Verdict::Applied(two), Verdict::Conflict(Some(_)), Verdict::Applied(four)] => {
            assert!(one < two && two < four, "{verdicts:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(value(&store, &key).unwrap(), "four");
}

pub(crate) fn an_empty_batch_is_answered(fixture: impl Fixture) {
    assert!(block_on(fixture.store().write(Vec::new())).is_empty());
}

pub(crate) fn of_many_creators_at_once_exactly_one_wins(fixture: impl Fixture) {
    let (store, key) = (fixture.store(), key(&fixture, 0));
    // All are sent before the first answer is waited for.
    let sent: Vec<_> = (0..50)
        .map(|_| store.write(vec![put(&key, Expected::Absent, "mine")]))
        .collect();
    let verdicts: Vec<_> = sent.into_iter().flat_map(block_on).collect();
    let (winners, losers): (Vec<_>, Vec<_>) = verdicts.iter().partition(|v| matches!(v, Verdict::Applied(_)));
    assert_eq!(winners.len(), 1, "{verdicts:?}");
    assert!(
        losers.iter().all(|v| matches!(v, Verdict::Conflict(Some(_)))),
        "{verdicts:?}"
    );
}

pub(crate) fn delete_is_conditional_and_versions_are_never_used_again(fixture: impl Fixture) {
    let (store, key) = (fixture.store(), key(&fixture, 0));
    let first = applied(write(&store, put(&key, Expected::Absent, "first")));
    if !store.capabilities().deletes {
        match write(&store, delete(&key, Expected::Version(first))) {
            Verdict::Refused(error) => assert_eq!(error.code(), ErrorCode::Unsupported, "{error}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(value(&store, &key).unwrap(), "first");
        return;
    }
    let second = applied(write(&store, put(&key, Expected::Any, "second")));
    assert!(conflict(write(&store, delete(&key, Expected::Version(first)))).is_some());
    assert_eq!(
        applied(write(&store, delete(&key, Expected::Version(second)))),
        second,
        "the version that was removed"
    );
    assert_eq!(get(&store, &key), None);
    assert_eq!(conflict(write(&store, delete(&key, Expected::Version(second)))), None);
    let third = applied(write(&store, put(&key, Expected::Absent, "third")));
    assert!(third > second, "a version of the first life would let its owner in");
    assert!(conflict(write(&store, put(&key, Expected::Version(second), "ghost"))).is_some());
    assert_eq!(value(&store, &key).unwrap(), "third");
}

pub(crate) fn deleting_nothing_says_so(fixture: impl Fixture) {
    let (store, key) = (fixture.store(), key(&fixture, 0));
    if store.capabilities().deletes {
        assert_eq!(applied(write(&store, delete(&key, Expected::Any))), Version(0));
        assert_eq!(get(&store, &key), None);
    }
}

pub(crate) fn a_value_above_the_limit_is_refused_without_effect(fixture: impl Fixture) {
    let (store, key) = (fixture.store(), key(&fixture, 0));
    let large = Bytes::from(vec![7; store.capabilities().max_value + 1]);
    let verdict = write(
        &store,
        Write {
            key: key.clone(),
            expected: Expected::Absent,
            value: Some(large),
        },
    );
    match verdict {
        Verdict::Refused(error) => assert_eq!(error.code(), ErrorCode::Invalid, "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&store, &key), None);
    let fits = Bytes::from(vec![7; 100 * 1024]);
    applied(write(
        &store,
        Write {
            key: key.clone(),
            expected: Expected::Absent,
            value: Some(fits.clone()),
        },
    ));
    assert_eq!(value(&store, &key), Some(fits));
}

pub(crate) fn scans_are_ordered_bounded_and_stay_inside_one_stream(fixture: impl Fixture) {
    let store = fixture.store();
    let (from, to) = Key::stream_range(RecordType::TrimMark, STREAM);
    if !store.capabilities().ordered_scan {
        let error = block_on(store.scan(from.clone(), to.clone(), 10)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
        let error = block_on(store.last(from, to)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
        return;
    }
    let neighbours = [STREAM, StreamId::new(0xabcc), StreamId::new(0xabce)];
    for stream in neighbours {
        for n in [300, 5, 70_000, 1] {
            applied(write(&store, put(&key_of(&fixture, stream, n), Expected::Absent, "v")));
        }
    }
    let scan = |from: Key, to: Key, limit| -> Vec<Key> {
        block_on(store.scan(from, to, limit))
            .unwrap()
            .into_iter()
            .map(|(key, _)| key)
            .collect()
    };
    let last = |from: Key, to: Key| block_on(store.last(from, to)).unwrap().map(|(key, _)| key);
    let all: Vec<Key> = [1, 5, 300, 70_000].map(|n| key(&fixture, n)).to_vec();
    assert_eq!(scan(from.clone(), to.clone(), 100), all);
    assert_eq!(scan(from.clone(), to.clone(), 2), all[..2]);
    assert_eq!(scan(all[1].clone(), all[3].clone(), 100), all[1..3], "half-open");
    assert_eq!(scan(from.clone(), to.clone(), 0), []);
    assert_eq!(last(from.clone(), to.clone()), Some(all[3].clone()));
    assert_eq!(last(from.clone(), all[3].clone()), Some(all[2].clone()), "half-open");
    assert_eq!(last(from.clone(), all[0].clone()), None);
    if store.capabilities().deletes {
        applied(write(&store, delete(&all[3], Expected::Any)));
        assert_eq!(
            last(from.clone(), to.clone()),
            Some(all[2].clone()),
            "a deleted key is not there"
        );
        assert_eq!(scan(from.clone(), to.clone(), 100), all[..3]);
    }
    let beyond = Key::stream_range(RecordType::TrimMark, StreamId::new(0xabce)).1;
    let error = block_on(store.scan(from, beyond, 10)).unwrap_err();
    assert_eq!(
        error.code(),
        ErrorCode::Invalid,
        "a scan over two streams is refused: {error}"
    );
}

pub(crate) fn restart_keeps_values_versions_and_absence(mut fixture: impl Fixture) {
    let keys: Vec<Key> = (0..3).map(|n| key(&fixture, n)).collect();
    let store = fixture.store();
    let deletes = store.capabilities().deletes;
    let kept = applied(write(&store, put(&keys[0], Expected::Absent, "kept")));
    let older = applied(write(&store, put(&keys[1], Expected::Absent, "older")));
    applied(write(&store, put(&keys[1], Expected::Version(older), "newer")));
    if deletes {
        applied(write(&store, put(&keys[2], Expected::Absent, "gone")));
        applied(write(&store, delete(&keys[2], Expected::Any)));
    }
    drop(store);
    fixture.restart();
    let store = fixture.store();
    assert_eq!(
        get(&store, &keys[0]),
        Some(Versioned {
            value: "kept".into(),
            version: kept
        })
    );
    assert_eq!(value(&store, &keys[1]).unwrap(), "newer");
    assert_eq!(get(&store, &keys[2]), None);
    assert!(conflict(write(&store, put(&keys[1], Expected::Version(older), "late"))).is_some());
    let next = applied(write(&store, put(&keys[0], Expected::Version(kept), "next")));
    assert!(next > kept, "versions go on where they stopped");
}

pub(crate) fn a_caller_that_leaves_abandons_the_answer_not_the_write(fixture: impl Fixture) {
    let (store, key) = (fixture.store(), key(&fixture, 0));
    block_on(async {
        let mut asked = store.write(vec![put(&key, Expected::Absent, "mine")]);
        // Asked once, so that it is on its way, and let go.
        let _ = futures::poll!(&mut asked);
        drop(asked);
        // Everything asked for afterwards waits its turn behind it.
        let _ = store.write(vec![put(&key, Expected::Absent, "theirs")]).await;
    });
    assert_eq!(value(&store, &key).unwrap(), "mine");
}

pub(crate) fn l06_a_lost_answer_is_unknown_and_settles_as_applied_once(fixture: impl Fixture) {
    let Some(faults) = fixture.faults() else { return };
    let (store, key) = (fixture.store(), key(&fixture, 0));
    faults.next(Fault::LoseAnswer);
    assert!(matches!(
        write(&store, put(&key, Expected::Absent, "attempt-1")),
        Verdict::Unknown(_)
    ));
    faults.next(Fault::LoseAnswer);
    let attempt = put(&key, Expected::Version(get(&store, &key).unwrap().version), "attempt-2");
    let settled = block_on(write_settled(&*store, &NoPauses, vec![attempt]))
        .pop()
        .unwrap();
    let version = applied(settled);
    assert_eq!(
        get(&store, &key),
        Some(Versioned {
            value: "attempt-2".into(),
            version
        })
    );
}

pub(crate) fn l06_a_late_arrival_is_settled_and_then_changes_nothing(fixture: impl Fixture) {
    let Some(faults) = fixture.faults() else { return };
    let (store, key) = (fixture.store(), key(&fixture, 0));
    let first = applied(write(&store, put(&key, Expected::Absent, "first")));
    // The copy that is late names the same version as the one sent again: only one of them can ever apply.
    faults.next(Fault::Late);
    let attempt = put(&key, Expected::Version(first), "attempt");
    let settled = block_on(write_settled(&*store, &NoPauses, vec![attempt]))
        .pop()
        .unwrap();
    let second = applied(settled);
    let third = applied(write(&store, put(&key, Expected::Version(second), "third")));
    block_on(faults.arrive());
    assert_eq!(
        get(&store, &key),
        Some(Versioned {
            value: "third".into(),
            version: third
        })
    );
}

pub(crate) fn l06_an_attempt_that_lost_while_unknown_is_a_conflict(fixture: impl Fixture) {
    let Some(faults) = fixture.faults() else { return };
    let (store, key) = (fixture.store(), key(&fixture, 0));
    let first = applied(write(&store, put(&key, Expected::Absent, "first")));
    faults.next(Fault::Late);
    assert!(matches!(
        write(&store, put(&key, Expected::Version(first), "mine")),
        Verdict::Unknown(_)
    ));
    applied(write(&store, put(&key, Expected::Version(first), "theirs")));
    block_on(faults.arrive());
    let settled = block_on(write_settled(
        &*store,
        &NoPauses,
        vec![put(&key, Expected::Version(first), "mine")],
    ));
    match &settled[..] {
        [Verdict::Conflict(Some(there))] => assert_eq!(there.value, "theirs"),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn l06_nothing_is_concluded_while_answers_stay_away(fixture: impl Fixture) {
    let Some(faults) = fixture.faults() else { return };
    let (store, key) = (fixture.store(), key(&fixture, 0));
    faults.next(Fault::Late);
    (2..100).for_each(|nth| faults.nth(nth, Fault::Refuse));
    let settled = block_on(write_settled(
        &*store,
        &NoPauses,
        vec![put(&key, Expected::Absent, "mine")],
    ));
    // A refusal of a copy proves nothing about the first one.
    assert!(matches!(settled[..], [Verdict::Unknown(_)]), "{settled:?}");
    block_on(faults.arrive());
    assert_eq!(value(&store, &key).unwrap(), "mine");
}

pub(crate) fn whether_lost_writes_may_arrive_late_is_declared(fixture: impl Fixture) {
    let declared = fixture.store().capabilities().late_writes;
    assert_eq!(
        declared,
        fixture.faults().is_some(),
        "answers get lost where the way is long"
    );
}

pub(crate) fn a_refused_write_has_no_effect(fixture: impl Fixture) {
    let Some(faults) = fixture.faults() else { return };
    let (store, key) = (fixture.store(), key(&fixture, 0));
    faults.next(Fault::Refuse);
    assert!(matches!(
        write(&store, put(&key, Expected::Absent, "mine")),
        Verdict::Refused(_)
    ));
    assert_eq!(get(&store, &key), None);
}

pub(crate) fn a_failed_read_is_an_error_never_absence(fixture: impl Fixture) {
    let Some(faults) = fixture.faults() else { return };
    let (store, key) = (fixture.store(), key(&fixture, 0));
    faults.fail_reads(true);
    assert_eq!(block_on(store.get(key)).unwrap_err().code(), ErrorCode::Unavailable);
}

/// Expands the suite: one test per case, each on a fixture of its own.
macro_rules! metadata_store_suite {
    ($fixture:expr) => {
        $crate::metadata::conformance::metadata_store_suite! { @cases $fixture;
            absent_key_reads_as_absent
            only_one_creation_wins_and_the_loser_sees_what_is_there
            a_versioned_write_applies_only_onto_its_version
            writes_of_one_batch_have_independent_verdicts
            writes_of_one_batch_apply_in_order
            an_empty_batch_is_answered
            of_many_creators_at_once_exactly_one_wins
            delete_is_conditional_and_versions_are_never_used_again
            deleting_nothing_says_so
            a_value_above_the_limit_is_refused_without_effect
            scans_are_ordered_bounded_and_stay_inside_one_stream
            restart_keeps_values_versions_and_absence
            a_caller_that_leaves_abandons_the_answer_not_the_write
            l06_a_lost_answer_is_unknown_and_settles_as_applied_once
            l06_a_late_arrival_is_settled_and_then_changes_nothing
            l06_an_attempt_that_lost_while_unknown_is_a_conflict
            l06_nothing_is_concluded_while_answers_stay_away
            whether_lost_writes_may_arrive_late_is_declared
            a_refused_write_has_no_effect
            a_failed_read_is_an_error_never_absence
        }
    };
    (@cases $fixture:expr; $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $crate::metadata::conformance::$case($fixture);
            }
        )*
    };
}

pub(crate) use metadata_store_suite;
