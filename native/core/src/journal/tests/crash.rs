//! Random work, a crash at a random moment, recovery, again: checked against a model that knows what was answered.
//!
//! Each seed is a life of several crashes: losses of power and kills, in the middle of any write, sync or rename, also of a
//! recovery. `NEREUS_SEED=<seed>` runs one seed again, `NEREUS_SEEDS=<count>` so many.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;

use super::support::*;
use crate::commit::{AppendOutcome, HeadChange, Log};
use crate::env::sim::{Fault, Operation, SimRandom};
use crate::env::Random;
use crate::journal::Journal;
use crate::metadata::{Expected, Verdict, Write};
use crate::record::Key;
use crate::types::{Incarnation, Offset};

const STREAMS: u128 = 4;

/// What a stream may hold.
#[derive(Default)]
struct Expectation {
    /// The head exists for certain.
    created: bool,
    epoch: u64,
    /// Entries that were acknowledged, from offset 0.
    acknowledged: Vec<Vec<u8>>,
    /// Attempts whose outcome is not known: offset and content.
    open: Vec<(u64, Vec<u8>)>,
    trim: u64,
    /// Value of the stream's key: acknowledged, and possible ones since.
    value: Option<Bytes>,
    open_values: Vec<Bytes>,
}

struct Life {
    seed: u64,
    random: SimRandom,
    model: BTreeMap<u128, Expectation>,
    attempts: u64,
    acknowledged: usize,
}

#[test]
fn l01_acknowledged_appends_survive_any_crash() {
    let setting = |name| {
        std::env::var(name)
            .ok()
            .map(|value| value.parse::<u64>().expect("a number"))
    };
    let seeds = match setting("NEREUS_SEED") {
        Some(seed) => seed..seed.saturating_add(1),
        None => 0..setting("NEREUS_SEEDS").unwrap_or(30),
    };
    let mut acknowledged = 0;
    for seed in seeds {
        let mut life = Life {
            seed,
            random: SimRandom::new(seed),
            model: BTreeMap::new(),
            attempts: 0,
            acknowledged: 0,
        };
        life.live();
        acknowledged += life.acknowledged;
    }
    assert!(
        acknowledged > 100,
        "only {acknowledged} appends were acknowledged: this proves nothing"
    );
}

impl Life {
    fn live(&mut self) {
        let mut world = World::new(self.seed);
        world.options.checkpoint_bytes = 400 << 10;
        for _ in 0..6 {
            world.disk.crash_in(self.random.below(120) + 1);
            if self.random.chance(25) {
                let fault = Fault {
                    operation: if self.random.chance(50) {
                        Operation::Sync
                    } else {
                        Operation::Write
                    },
                    path_contains: ".seg".into(),
                    after: self.random.below(60),
                    times: 1,
                    kind: std::io::ErrorKind::Other,
                };
                world.disk.fail(fault);
            }
            if let Ok(journal) = world.try_open() {
                // Sometimes a run ends before anybody looked.
                let looked = self.random.chance(90);
                if looked {
                    self.check(&mut world, &journal);
                }
                while looked && !world.disk.has_crashed() && journal.poisoned().is_none() {
                    self.work(&mut world, &journal);
                }
            }
            world = if self.random.chance(70) {
                world.after_crash(&self.random)
            } else {
                world.after_kill()
            };
            world.options.checkpoint_bytes = 400 << 10;
        }
        world.disk.heal();
        let journal = world.open();
        self.check(&mut world, &journal);
        assert!(
            journal.damages().is_empty(),
            "seed {}: {:?}",
            self.seed,
            journal.damages()
        );
    }

    fn work(&mut self, world: &mut World, journal: &Arc<Journal>) {
        let n = self.random.below(STREAMS as u64).into();
        match self.random.below(10) {
            0 => self.change(world, journal, n),
            1 => drop(world.executor.run(journal.checkpoint())),
            2 => world.executor.run_for(Duration::from_millis(self.random.below(12))),
            3 | 4 => self.write(world, journal, n),
            _ => self.append(world, journal),
        }
    }

    fn change(&mut self, world: &mut World, journal: &Arc<Journal>, n: u128) {
        let expectation = self.model.entry(n).or_default();
        if !expectation.created {
            let change = HeadChange::Create {
                stream: stream(n),
                incarnation: Incarnation::new(1),
                created_millis: 1,
            };
            expectation.created |= world.change(journal, stream(n), change).is_ok();
        }
        if expectation.created {
            if let Ok(cell) = world.change(journal, stream(n), HeadChange::Claim { owner: "o".into() }) {
                expectation.epoch = cell.with(|head| head.map_or(0, |head| head.owner_epoch.get()));
            }
            let before = self.random.below(expectation.acknowledged.len() as u64 + 1);
            let trim = HeadChange::Trim {
                epoch: epoch(expectation.epoch),
                before: Offset::new(before),
                trimmed_bytes: 0,
            };
            if world.change(journal, stream(n), trim).is_ok() {
                expectation.trim = expectation.trim.max(before);
            }
        }
    }

    fn write(&mut self, world: &mut World, journal: &Arc<Journal>, n: u128) {
        self.attempts += 1;
        let value = Bytes::from(format!("value {}", self.attempts));
        let key = Key::stream_properties(stream(n));
        let write = Write {
            key,
            expected: Expected::Any,
            value: Some(value.clone()),
        };
        let verdict = world.executor.run(journal.store().write(vec![write])).pop().unwrap();
        let expectation = self.model.entry(n).or_default();
        match verdict {
            Verdict::Applied(_) => {
                expectation.value = Some(value);
                expectation.open_values.clear();
            }
            Verdict::Unknown(_) => expectation.open_values.push(value),
            Verdict::Refused(_) => {}
            Verdict::Conflict(there) => panic!("seed {}: an unconditional write lost against {there:?}", self.seed),
        }
    }

    fn append(&mut self, world: &mut World, journal: &Arc<Journal>) {
        let mut sent = Vec::new();
        for (n, expectation) in self.model.iter().filter(|(_, expectation)| expectation.epoch > 0) {
            let from = expectation.acknowledged.len() as u64;
            for offset in from..from + self.random.below(5) {
                self.attempts += 1;
                let mut entry = entry(stream(*n), offset);
                entry.extend_from_slice(format!("attempt {}", self.attempts).as_bytes());
                if self.random.chance(10) {
                    entry.resize(30 << 10, b'x');
                }
                sent.push((*n, offset, expectation.epoch, entry));
            }
        }
        let asked: Vec<_> = sent
            .iter()
            .map(|(n, offset, epoch, entry)| send(journal, stream(*n), *epoch, *offset, entry))
            .collect();
        let outcomes = world.executor.run(join_all(asked));
        for ((n, offset, _, entry), outcome) in sent.into_iter().zip(outcomes) {
            let expectation = self.model.entry(n).or_default();
            match outcome.unwrap() {
                AppendOutcome::Committed { offset: committed, .. } => {
                    assert_eq!(
                        (committed.get(), offset),
                        (offset, expectation.acknowledged.len() as u64),
                        "seed {}",
                        self.seed
                    );
                    expectation.acknowledged.push(entry);
                    self.acknowledged += 1;
                }
                AppendOutcome::Unknown(_) => expectation.open.push((offset, entry)),
                AppendOutcome::NotCommitted(_) => {}
            }
        }
    }

    /// Everything acknowledged is there, and nothing else but attempts whose outcome was not known; what is found settles them.
    fn check(&mut self, world: &mut World, journal: &Arc<Journal>) {
        let seed = self.seed;
        if world.disk.has_crashed() {
            return;
        }
        for n in 0..STREAMS {
            let expectation = self.model.entry(n).or_default();
            let looked = world.try_head(journal, stream(n));
            let Some(head) = looked.unwrap_or_else(|error| panic!("seed {seed}, stream {n}: {error}")) else {
                assert!(!expectation.created, "seed {seed}: the head of stream {n} is lost");
                continue;
            };
            expectation.created = true;
            assert!(
                head.owner_epoch.get() >= expectation.epoch,
                "seed {seed}: the epoch of stream {n} went back (L5)"
            );
            assert!(
                head.trim.get() >= expectation.trim,
                "seed {seed}: the trim of stream {n} went back"
            );
            let found = self.entries(world, journal, n, head.trim.get());
            let expectation = self.model.entry(n).or_default();
            let first = head.end.get() - found.len() as u64;
            let known = expectation.acknowledged.len() as u64;
            assert!(
                head.end.get() >= known,
                "seed {seed}: stream {n} ends at {}, {known} were acknowledged (L1)",
                head.end
            );
            for (offset, entry) in (first..).zip(&found) {
                match expectation.acknowledged.get(offset as usize) {
                    Some(acknowledged) => {
                        assert_eq!(acknowledged, entry, "seed {seed}: stream {n} at {offset} (L1, L4)")
                    }
                    None => {
                        let possible = expectation
                            .open
                            .iter()
                            .any(|(at, content)| (*at, content) == (offset, entry));
                        assert!(
                            possible,
                            "seed {seed}: stream {n} has an entry at {offset} that was never committed (L6)"
                        );
                    }
                }
            }
            for (_, entry) in (first..).zip(found).filter(|(offset, _)| *offset >= known) {
                expectation.acknowledged.push(entry);
            }
            expectation.open.clear();
            expectation.epoch = head.owner_epoch.get();
            expectation.trim = head.trim.get();
            let value = world.value(journal, Key::stream_properties(stream(n)));
            let possible = value == expectation.value
                || value
                    .as_ref()
                    .is_some_and(|value| expectation.open_values.contains(value));
            assert!(
                possible,
                "seed {seed}: stream {n} has value {value:?}, {:?} was acknowledged",
                expectation.value
            );
            expectation.value = value;
            expectation.open_values.clear();
        }
    }

    /// Every entry from the trim offset on (or a few before), and the last one in any case.
    fn entries(&self, world: &mut World, journal: &Arc<Journal>, n: u128, trim: u64) -> Vec<Vec<u8>> {
        let commits = world.commits(journal, stream(n));
        let last = commits.len().saturating_sub(1);
        let mut found = Vec::new();
        let needed = commits
            .iter()
            .enumerate()
            .filter(|(index, commit)| commit.end().unwrap().get() > trim || *index == last);
        for (_, commit) in needed {
            let slice = world.read(journal, stream(n), *commit);
            let slice = slice.unwrap_or_else(|error| panic!("seed {}, stream {n}: {error}", self.seed));
            found.extend(slice.entries.iter().map(|entry| entry.entry.to_vec()));
        }
        found
    }
}

#[test]
fn same_seed_same_life() {
    let life = |seed| {
        let mut life = Life {
            seed,
            random: SimRandom::new(seed),
            model: BTreeMap::new(),
            attempts: 0,
            acknowledged: 0,
        };
        life.live();
        let ends: Vec<usize> = life
            .model
            .values()
            .map(|expectation| expectation.acknowledged.len())
            .collect();
        (life.attempts, life.acknowledged, ends, life.random.next_u64())
    };
    assert_eq!(life(3), life(3));
}
