//! One memory limit, divided among accounts.
//!
//! Promises: the limits add up to the memory limit at most; a memory limit that cannot be divided is refused, naming the least.

use std::sync::Arc;

use super::Account;
use crate::error::{Error, Result};

/// The accounts of one engine.
#[derive(Debug)]
pub struct Budget {
    /// Entries on their way to the log.
    pub open_groups: Arc<Account>,
    /// Recent appends.
    pub tail: Arc<Account>,
    /// Recent appends that were handed out by reads and not dropped yet.
    pub hot_reads: Arc<Account>,
    /// Commits read back, and those of them that reads still hold.
    pub slices: Arc<Account>,
    /// Commits being read back, and those that reads hold although the slice cache had no room for them.
    pub cold_reads: Arc<Account>,
    /// Commit pages.
    pub pages: Arc<Account>,
    /// Callers that wait: reads, persists, changes, opens.
    pub requests: Arc<Account>,
    /// Set aside for the embedded metadata store: its cached blocks and its write buffers.
    pub metadata: Arc<Account>,
}

/// The broker stops reading from a connection only after its limit was crossed, so this many of the largest entries may come on top.
const ENTRIES_OVER_THE_LIMIT: u64 = 16;
/// Least bytes behind the open groups: below, the caches hold less than one group and each read goes to the device again.
const LEAST_REST: u64 = 24 << 20;
/// Blocks and write buffers of the metadata store: the hot set (heads, cursor roots, the newest pages) is small, and a checkpoint
/// writes 256 MiB of frames as a few dozen MiB of heads and keys.
const METADATA: std::ops::RangeInclusive<u64> = 8 << 20..=96 << 20;
/// A waiting caller costs one or two KiB: the most is some hundred thousand of them.
const REQUESTS: std::ops::RangeInclusive<u64> = 4 << 20..=128 << 20;

impl Budget {
    /// Divides `memory_limit` bytes. Open groups hold the broker's own `publish_buffer` and a little more, so that a publish which
    /// the broker admitted is not refused for memory (half of everything when the broker has no such limit: 0); the rest is shared.
    ///
    /// # Errors
    /// `Invalid` naming the least limit.
    pub fn new(memory_limit: u64, publish_buffer: u64, max_entry: u32) -> Result<Budget> {
        let headroom = u64::from(max_entry).saturating_mul(ENTRIES_OVER_THE_LIMIT);
        let mut open_groups = publish_buffer.saturating_add(headroom);
        if publish_buffer == 0 {
            open_groups = open_groups.max(memory_limit / 2);
        }
        let rest = memory_limit
            .checked_sub(open_groups)
            .filter(|rest| *rest >= LEAST_REST)
            .ok_or_else(|| too_small(memory_limit, publish_buffer, headroom))?;
        let metadata = (rest / 4).clamp(*METADATA.start(), *METADATA.end());
        let requests = (rest / 8).clamp(*REQUESTS.start(), *REQUESTS.end());
        let caches = rest.saturating_sub(metadata).saturating_sub(requests);
        Ok(Budget {
            open_groups: Account::new("open groups", open_groups),
            tail: Account::new("tail cache", caches / 16 * 6),
            hot_reads: Account::new("tail reads", caches / 16),
            slices: Account::new("slice cache", caches / 16 * 6),
            cold_reads: Account::new("cold reads", caches / 16 * 2),
            pages: Account::new("commit pages", caches / 16),
            requests: Account::new("waiting requests", requests),
            metadata: Account::new("metadata store", metadata),
        })
    }

    /// Every account, for metrics.
    pub fn accounts(&self) -> [&Account; 8] {
        [
            &self.open_groups,
            &self.tail,
            &self.hot_reads,
            &self.slices,
            &self.cold_reads,
            &self.pages,
            &self.requests,
            &self.metadata,
        ]
    }

    /// A budget without caches, for tests: every read goes to the log.
    #[cfg(test)]
    pub fn uncached() -> Budget {
        let budget = Budget::new(256 << 20, 64 << 20, 1 << 20).expect("enough");
        Budget {
            tail: Account::new("tail cache", 0),
            slices: Account::new("slice cache", 0),
            pages: Account::new("commit pages", 0),
            ..budget
        }
    }
}

fn too_small(memory_limit: u64, publish_buffer: u64, headroom: u64) -> Error {
    let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
    let groups = match publish_buffer {
        0 => headroom.max(LEAST_REST),
        publish_buffer => publish_buffer.saturating_add(headroom),
    };
    Error::Invalid {
        what: format!(
            "nereusMemoryLimitMB={}: the least is {} MiB: {} for what the broker lets producers have in flight \
             (maxMessagePublishBufferSizeInMB), {} for {ENTRIES_OVER_THE_LIMIT} of the largest entries, {} for caches and metadata",
            memory_limit >> 20,
            mebibytes(groups.saturating_add(LEAST_REST)),
            mebibytes(publish_buffer),
            mebibytes(headroom),
            mebibytes(LEAST_REST),
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorCode;

    const MIB: u64 = 1 << 20;

    proptest! {
        #[test]
        fn limits_add_up_to_the_memory_limit_at_most(memory in 0..1u64 << 42, publish in 0..1u64 << 41, entry in 0..1u32 << 28) {
            if let Ok(budget) = Budget::new(memory, publish, entry) {
                let sum: u64 = budget.accounts().iter().map(|account| account.limit()).sum();
                prop_assert!(sum <= memory, "{sum} of {memory}");
                prop_assert!(budget.open_groups.limit() >= publish + u64::from(entry) * 16);
                prop_assert!(budget.accounts().iter().all(|account| account.limit() > 0));
            }
        }
    }

    #[test]
    fn l17_a_limit_that_is_too_small_is_refused_naming_the_least_which_is_enough() {
        for (publish, entry) in [(0, 5 << 20), (16 * MIB, 1 << 20), (2048 * MIB, 5 << 20)] {
            let error = Budget::new(8 * MIB, publish, entry).unwrap_err();
            assert_eq!(error.code(), ErrorCode::Invalid);
            let text = error.to_string();
            assert!(text.contains("nereusMemoryLimitMB"), "{text}");
            let least = text
                .split("the least is ")
                .nth(1)
                .and_then(|rest| rest.split(' ').next());
            let least: u64 = least.unwrap().parse().unwrap();
            assert!(Budget::new(least * MIB, publish, entry).is_ok(), "{text}");
            assert!(Budget::new((least - 1) * MIB, publish, entry).is_err(), "{text}");
        }
    }

    #[test]
    fn broker_without_a_publish_limit_gets_half_of_the_memory_for_open_groups() {
        let budget = Budget::new(1024 * MIB, 0, 5 << 20).unwrap();
        assert_eq!(budget.open_groups.limit(), 512 * MIB);
    }
}
