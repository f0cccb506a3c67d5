//! Sizes and times out of commit metadata, against a plain list of entries.

use std::sync::Arc;

use futures::executor::block_on;
use proptest::prelude::*;

use super::locate::Commits;
use super::suite::{plenty, STREAM};
use crate::commit::{Changed, Commit, HeadCell, HeadChange, ReadTarget, StreamHead};
use crate::metadata::memory::MemoryStore;
use crate::metadata::{Expected, MetadataStore, Verdict, Write};
use crate::record::{CommitPage, Record};
use crate::types::{CommitId, Incarnation, Offset, OwnerEpoch};

/// A commit to make: entries, bytes, broker clock.
pub(super) type Made = (u32, u64, u64);

/// Commit metadata of a stream made of `commits`, as a log would leave it: ring in the head, older ones in pages.
pub(super) fn made(commits: &[Made]) -> Commits {
    let store = MemoryStore::default();
    let mut head = StreamHead::new(STREAM, Incarnation::new(1), 1);
    for (n, (count, bytes, append_millis)) in commits.iter().enumerate() {
        let fold = head.commit(Commit {
            id: CommitId::new(n as u128 + 1),
            start: head.end,
            count: *count,
            bytes: *bytes,
            messages: u64::from(*count),
            append_millis: *append_millis,
            target: ReadTarget::Memory { slice: n as u64 },
            crc32c: 0,
        });
        if let Some(fold) = fold {
            let page = CommitPage {
                stream: STREAM,
                bytes_before: fold.bytes_before,
                latest_before: fold.latest_before,
                commits: fold.commits,
            };
            let write = Write {
                key: page.key().unwrap(),
                expected: Expected::Absent,
                value: Some(page.encode().unwrap()),
            };
            assert!(matches!(
                block_on(store.write(vec![write])).pop(),
                Some(Verdict::Applied(_))
            ));
        }
    }
    Commits {
        stream: STREAM,
        cell: Arc::new(HeadCell::new(head)),
        store: Arc::new(store),
        pages: plenty().pages,
    }
}

/// Trims as `Shared::trim` does.
pub(super) fn trim(commits: &Commits, before: u64) {
    let before = Offset::new(before);
    let trimmed_bytes = block_on(commits.bytes_below(before)).unwrap();
    let change = HeadChange::Trim {
        epoch: OwnerEpoch::new(0),
        before,
        trimmed_bytes,
    };
    commits.cell.publish(|head| {
        if let Changed::Head(next) = change.judge(STREAM, head.as_ref()).unwrap() {
            *head = Some(*next);
        }
    });
}

/// Append time of every entry.
fn times(commits: &[Made]) -> Vec<u64> {
    let of = |(count, _, millis): &Made| vec![*millis; *count as usize];
    commits.iter().flat_map(of).collect()
}

fn first_since(times: &[u64], from: usize, millis: u64) -> Option<Offset> {
    let found = times.iter().enumerate().skip(from).find(|(_, time)| **time >= millis);
    found.map(|(offset, _)| Offset::new(offset as u64))
}

/// Bytes below an offset: whole commits, and a proportion of the one that holds it.
fn bytes_below(commits: &[Made], offset: u64) -> u64 {
    let mut start = 0;
    let mut sum = 0;
    for (count, bytes, _) in commits {
        let inside = offset.saturating_sub(start).min(u64::from(*count));
        sum += bytes * inside / u64::from(*count);
        start += u64::from(*count);
    }
    sum
}

fn streams() -> impl Strategy<Value = Vec<Made>> {
    // Clocks that mostly go on, that jump about, and that stand still; alone and in groups.
    let steps = prop_oneof![
        prop::collection::vec((1u32..=1, 0u64..50, -1i64..4), 1..150),
        prop::collection::vec((1u32..6, 0u64..50, -30i64..31), 1..150),
        prop::collection::vec((1u32..4, 0u64..50, -200i64..201), 1..60),
        prop::collection::vec((1u32..3, 0u64..50, 0i64..=0), 1..60),
    ];
    steps.prop_map(|steps| {
        let mut clock = 300u64;
        let mut step = |(count, bytes, moved): (u32, u64, i64)| {
            clock = clock.saturating_add_signed(moved);
            (count, bytes, clock)
        };
        steps.into_iter().map(&mut step).collect()
    })
}

proptest! {
    #[test]
    fn times_are_found_exactly_whatever_the_clock_did(
        made_of in streams(), to in any::<prop::sample::Index>(), wanted in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        near in -1i64..2,
    ) {
        let commits = made(&made_of);
        let times = times(&made_of);
        let to = to.index(times.len() + 1);
        trim(&commits, to as u64);
        for wanted in wanted {
            let millis = times[wanted.index(times.len())].saturating_add_signed(near);
            prop_assert_eq!(block_on(commits.find_time(millis)).unwrap(), first_since(&times, to, millis), "at {}", millis);
            for from in (to..times.len()).step_by(7) {
                let found = block_on(commits.first_since(Offset::new(from as u64), millis)).unwrap();
                prop_assert_eq!(found, first_since(&times, from, millis), "at {} from {}", millis, from);
            }
        }
    }

    #[test]
    fn sizes_are_exact_at_commits_and_add_up(
        made_of in streams(), to in any::<prop::sample::Index>(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 3),
    ) {
        let commits = made(&made_of);
        let end = times(&made_of).len();
        let to = to.index(end + 1) as u64;
        trim(&commits, to);
        let mut cuts: Vec<u64> = cuts.iter().map(|cut| cut.index(end + 3) as u64).collect();
        cuts.sort_unstable();
        let size = |from: u64, to: u64| block_on(commits.size_between(Offset::new(from), Offset::new(to))).unwrap();
        let live = |offset: u64| offset.clamp(to, end as u64);
        for pair in cuts.windows(2) {
            let expected = bytes_below(&made_of, live(pair[1])) - bytes_below(&made_of, live(pair[0]));
            prop_assert_eq!(size(pair[0], pair[1]), expected, "{:?}", pair);
        }
        prop_assert_eq!(size(cuts[0], cuts[1]) + size(cuts[1], cuts[2]), size(cuts[0], cuts[2]));
        let state = commits.head(|head| head.total_bytes - head.trimmed_bytes).unwrap();
        prop_assert_eq!(size(0, u64::MAX >> 1), state);
    }
}

#[test]
fn times_that_are_not_rising_are_found_exactly_case_039() {
    let times = [2u64, 1, 3, 5, 4, 6];
    for padding in [0usize, 100] {
        // The same six entries in the ring, and far back in pages.
        let mut made_of: Vec<Made> = times.iter().map(|millis| (1, 10, *millis)).collect();
        made_of.extend(vec![(1, 10, 7); padding]);
        let commits = made(&made_of);
        let found = |millis| block_on(commits.find_time(millis)).unwrap().map(Offset::get);
        let expected = [Some(0), Some(0), Some(0), Some(2), Some(3), Some(3), Some(5)];
        for (millis, expected) in expected.into_iter().enumerate() {
            assert_eq!(found(millis as u64), expected, "appended at or after {millis}");
        }
        assert_eq!(found(7), (padding > 0).then_some(6));
        assert_eq!(found(8), None);
        // Below the trim offset nothing is found, although the clock was there before.
        trim(&commits, 4);
        assert_eq!((found(0), found(5), found(6)), (Some(4), Some(5), Some(5)));
    }
}
