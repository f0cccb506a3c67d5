//! Where parts end and which of them go, against plain loops over commits.

use futures::executor::block_on;
use proptest::prelude::*;

use super::rollover::{Part, Retention, Rollover, Trips};
use super::spans_tests::{made, trim, Made};
use super::suite::STREAM;
use crate::record::{TrimMark, TrimReason};
use crate::types::Offset;

const START: Part = Part {
    start: Offset::ZERO,
    bytes_below: 0,
    first_millis: None,
};

/// Commits of a clock that goes on in steps, and back now and then.
fn streams() -> impl Strategy<Value = Vec<Made>> {
    prop::collection::vec((1u32..5, 0u64..40, -15i64..20), 1..130).prop_map(|steps| {
        let mut clock = 1000u64;
        let mut step = |(count, bytes, moved): (u32, u64, i64)| {
            clock = clock.saturating_add_signed(moved);
            (count, bytes, clock)
        };
        steps.into_iter().map(&mut step).collect()
    })
}

fn rollovers() -> impl Strategy<Value = Rollover> {
    let limit = |most: u64| prop_oneof![1 => Just(0), 3 => 1..most];
    (limit(40), limit(400), limit(60), limit(200)).prop_map(|(max_entries, max_bytes, min_millis, max_millis)| {
        Rollover {
            max_entries,
            max_bytes,
            min_millis,
            max_millis,
            idle_millis: 0,
        }
    })
}

/// End, bytes below, first and last append of every part, as Pulsar's ledger would count while it is written.
fn closed(commits: &[Made], rollover: &Rollover) -> Vec<(u64, u64, u64, u64)> {
    let (mut parts, mut end, mut total) = (Vec::new(), 0, 0);
    let (mut entries, mut bytes, mut first) = (0u64, 0u64, None);
    for (count, size, millis) in commits {
        end += u64::from(*count);
        total += size;
        entries += u64::from(*count);
        bytes += size;
        let began = *first.get_or_insert(*millis);
        let age = i128::from(*millis) - i128::from(began);
        let full = (rollover.max_entries > 0 && entries >= rollover.max_entries)
            || (rollover.max_bytes > 0 && bytes >= rollover.max_bytes)
            || (rollover.max_millis > 0 && age >= i128::from(rollover.max_millis));
        if full && (rollover.min_millis == 0 || age > i128::from(rollover.min_millis)) {
            parts.push((end, total, began, *millis));
            (entries, bytes, first) = (0, 0, None);
        }
    }
    parts
}

fn cuts(commits: &[Made], rollover: &Rollover) -> Vec<TrimMark> {
    let commits = made(commits);
    let (mut part, mut marks) = (START, Vec::new());
    while let Some(mark) = block_on(commits.next_cut(&mut part, rollover, None)).unwrap() {
        part = Part::after(&mark);
        marks.push(mark);
    }
    marks
}

proptest! {
    #[test]
    fn parts_end_where_pulsar_would_close_a_ledger(commits in streams(), rollover in rollovers()) {
        let found: Vec<_> = cuts(&commits, &rollover)
            .iter()
            .map(|mark| (mark.offset.get(), mark.bytes_below, mark.first_append_millis, mark.last_append_millis))
            .collect();
        prop_assert_eq!(found, closed(&commits, &rollover));
    }

    #[test]
    fn no_commit_that_closes_a_part_passes_the_watch(commits in streams(), rollover in rollovers()) {
        // What the stream does at every commit: nothing, unless the watch says so; then it looks.
        let (mut marks, mut part) = (Vec::new(), START);
        let mut trips = match rollover.is_unlimited() {
            true => Trips::NEVER,
            false => Trips::NEXT_COMMIT,
        };
        let (mut end, mut total) = (0, 0);
        for (n, (count, bytes, millis)) in commits.iter().enumerate() {
            end += u64::from(*count);
            total += bytes;
            if trips.hit(Offset::new(end - 1), total, *millis) {
                let so_far = made(&commits[..=n]);
                while let Some(mark) = block_on(so_far.next_cut(&mut part, &rollover, None)).unwrap() {
                    part = Part::after(&mark);
                    marks.push(mark.offset.get());
                }
                trips = Trips::of(&rollover, &part, Offset::new(end), total);
            }
        }
        let expected: Vec<u64> = closed(&commits, &rollover).iter().map(|part| part.0).collect();
        prop_assert_eq!(marks, expected);
    }

    #[test]
    fn a_part_that_begins_inside_a_commit_is_counted_from_there(commits in streams(), to in any::<prop::sample::Index>(), limit in 1u64..30) {
        let made_of = made(&commits);
        let ends: Vec<u64> = commits.iter().scan(0, |end, commit| { *end += u64::from(commit.0); Some(*end) }).collect();
        let end = ends[ends.len() - 1];
        let start = to.index(end as usize) as u64;
        trim(&made_of, start);
        let mut part = Part { start: Offset::new(start), ..START };
        let rollover = Rollover { max_entries: limit, ..Rollover::default() };
        let mark = block_on(made_of.next_cut(&mut part, &rollover, None)).unwrap();
        let expected = ends.iter().copied().find(|end| *end >= start + limit);
        prop_assert_eq!(mark.map(|mark| mark.offset.get()), expected);
    }
}

#[test]
fn time_alone_closes_a_quiet_part_when_somebody_looks() {
    let commits = made(&[(1, 10, 100), (1, 10, 150)]);
    let at = |rollover: Rollover, now| {
        let cut = block_on(commits.next_cut(&mut START.clone(), &rollover, Some(now))).unwrap();
        cut.map(|mark| (mark.offset.get(), mark.last_append_millis))
    };
    let all = Some((2, 150));
    let by_age = Rollover {
        max_millis: 1000,
        ..Rollover::default()
    };
    assert_eq!((at(by_age, 1099), at(by_age, 1100)), (None, all));
    // A clock that went back closes nothing.
    assert_eq!(at(by_age, 3), None);
    let not_before = Rollover {
        min_millis: 2000,
        ..by_age
    };
    assert_eq!((at(not_before, 2100), at(not_before, 2101)), (None, all));
    let full_but_young = Rollover {
        max_entries: 2,
        min_millis: 500,
        ..Rollover::default()
    };
    assert_eq!((at(full_but_young, 600), at(full_but_young, 601)), (None, all));
    let idle = Rollover {
        idle_millis: 300,
        ..Rollover::default()
    };
    assert_eq!((at(idle, 450), at(idle, 451)), (None, all));
    assert_eq!(at(Rollover::default(), u64::MAX), None);
}

#[test]
fn retention_lets_go_by_age_or_by_what_is_left() {
    let mark = TrimMark {
        stream: STREAM,
        offset: Offset::new(10),
        bytes_below: 300,
        first_append_millis: 1,
        last_append_millis: 1000,
        reason: TrimReason::Size,
    };
    let at = |consumed, max_age_millis, max_bytes, now_millis| {
        let retention = Retention {
            consumed: Offset::new(consumed),
            max_age_millis,
            max_bytes,
            now_millis,
        };
        retention.lets_go(&mark, 1000)
    };
    assert!(at(10, Some(0), None, 1001), "older than nothing");
    assert!(!at(10, Some(0), None, 1000), "not older than it is now");
    assert!(!at(10, Some(0), None, 900), "the clock went back");
    assert!(!at(9, Some(0), Some(0), 5000), "not consumed");
    assert!(!at(10, None, None, u64::MAX), "kept for ever");
    assert!(
        at(10, None, Some(700), 0) && !at(10, None, Some(701), 0),
        "700 bytes are left"
    );
    assert!(
        at(10, Some(u64::MAX), Some(0), 0) && at(10, Some(0), Some(u64::MAX), 2000),
        "either rule is enough"
    );
}
