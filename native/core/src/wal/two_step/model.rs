//! A stream against a model: a vector of entries, a trim offset, and what *may* have happened when a crash left attempts open.

use std::sync::mpsc::Receiver;
use std::sync::Arc;

use proptest::prelude::*;

use super::tests::Memory;
use super::TwoStep;
use crate::commit::{AppendOutcome, Log};
use crate::env::Env;
use crate::error::{Error, ErrorCode};
use crate::metadata::faults::{Fault, Faults, Faulty};
use crate::stream::suite::{append, outcome, plenty, read, request, World};
use crate::stream::Stream;
use crate::types::Offset;

#[derive(Debug, Clone)]
enum Op {
    /// Appends of these sizes, not waited for.
    Append(Vec<u16>),
    /// Waits for every outcome.
    Settle,
    Fault(u64, Fault),
    RefuseWal(bool),
    Trim(prop::sample::Index),
    /// The engine dies after so many more writes; another one goes on.
    Crash(u64),
    /// Another engine takes over while this one is alive.
    TakeOver,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => prop::collection::vec(0u16..400, 1..12).prop_map(Op::Append),
        6 => Just(Op::Settle),
        3 => (1u64..8, prop_oneof![Just(Fault::Refuse), Just(Fault::LoseAnswer), Just(Fault::Late)]).prop_map(|(n, f)| Op::Fault(n, f)),
        1 => any::<bool>().prop_map(Op::RefuseWal),
        2 => any::<prop::sample::Index>().prop_map(Op::Trim),
        1 => (0u64..4).prop_map(Op::Crash),
        1 => Just(Op::TakeOver),
    ]
}

struct Pending {
    offset: Offset,
    entry: Vec<u8>,
    receiver: Receiver<AppendOutcome>,
}

struct Model {
    world: World<Memory>,
    log: Arc<dyn Log>,
    stream: Stream,
    faults: Faults,
    owners: u32,
    entries: Vec<Vec<u8>>,
    trim: u64,
    pending: Vec<Pending>,
    next_byte: u8,
}

impl Model {
    fn new() -> Model {
        let mut world = World::new(Memory::default());
        let stream = world.stream();
        let (log, faults) = (world.log.clone(), world.fixture.faults());
        Model {
            world,
            log,
            stream,
            faults,
            owners: 0,
            entries: Vec::new(),
            trim: 0,
            pending: Vec::new(),
            next_byte: 0,
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Append(sizes) => sizes.into_iter().for_each(|size| self.append(size)),
            Op::Settle => self.settle(),
            Op::Fault(nth, fault) => self.faults.nth(nth, fault),
            Op::RefuseWal(refuse) => {
                let reason = Error::Unavailable {
                    what: "no space".into(),
                    retry: std::time::Duration::from_millis(1),
                };
                self.world.fixture.wal().refuse_writes(refuse.then_some(reason));
            }
            Op::Trim(to) => {
                self.settle();
                self.faults.clear();
                let to = to.index(self.entries.len() + 1) as u64;
                let trimmed = self.world.rt.block_on(self.stream.trim(Offset::new(to))).unwrap();
                self.trim = self.trim.max(to);
                assert_eq!(trimmed.get(), self.trim);
            }
            Op::Crash(after) => {
                self.faults.halt_after(Some(after));
                self.append(5);
                self.append(6);
                self.take_over();
            }
            Op::TakeOver => self.take_over(),
        }
    }

    fn append(&mut self, size: u16) {
        self.next_byte = self.next_byte.wrapping_add(1);
        let entry = vec![self.next_byte; usize::from(size)];
        match append(&self.stream, &entry) {
            Ok((offset, receiver)) => self.pending.push(Pending {
                offset,
                entry,
                receiver,
            }),
            Err(error) => assert_eq!(error.code(), ErrorCode::Suspended, "{error}"),
        }
    }

    /// Every outcome, in order: commits first, and after the first failure nothing but failures.
    fn settle(&mut self) {
        let mut failed = false;
        for Pending {
            offset,
            entry,
            receiver,
        } in self.pending.drain(..)
        {
            match outcome(&receiver) {
                AppendOutcome::Committed { offset: committed, .. } => {
                    assert!(!failed, "offset {offset} was committed behind a failure");
                    assert_eq!((committed, committed.get()), (offset, self.entries.len() as u64));
                    self.entries.push(entry);
                }
                AppendOutcome::NotCommitted(_) => failed = true,
                AppendOutcome::Unknown(error) => panic!("this engine is alive: {error}"),
            }
        }
        self.stream.resume().unwrap();
        assert!(!self.stream.state().suspended);
        self.check();
    }

    fn take_over(&mut self) {
        let old = self.faults.clone();
        self.faults = Faults::default();
        self.owners += 1;
        let (log, stream) = open(&self.world, &self.faults, &format!("engine {}", self.owners));
        // What was pending is there as a prefix: exactly what the old engine managed before it was fenced or died.
        let end = usize::try_from(stream.state().end.get()).unwrap();
        assert!(
            end >= self.entries.len() && end <= self.entries.len() + self.pending.len(),
            "end {end}"
        );
        let answered = self.pending.drain(..).collect::<Vec<_>>();
        for (
            index,
            Pending {
                offset,
                entry,
                receiver,
            },
        ) in answered.into_iter().enumerate()
        {
            if self.entries.len() < end {
                assert_eq!(offset.get(), self.entries.len() as u64, "pending {index}");
                self.entries.push(entry);
                assert!(!matches!(receiver.try_recv(), Ok(AppendOutcome::NotCommitted(error)) if true_failure(&error)));
            } else {
                assert!(
                    !matches!(receiver.try_recv(), Ok(AppendOutcome::Committed { .. })),
                    "offset {offset} was lost"
                );
            }
        }
        // Copies that the old engine had on the way arrive now, and change nothing.
        self.world.rt.block_on(old.arrive());
        (self.log, self.stream) = (log, stream);
        self.check();
    }

    fn check(&self) {
        let state = self.stream.state();
        assert_eq!(
            (state.end.get(), state.trim.get()),
            (self.entries.len() as u64, self.trim)
        );
        let mut offset = self.trim;
        while offset < state.end.get() {
            let batch = read(&self.world.rt, &self.stream, request(offset)).unwrap();
            assert!(!batch.is_empty(), "offset {offset} is committed");
            for (found, entry) in batch {
                assert_eq!((found, &entry), (offset, &self.entries[offset as usize]));
                offset += 1;
            }
        }
    }
}

/// A refusal that says the entry is certainly not in the stream.
fn true_failure(error: &Error) -> bool {
    !matches!(error, Error::Unknown { .. })
}

fn open(world: &World<Memory>, faults: &Faults, owner: &str) -> (Arc<dyn Log>, Stream) {
    let env: Env = world.env.clone();
    let store = Arc::new(Faulty::new(world.fixture.store(), faults.clone()));
    let log: Arc<dyn Log> = Arc::new(TwoStep::start(env, world.fixture.wal(), store));
    let parts = world.parts_on(log.clone(), plenty());
    let (stream, _) = world.rt.block_on(Stream::take_over(parts, owner.into())).unwrap();
    (log, stream)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn l01_l04_l06_stream_agrees_with_a_model_through_faults_crashes_and_take_overs(ops in prop::collection::vec(op(), 1..40)) {
        let mut model = Model::new();
        for op in ops {
            model.step(op);
        }
        model.faults.clear();
        model.world.fixture.wal().refuse_writes(None);
        model.settle();
        model.take_over();
    }
}
