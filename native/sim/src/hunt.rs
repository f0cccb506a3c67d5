//! Proof that the simulation finds faults: deliberate bugs are switched on, one at a time, until a seed catches each.

use nereus_core::mutant::Mutant;

use crate::law::Violation;
use crate::runner::{run, Options, Verdict};

/// How a hunt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hunted {
    /// A run broke a law.
    Caught {
        /// The seed.
        seed: u64,
        /// Runs it took.
        runs: u64,
        /// What was broken.
        violation: Violation,
    },
    /// None did.
    Survived,
}

/// Runs seeds with a mutant until one of them fails, at most `most`.
pub fn hunt(mutant: Mutant, from: u64, most: u64) -> Hunted {
    let options = Options {
        mutant: Some(mutant),
        trace: false,
    };
    for seed in from..from.saturating_add(most) {
        if let Verdict::Broken { violation, .. } = run(seed, &options).verdict {
            return Hunted::Caught {
                seed,
                runs: seed - from + 1,
                violation,
            };
        }
    }
    Hunted::Survived
}
