//! `LedgerGrant`: the counter of virtual ledger ids, with its newest grants. One record per cluster, in the broker's own metadata
//! store.

use prost::Message;

use super::{wire, Key, Record, RecordType};
use crate::error::Result;
use crate::types::VirtualLedger;

/// How many of the newest grants are remembered, for people who look into the store.
pub const REMEMBERED: usize = 32;
/// Longest holder text, in bytes.
pub const MAX_HOLDER_BYTES: usize = 256;

/// One granted range `[first, end)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// First id.
    pub first: VirtualLedger,
    /// One past the last id.
    pub end: VirtualLedger,
    /// Who got it, for messages.
    pub holder: String,
    /// Identity of the grant: settles a lost answer.
    pub attempt: u128,
    /// Broker clock, milliseconds.
    pub granted_millis: u64,
}

/// The counter. It only ever rises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerGrant {
    /// The next id that is free.
    pub next: VirtualLedger,
    /// The newest grants, oldest first, contiguous up to `next`.
    pub grants: Vec<Grant>,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(uint64, tag = "1")]
    next: u64,
    #[prost(message, repeated, tag = "2")]
    grants: Vec<WireGrant>,
}

#[derive(Clone, PartialEq, Message)]
struct WireGrant {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(uint64, tag = "2")]
    end: u64,
    #[prost(string, tag = "3")]
    holder: String,
    #[prost(bytes = "vec", tag = "4")]
    attempt: Vec<u8>,
    #[prost(uint64, tag = "5")]
    granted_millis: u64,
}

impl Record for LedgerGrant {
    const TYPE: RecordType = RecordType::LedgerGrant;
    const VERSION: u16 = 1;
    const MAX_BYTES: usize = 16 * 1024;

    fn key(&self) -> Result<Key> {
        Ok(Key::ledger_grant())
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.next < VirtualLedger::FIRST || self.next.checked_add(0).is_none() {
            return Err(format!("the next id {} is outside the range of granted ids", self.next));
        }
        if self.grants.len() > REMEMBERED {
            return Err(format!(
                "remembers {} grants, at most {REMEMBERED} are allowed",
                self.grants.len()
            ));
        }
        let ends = self.grants.iter().skip(1).map(|g| g.first).chain([self.next]);
        for (grant, end) in self.grants.iter().zip(ends) {
            wire::check_text(&grant.holder, "a holder", MAX_HOLDER_BYTES)?;
            if grant.first < VirtualLedger::FIRST || grant.end <= grant.first || grant.end != end {
                return Err(format!(
                    "the grant {}..{} is empty or not followed by {end}",
                    grant.first, grant.end
                ));
            }
        }
        Ok(())
    }

    fn to_body(&self) -> Vec<u8> {
        let wire_grant = |grant: &Grant| WireGrant {
            first: grant.first.get(),
            end: grant.end.get(),
            holder: grant.holder.clone(),
            attempt: grant.attempt.to_be_bytes().to_vec(),
            granted_millis: grant.granted_millis,
        };
        Body {
            next: self.next.get(),
            grants: self.grants.iter().map(wire_grant).collect(),
        }
        .encode_to_vec()
    }

    fn from_body(_version: u16, body: &[u8]) -> std::result::Result<Self, String> {
        let body: Body = wire::body(body)?;
        let grant = |grant: WireGrant| {
            Ok(Grant {
                first: VirtualLedger::new(grant.first),
                end: VirtualLedger::new(grant.end),
                holder: grant.holder,
                attempt: u128::from_be_bytes(wire::id16(&grant.attempt, "the attempt of a grant")?),
                granted_millis: grant.granted_millis,
            })
        };
        Ok(LedgerGrant {
            next: VirtualLedger::new(body.next),
            grants: body
                .grants
                .into_iter()
                .map(grant)
                .collect::<std::result::Result<_, String>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::record_suite;
    use super::*;

    fn counters() -> impl Strategy<Value = LedgerGrant> {
        let grant = (1u64..5000, "\\PC{0,20}", any::<u128>(), any::<u64>());
        (0u64..1 << 40, prop::collection::vec(grant, 0..=REMEMBERED)).prop_map(|(skip, grants)| {
            let mut next = VirtualLedger::FIRST.checked_add(skip).unwrap();
            let grants = grants.into_iter().map(|(count, holder, attempt, granted_millis)| {
                let first = next;
                next = first.checked_add(count).unwrap();
                Grant {
                    first,
                    end: next,
                    holder,
                    attempt,
                    granted_millis,
                }
            });
            let grants = grants.collect();
            LedgerGrant { next, grants }
        })
    }

    record_suite!(LedgerGrant, counters());

    proptest! {
        #[test]
        fn grants_that_do_not_touch_are_refused(mut counter in counters()) {
            counter.next = counter.next.checked_add(1).unwrap();
            prop_assert_eq!(counter.encode().is_ok(), counter.grants.is_empty());
        }
    }
}
