//! Virtual ledger ids: taken from the cluster's counter in ranges, handed out one by one.
//!
//! Promises: no id is handed out twice by any engine of the cluster; an id of a range that a crash left over is skipped.

use tokio::sync::Mutex;

use super::truth::{Truth, Wrote};
use crate::error::{Error, Result};
use crate::metadata::Expected;
use crate::record::ledger_grant::{MAX_HOLDER_BYTES, REMEMBERED};
use crate::record::{Grant, Key, LedgerGrant};
use crate::types::VirtualLedger;

/// Ids of one range: one write of the counter per so many new topics.
pub const RANGE: u64 = 256;

/// Rounds of a take that others keep winning.
const ROUNDS: u32 = 20;

/// The ids of one engine. Takes wait for each other: one refill serves all of them.
pub struct Grants {
    truth: Truth,
    holder: String,
    left: Mutex<Option<Range>>,
}

struct Range {
    next: VirtualLedger,
    end: VirtualLedger,
}

impl Grants {
    pub(super) fn new(truth: Truth, holder: &str) -> Self {
        let holder = holder
            .char_indices()
            .take_while(|(at, c)| at + c.len_utf8() <= MAX_HOLDER_BYTES)
            .map(|(_, c)| c);
        Grants {
            truth,
            holder: holder.collect(),
            left: Mutex::new(None),
        }
    }

    /// An id that nobody had before. `Unavailable` when the counter cannot be moved now.
    pub async fn take(&self) -> Result<VirtualLedger> {
        let mut left = self.left.lock().await;
        let range = match left.take() {
            Some(range) => range,
            None => self.refill().await?,
        };
        let id = range.next;
        *left = id
            .checked_add(1)
            .filter(|next| *next < range.end)
            .map(|next| Range { next, end: range.end });
        Ok(id)
    }

    async fn refill(&self) -> Result<Range> {
        let attempt = self.truth.random.next_u128();
        for _ in 0..ROUNDS {
            let (counter, expected) = match self.truth.read::<LedgerGrant>(Key::ledger_grant()).await? {
                Some((counter, version)) => (counter, Expected::Version(version)),
                None => (
                    LedgerGrant {
                        next: VirtualLedger::FIRST,
                        grants: Vec::new(),
                    },
                    Expected::Absent,
                ),
            };
            // A round whose answer was lost may have been applied, with others behind it.
            if let Some(own) = counter.grants.iter().find(|grant| grant.attempt == attempt) {
                return Ok(Range {
                    next: own.first,
                    end: own.end,
                });
            }
            let first = counter.next;
            let used_up = || Error::Unavailable {
                what: "the virtual ledger ids are used up".into(),
                retry: std::time::Duration::from_secs(3600),
            };
            let end = first.checked_add(RANGE).ok_or_else(used_up)?;
            if first < VirtualLedger::PREFERRED_END && end >= VirtualLedger::PREFERRED_END {
                tracing::warn!(%end, "virtual ledger ids leave their preferred range; see docs/behaviour.md");
            }
            let grant = Grant {
                first,
                end,
                holder: self.holder.clone(),
                attempt,
                granted_millis: self.truth.clock.wall_millis(),
            };
            let mut grants = counter.grants;
            grants.push(grant);
            let forget = grants.len().saturating_sub(REMEMBERED);
            grants.drain(..forget);
            if let Wrote::Done(_) = self.truth.write(expected, &LedgerGrant { next: end, grants }).await? {
                return Ok(Range { next: first, end });
            }
        }
        Err(Error::Unavailable {
            what: "the counter of virtual ledger ids is changed by others all the time".into(),
            retry: std::time::Duration::from_secs(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures::executor::block_on;

    use super::super::testing::World;
    use super::*;
    use crate::error::ErrorCode;
    use crate::metadata::faults::Fault;

    #[test]
    fn ids_start_above_stock_ones_and_rise_across_engines() {
        let world = World::new();
        let one = Grants::new(world.truth(), "one");
        let other = Grants::new(world.truth(), "other");
        assert_eq!(block_on(one.take()).unwrap(), VirtualLedger::FIRST);
        assert_eq!(
            block_on(other.take()).unwrap().get(),
            VirtualLedger::FIRST.get() + RANGE
        );
        let mut seen = BTreeSet::new();
        for _ in 0..3 * RANGE {
            assert!(seen.insert(block_on(one.take()).unwrap()));
            assert!(seen.insert(block_on(other.take()).unwrap()));
        }
        let reopened = Grants::new(world.truth(), "one");
        assert!(
            seen.last().unwrap() < &block_on(reopened.take()).unwrap(),
            "what a stopped engine had left is skipped"
        );
    }

    #[test]
    fn the_record_stays_within_its_bound() {
        let world = World::new();
        for _ in 0..2 * REMEMBERED {
            block_on(Grants::new(world.truth(), &"ü".repeat(900)).take()).unwrap();
        }
        let (counter, _) = block_on(world.truth().read::<LedgerGrant>(Key::ledger_grant()))
            .unwrap()
            .unwrap();
        assert_eq!(counter.grants.len(), REMEMBERED);
    }

    #[test]
    fn l06_a_lost_answer_costs_no_range_and_a_late_one_no_uniqueness() {
        let world = World::new();
        world.broker.faults().next(Fault::LoseAnswer);
        let one = Grants::new(world.truth(), "one");
        assert_eq!(block_on(one.take()).unwrap(), VirtualLedger::FIRST);
        world.broker.faults().next(Fault::Late);
        let two = Grants::new(world.truth(), "two");
        let second = block_on(two.take()).unwrap();
        block_on(world.broker.faults().arrive());
        let third = block_on(Grants::new(world.truth(), "three").take()).unwrap();
        assert_eq!(
            (second.get() - VirtualLedger::FIRST.get(), third.get() - second.get()),
            (RANGE, RANGE)
        );
    }

    #[test]
    fn a_store_that_refuses_is_an_error_and_the_next_take_starts_anew() {
        let world = World::new();
        world.broker.faults().next(Fault::Refuse);
        let grants = Grants::new(world.truth(), "one");
        assert_eq!(block_on(grants.take()).unwrap_err().code(), ErrorCode::Unavailable);
        assert_eq!(block_on(grants.take()).unwrap(), VirtualLedger::FIRST);
    }
}
