//! What every record's tests share: the suite, and strategies for the pieces that many records hold.

use proptest::prelude::*;

use super::{PhysicalId, TargetId, TaskId};
use crate::commit::{Commit, ReadTarget};
use crate::types::{CommitId, Offset, ReadView, StreamId};

/// The suite of one record over a strategy of valid values.
macro_rules! record_suite {
    ($record:ty, $strategy:expr) => {
        use proptest::prelude::*;
        use $crate::record::envelope;

        proptest! {
            #[test]
            fn round_trips_within_its_bound(record in $strategy) {
                let raw = record.encode().unwrap();
                prop_assert!(raw.len() <= <$record>::MAX_BYTES);
                let read = <$record>::decode(&record.key().unwrap(), &raw).unwrap();
                prop_assert_eq!(&read, &record);
                prop_assert_eq!(read.encode().unwrap(), raw);
            }

            #[test]
            fn flipped_bit_is_found(record in $strategy, bit: prop::sample::Index) {
                let mut raw = record.encode().unwrap().to_vec();
                let bit = bit.index(raw.len() * 8);
                raw[bit / 8] ^= 1 << (bit % 8);
                let error = <$record>::decode(&record.key().unwrap(), &raw).unwrap_err();
                prop_assert!(error.to_string().contains(<$record>::TYPE.name()), "{}", error);
            }

            #[test]
            fn cut_off_value_is_found(record in $strategy, at: prop::sample::Index) {
                let raw = record.encode().unwrap();
                prop_assert!(<$record>::decode(&record.key().unwrap(), &raw[..at.index(raw.len())]).is_err());
            }

            #[test]
            fn arbitrary_bodies_never_panic(record in $strategy, body: Vec<u8>) {
                let raw = envelope::seal(<$record>::TYPE, <$record>::VERSION, &body);
                let _ = <$record>::decode(&record.key().unwrap(), &raw);
            }

            #[test]
            fn a_changed_body_that_still_reads_can_be_written_again(
                record in $strategy,
                changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            ) {
                let mut body = record.to_body();
                if !body.is_empty() {
                    for (at, byte) in changes {
                        let at = at.index(body.len());
                        body[at] = byte;
                    }
                }
                let raw = envelope::seal(<$record>::TYPE, <$record>::VERSION, &body);
                if let Ok(read) = <$record>::decode(&record.key().unwrap(), &raw) {
                    prop_assert!(read.encode().is_ok());
                }
            }

            #[test]
            fn a_value_under_another_records_key_is_refused(record in $strategy, task: u128) {
                let raw = record.encode().unwrap();
                let other = $crate::record::Key::task($crate::record::TaskId::new(task));
                prop_assume!(other != record.key().unwrap());
                let error = <$record>::decode(&other, &raw).unwrap_err();
                prop_assert!(error.to_string().contains("belongs under key"), "{}", error);
            }
        }
    };
}

pub(super) use record_suite;

pub(super) fn streams() -> impl Strategy<Value = StreamId> {
    any::<u128>().prop_map(StreamId::new)
}

pub(super) fn offsets() -> impl Strategy<Value = Offset> {
    prop_oneof![0u64..200_000, 0..=Offset::MAX.get()].prop_map(Offset::new)
}

pub(super) fn views() -> impl Strategy<Value = ReadView> {
    prop_oneof![Just(ReadView::Committed), Just(ReadView::TopicCompacted)]
}

pub(super) fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c\0\u{1}/]{1,6}", "\\PC{1,40}"]
}

pub(super) fn tasks() -> impl Strategy<Value = TaskId> {
    any::<u128>().prop_map(TaskId::new)
}

pub(super) fn physical_ids() -> impl Strategy<Value = PhysicalId> {
    prop_oneof![
        any::<u64>().prop_map(PhysicalId::Segment),
        names().prop_map(PhysicalId::Object)
    ]
}

pub(super) fn targets() -> impl Strategy<Value = TargetId> {
    let place = (physical_ids(), 0..=u64::MAX / 2, 1..=u64::MAX / 2);
    place.prop_map(|(physical, position, length)| TargetId {
        physical,
        position,
        length,
    })
}

fn read_targets() -> impl Strategy<Value = ReadTarget> {
    prop_oneof![
        (any::<u64>(), 0..=u64::MAX / 2, 1..=u64::MAX / 2).prop_map(|(segment, position, length)| {
            ReadTarget::Journal {
                segment,
                position,
                length,
            }
        }),
        any::<u64>().prop_map(|slice| ReadTarget::Memory { slice }),
    ]
}

/// `sizes` commits that touch, from a random offset on.
pub(super) fn commits(sizes: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<Commit>> {
    let commit = (
        1..=u128::MAX,
        1..=u32::MAX,
        0u64..1 << 40,
        any::<u64>(),
        any::<u64>(),
        read_targets(),
        any::<u32>(),
    );
    (0u64..1 << 40, prop::collection::vec(commit, sizes)).prop_map(|(start, parts)| {
        let mut next = Offset::new(start);
        let touch = |(id, count, bytes, messages, append_millis, target, crc32c)| {
            let id = CommitId::new(id);
            let commit = Commit {
                id,
                start: next,
                count,
                bytes,
                messages,
                append_millis,
                target,
                crc32c,
            };
            next = commit.end().expect("the strategy stays far below the last offset");
            commit
        };
        parts.into_iter().map(touch).collect()
    })
}
