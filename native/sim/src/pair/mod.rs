//! The pair world: owners of one stream, each with an engine's log of its own, over one metadata store and one WAL.
//!
//! Owns: the store's faults and delays, the owners, and the judgement of their answers.
//! Promises: an owner that was superseded changes nothing; what was acknowledged to any owner is there, once, in order.

mod owner;
pub mod program;
mod steps;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use nereus_core::commit::{AppendOutcome, HeadChange};
use nereus_core::cursor::CursorState;
use nereus_core::env::sim::{Halt, SimRandom};
use nereus_core::env::BoxFuture;
use nereus_core::error::Result as Answered;
use nereus_core::metadata::memory::MemoryStore;
use nereus_core::stream::{ReadBatch, ReadRequest};
use nereus_core::types::{Incarnation, Offset, StreamId};
use nereus_core::wal::memory::MemoryWal;

pub use self::program::Program;

use self::owner::Owner;
use crate::law::{broken, Law, Violation};
use crate::machine::{Inbox, Machine};
use crate::model::StreamModel;
use crate::runner::{guard, swallowed};
use crate::trace::Trace;
use crate::world::errors::Trouble;

const STREAM: StreamId = StreamId::new(0x9a17);

type Done<T = ()> = Result<T, Violation>;

enum Answer {
    Append(AppendOutcome),
    Read(Answered<ReadBatch>),
    Offset(Answered<Offset>),
    Unit(Answered<()>),
}

enum Ask {
    Append { offset: u64 },
    Read { request: ReadRequest, trim: u64, end: u64 },
    Trim { asked: u64, end: u64 },
    Terminate,
    Cursor { name: String },
}

struct Op {
    owner: usize,
    ask: Ask,
    /// The owner was superseded when it asked.
    fenced: bool,
    /// A take-over came in between: what became of it was not seen.
    overtaken: bool,
}

/// The world.
struct World {
    machine: Machine,
    store: MemoryStore,
    wal: Arc<MemoryWal>,
    delay: Arc<AtomicU64>,
    owners: Vec<Owner>,
    model: StreamModel,
    trace: Trace,
    inbox: Inbox<Answer>,
    ops: BTreeMap<u64, Op>,
    next: u64,
    trouble: Trouble,
    /// Cursors whose creation may still arrive, long after its owner was superseded: a store may hold a copy of a write back.
    ghosts: Vec<CursorState>,
    dice: SimRandom,
}

/// Runs a program.
pub fn run(program: &Program, trace: &mut Trace, step: &mut Option<usize>) -> Result<(), Violation> {
    let mut world = World {
        machine: Machine::new(program.seed, 1 << 20),
        store: MemoryStore::new(),
        wal: Arc::new(MemoryWal::new()),
        delay: Arc::default(),
        owners: Vec::new(),
        model: StreamModel::default(),
        trace: std::mem::take(trace),
        inbox: Inbox::default(),
        ops: BTreeMap::new(),
        next: 0,
        trouble: Trouble::default(),
        ghosts: Vec::new(),
        dice: SimRandom::new(program.seed),
    };
    let result = guard(|| world.run(program, step));
    *trace = std::mem::take(&mut world.trace);
    // What is left may panic again while it goes.
    let _ = guard(|| {
        drop(world);
        Ok(())
    });
    result
}

impl World {
    fn run(&mut self, program: &Program, step: &mut Option<usize>) -> Done {
        self.begin()?;
        for item in &program.items {
            *step = Some(item.number);
            self.dice = SimRandom::new(item.salt);
            self.trace.line(|| format!("{} {:?}", item.number, item.step));
            self.perform(&item.step)?;
            self.drain()?;
            swallowed()?;
        }
        *step = None;
        self.finish()
    }

    fn begin(&mut self) -> Done {
        let log = self.log(Default::default());
        let create = HeadChange::Create {
            stream: STREAM,
            incarnation: Incarnation::new(1),
            created_millis: 1,
        };
        match self.drive("the creation", log.change(STREAM, create))? {
            Ok(_) => self.take_over(),
            Err(error) => broken(Law::L17, format!("the creation: {error}")),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn drive<T>(&mut self, what: &str, future: impl std::future::Future<Output = T>) -> Done<T> {
        self.machine.drive(future).map_err(|halt: Halt| Violation {
            law: Law::Liveness,
            what: format!("{what}: {halt}"),
        })
    }

    fn start<T: 'static>(
        &mut self,
        op: Op,
        future: BoxFuture<T>,
        answer: impl FnOnce(T) -> Answer + Send + 'static,
    ) -> u64 {
        let number = self.number();
        self.ops.insert(number, op);
        let inbox = self.inbox.clone();
        let task = async move { inbox.push(number, answer(future.await)) };
        self.machine.executor.spawner().spawn("request", Box::pin(task));
        number
    }

    fn drain(&mut self) -> Done {
        while let Some((number, answer)) = self.inbox.pop() {
            self.answered(number, answer)?;
        }
        Ok(())
    }

    fn pause(&mut self, micros: u64) -> Done {
        let sleep = self
            .machine
            .executor
            .clock()
            .sleep(std::time::Duration::from_micros(micros));
        self.drive("a pause", sleep)?;
        self.drain()
    }

    /// Waits until every request of living owners is answered, at most so long.
    fn settle(&mut self, millis: u64) -> Done<bool> {
        let mut left = millis.max(1);
        loop {
            self.drain()?;
            let open = self.ops.values().any(|op| !self.owners[op.owner].dead);
            if !open || left == 0 {
                return Ok(!open);
            }
            let step = left.min(1 + millis / 16);
            left -= step;
            self.pause(step * 1000)?;
        }
    }
}
