//! A world whose every turn follows from a seed: for tests and simulation only.
//!
//! Owns: [`SimDisk`] (keeps what was not synced apart and loses it at a crash), [`Executor`] (one thread, seeded order of tasks,
//! virtual time), [`SimRandom`].
//! Promises: same seed, same program: same run.

mod disk;
mod executor;

use std::sync::Arc;

use parking_lot::Mutex;

pub use disk::{Fault, Operation, SimDisk};
pub use executor::{Executor, Halt};

use super::{Disk, Env, Random};

/// Numbers that follow from a seed (splitmix64).
#[derive(Debug)]
pub struct SimRandom(Mutex<u64>);

impl SimRandom {
    /// The numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        SimRandom(Mutex::new(seed))
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

impl Random for SimRandom {
    fn next_u64(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// An environment on `disk`, run by `executor`.
pub fn env(executor: &Executor, disk: Arc<dyn Disk>, seed: u64) -> Env {
    Env {
        clock: executor.clock(),
        random: Arc::new(SimRandom::new(seed)),
        spawner: executor.spawner(),
        disk,
    }
}

#[cfg(test)]
mod tests;
