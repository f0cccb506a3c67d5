//! L1 to L6 as invariants over one state, and the situations that a run must have reached.
//!
//! An invariant speaks of the stored records, of what callers were answered and of what owners serve, never of how the protocol got
//! there: the same functions judge the protocol with all its guards and without one.

use stateright::Property;

use crate::guard::Law;
use crate::state::{Event, Outcome, Phase, State};
use crate::step::Protocol;

/// The six laws, and for the run that watches events the situations that must occur.
pub fn properties(watch: bool) -> Vec<Property<Protocol>> {
    let mut all = vec![
        Property::always(Law::L1.name(), |_, s| l01(s)),
        Property::always(Law::L2.name(), |_, s| l02(s)),
        Property::always(Law::L3.name(), |_, s| l03(s)),
        Property::always(Law::L4.name(), |_, s| l04(s)),
        Property::always(Law::L5.name(), |_, s| l05(s)),
        Property::always(Law::L6.name(), |_, s| l06(s)),
    ];
    if watch {
        all.extend(situations());
    }
    all
}

/// What proves that the model is not vacuous.
pub fn situations() -> Vec<Property<Protocol>> {
    macro_rules! event {
        ($name:literal, $event:ident) => {
            Property::sometimes($name, |_, s: &State| s.event == Some(Event::$event))
        };
    }
    vec![
        event!("an append commits", Committed),
        event!("two appends commit in one slice", CommittedTogether),
        event!("an old owner is told that it is fenced", Fenced),
        event!("appends are taken again after a failed one", Resumed),
        event!("a commit leaves the ring into a page", Folded),
        event!("an owner dies with an append in doubt", CrashedInDoubt),
        event!("a late write is applied", LateApplied),
        event!("a late write comes too late", LateTooLate),
        event!("a claim that lost is judged anew", ClaimLostAndJudgedAnew),
        event!("a doubt is settled at the head", SettledAtHead),
        event!("a doubt is settled in the ring", SettledInRing),
        event!("a doubt is settled in a page", SettledInPage),
        event!("a doubt is settled as not committed", SettledAsLost),
        event!("a doubt stays one while the pages cannot be read", PagesUnreadable),
        Property::sometimes("a take-over happens with an append in doubt", |_, s: &State| {
            let newest = |o: &crate::state::Owner| o.phase == Phase::Open && o.epoch == s.head.epoch;
            let in_doubt = |o: &crate::state::Owner| {
                o.phase == Phase::Open && o.epoch < s.head.epoch && o.attempt.is_some_and(|a| a.in_doubt)
            };
            s.owners.iter().any(newest) && s.owners.iter().any(in_doubt)
        }),
        Property::sometimes("two owners are open at once", |_, s: &State| {
            s.owners.iter().filter(|o| o.phase == Phase::Open).count() > 1
        }),
    ]
}

fn answers(s: &State) -> impl Iterator<Item = (u8, u8, Outcome)> + '_ {
    s.owners.iter().zip(0u8..).flat_map(|(owner, o)| {
        owner
            .outcomes
            .iter()
            .zip(0u8..)
            .map(move |(outcome, append)| (o, append, *outcome))
    })
}

/// Acknowledged: found from the head at its offset, its slice durable, and below the end that the current owner serves.
fn l01(s: &State) -> bool {
    answers(s).all(|(owner, append, outcome)| {
        let Outcome::Committed(offset) = outcome else {
            return true;
        };
        let reachable = offset < s.head.end
            && s.find(offset)
                .is_some_and(|c| c.offset_of(owner, append) == Some(offset) && s.slice_durable(c));
        reachable
            && s.owners
                .iter()
                .all(|o| o.phase != Phase::Open || o.epoch != s.head.epoch || offset < o.published)
    })
}

/// Nothing committed is rolled back, and no owner shows what is not committed.
fn l02(s: &State) -> bool {
    let committed = &s.history.all;
    s.head.all == *committed && s.owners.iter().all(|o| committed.starts_with(&o.stored.all))
}

/// Whatever the head names, in ring or pages, has its slice and intent in the WAL.
fn l03(s: &State) -> bool {
    s.head.all.iter().all(|commit| s.slice_durable(commit))
}

/// Pages and ring tile `[0, end)`.
fn l04(s: &State) -> bool {
    let ring_start = s.head.ring().first().map_or(s.head.end, |c| c.start);
    let paged = s.pages.iter().filter(|page| page.start < ring_start);
    let mut end = 0;
    for commit in paged.chain(s.head.ring()) {
        if commit.start != end {
            return false;
        }
        end = commit.end();
    }
    end == s.head.end
}

/// Each commit went onto a head of its own epoch; epochs only rise; no two owners hold the same one.
fn l05(s: &State) -> bool {
    let mut held: Vec<u8> = s.owners.iter().filter(|o| o.epoch > 0).map(|o| o.epoch).collect();
    held.sort_unstable();
    s.head.all.iter().all(|c| c.epoch == c.under)
        && s.head.epoch == s.top_epoch
        && held.windows(2).all(|pair| pair[0] != pair[1])
}

/// No append is in the stream twice, or at all when it was answered `NotCommitted`; a live owner never leaves one unknown.
fn l06(s: &State) -> bool {
    answers(s).all(|(owner, append, outcome)| {
        let times = s
            .head
            .all
            .iter()
            .filter(|c| c.offset_of(owner, append).is_some())
            .count();
        match outcome {
            Outcome::NotCommitted => times == 0,
            Outcome::Unknown => times <= 1 && s.owners[usize::from(owner)].phase == Phase::Down,
            Outcome::Pending | Outcome::Committed(_) => times <= 1,
        }
    })
}
