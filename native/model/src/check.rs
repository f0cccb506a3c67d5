//! The runs: the whole protocol against all laws, each guard's absence against the law it protects, and the situations that prove
//! that the whole protocol does something.
//!
//! Promises: a run ends when every reachable state within its bounds was seen, or when what it looks for was found. No step of a
//! counter-example can be left out, and no two.

use stateright::{Checker, HasDiscoveries, Model};

use crate::guard::{Guard, Law};
use crate::laws;
use crate::show;
use crate::state::State;
use crate::step::{Bounds, Protocol, Step};

/// The world in which every guard is missed and every situation occurs.
pub const SMALL: Bounds = Bounds {
    owners: 2,
    appends: 2,
    late: 1,
};

/// The worlds in which no law may break: two owners with long queues, and three owners one after the other or at once.
pub const WHOLE: [Bounds; 2] = [
    Bounds {
        owners: 2,
        appends: 3,
        late: 2,
    },
    Bounds {
        owners: 3,
        appends: 1,
        late: 2,
    },
];

/// A law that was broken, and how.
#[derive(Debug)]
pub struct Violation {
    /// Name of the law.
    pub law: &'static str,
    /// One line per step.
    pub trace: Vec<String>,
}

/// What one run saw.
#[derive(Debug)]
pub struct Seen {
    /// Different states.
    pub states: usize,
    /// Most steps from the start.
    pub depth: usize,
    /// Laws that were broken.
    pub violations: Vec<Violation>,
    /// Situations that were looked for and did not occur.
    pub missing: Vec<&'static str>,
}

/// Every state of the whole protocol within the bounds, on so many threads.
pub fn whole(bounds: Bounds, threads: usize) -> Seen {
    let protocol = Protocol {
        bounds,
        without: None,
        watch: false,
    };
    run(protocol, HasDiscoveries::AnyFailures, threads, &[])
}

/// A way to break the law that `guard` protects once it is missing.
pub fn without(guard: Guard, bounds: Bounds) -> Seen {
    let protocol = Protocol {
        bounds,
        without: Some(guard),
        watch: false,
    };
    let law = guard.protects().name();
    let mut seen = run(protocol, HasDiscoveries::AllOf([law].into()), 1, &[]);
    seen.violations.retain(|violation| violation.law == law);
    seen
}

/// Looks for the situations that the whole protocol must be able to get into.
pub fn situations(bounds: Bounds, threads: usize) -> Seen {
    let protocol = Protocol {
        bounds,
        without: None,
        watch: true,
    };
    let wanted: Vec<&'static str> = laws::situations().iter().map(|p| p.name).collect();
    run(
        protocol,
        HasDiscoveries::AllOf(wanted.iter().copied().collect()),
        threads,
        &wanted,
    )
}

fn run(protocol: Protocol, until: HasDiscoveries, threads: usize, wanted: &[&'static str]) -> Seen {
    let checker = protocol
        .clone()
        .checker()
        .threads(threads)
        .finish_when(until)
        .spawn_bfs()
        .join();
    let found = checker.discoveries();
    let broken = |law: &Law| {
        let path = found.get(law.name())?;
        let steps = path
            .clone()
            .into_vec()
            .into_iter()
            .filter_map(|(_, step)| step)
            .collect();
        Some(violation(&protocol, *law, steps))
    };
    Seen {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        violations: Law::ALL.iter().filter_map(broken).collect(),
        missing: wanted
            .iter()
            .copied()
            .filter(|name| !found.contains_key(name))
            .collect(),
    }
}

/// A found path with everything taken out of it that the violation does not need.
fn violation(protocol: &Protocol, law: Law, mut steps: Vec<Step>) -> Violation {
    while let Some(enough) = shorter(protocol, law, &steps) {
        steps = enough;
    }
    let mut state = State::new(protocol.bounds.owners);
    let mut trace = Vec::new();
    for (step, n) in steps.into_iter().zip(1..) {
        let Some(next) = protocol.next_state(&state, step) else {
            break;
        };
        state = next;
        trace.push(format!("{n:2}. {:<48} {}", step.to_string(), show::line(&state)));
    }
    Violation { law: law.name(), trace }
}

/// The same violation without one of the steps, or without two that belong together.
fn shorter(protocol: &Protocol, law: Law, steps: &[Step]) -> Option<Vec<Step>> {
    (0..steps.len()).find_map(|first| {
        (first..steps.len()).find_map(|second| {
            let kept = |at: &usize| *at != first && *at != second;
            let fewer: Vec<Step> = (0..steps.len()).filter(kept).map(|at| steps[at]).collect();
            replay(protocol, law, &fewer)
        })
    })
}

/// The steps up to the first state that violates the law, if each is possible where it stands and one does.
fn replay(protocol: &Protocol, law: Law, steps: &[Step]) -> Option<Vec<Step>> {
    let broken = protocol.property(law.name()).condition;
    let mut state = State::new(protocol.bounds.owners);
    for (step, taken) in steps.iter().zip(1..) {
        let mut possible = Vec::new();
        protocol.actions(&state, &mut possible);
        if !possible.contains(step) {
            return None;
        }
        state = protocol.next_state(&state, *step)?;
        if !broken(protocol, &state) {
            return Some(steps[..taken].to_vec());
        }
    }
    None
}
