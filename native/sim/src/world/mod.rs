//! The engine world: one engine on one machine, topics and cursors, and every kind of trouble.
//!
//! Owns: [`World`], which runs the steps of a program, hears the answers and holds them against the model.
//! Promises: every answer is judged, in the order in which it came; after a start and at the end everything is read.

mod answers;
pub mod errors;
mod flip;
mod look;
mod open;
mod power;
mod steps;
mod topic;

use std::collections::BTreeMap;

use bytes::Bytes;
use nereus_core::commit::AppendOutcome;
use nereus_core::engine::{Config, Engine};
use nereus_core::env::sim::{Halt, SimRandom};
use nereus_core::env::BoxFuture;
use nereus_core::error::Result as Answered;
use nereus_core::stream::{ReadBatch, ReadRequest};
use nereus_core::types::Offset;

use self::errors::{Allowed, Trouble};
use self::topic::{Handle, Topic};
use crate::entry::Entry;
use crate::law::{Law, Violation};
use crate::machine::{Inbox, Machine, DIRECTORY};
use crate::program::{Program, Setup, MAX_ENTRY};
use crate::trace::Trace;

/// Why a step went no further.
#[derive(Debug)]
pub enum Stop {
    /// The power is gone.
    Crashed,
    /// A law is broken.
    Broken(Violation),
    /// The engine refuses to go on, rightly: the program ends here.
    Ended,
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Stop {
        Stop::Broken(violation)
    }
}

/// How a step went.
pub type Done<T = ()> = Result<T, Stop>;

/// An answer that came in by itself.
enum Answer {
    Append(AppendOutcome),
    Read(Answered<ReadBatch>),
    Offset(Answered<Offset>),
    Unit(Answered<()>),
    Waited,
}

/// What was asked, with what was true then.
enum Ask {
    Append {
        offset: u64,
        fenced: bool,
    },
    Read {
        request: ReadRequest,
        trim: u64,
        end: u64,
    },
    Trim {
        asked: u64,
        end: u64,
        fenced: bool,
    },
    Terminate {
        fenced: bool,
    },
    Properties {
        all: BTreeMap<String, String>,
        fenced: bool,
    },
    Cursor {
        name: String,
        fenced: bool,
    },
    WaitPast {
        offset: u64,
    },
}

/// A request under way.
struct Op {
    topic: usize,
    life: u64,
    handle: u64,
    ask: Ask,
}

/// A crash that the program has armed.
#[derive(Debug, Clone, Copy)]
struct Armed {
    again: Option<u64>,
    look: bool,
}

/// The world.
pub struct World {
    machine: Machine,
    setup: Setup,
    /// What happened.
    pub trace: Trace,
    inbox: Inbox<Answer>,
    ops: BTreeMap<u64, Op>,
    next: u64,
    engine: Option<Engine>,
    topics: Vec<Topic>,
    trouble: Trouble,
    /// First ledger id of every life, with its last one.
    ledgers: BTreeMap<u64, u64>,
    /// The dice of the present step.
    dice: SimRandom,
    armed: Option<Armed>,
    flips: u32,
    /// The disk is large again: nobody may find it full from the next start on.
    grown: bool,
}

/// Bytes of the disk when nobody shrinks it.
const CAPACITY: u64 = 1 << 40;

impl World {
    /// A new world for a program.
    pub fn new(program: &Program, trace: Trace) -> World {
        World {
            machine: Machine::new(program.seed, CAPACITY),
            setup: program.setup,
            trace,
            inbox: Inbox::default(),
            ops: BTreeMap::new(),
            next: 0,
            engine: None,
            topics: (0..program.topics).map(Topic::new).collect(),
            trouble: Trouble::default(),
            ledgers: BTreeMap::new(),
            dice: SimRandom::new(program.seed),
            armed: None,
            flips: 0,
            grown: false,
        }
    }

    fn config(&self) -> Config {
        Config {
            data_directory: DIRECTORY.into(),
            cluster_name: "cluster".into(),
            owner: "broker-1".into(),
            memory_limit: 64 << 20,
            publish_buffer: 16 << 20,
            segment_bytes: self.setup.segment_bytes,
            max_entry: MAX_ENTRY,
            accept_older_copy: false,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Runs `future`, with everything else, until it is done.
    fn drive<T>(&mut self, what: &str, future: impl std::future::Future<Output = T>) -> Done<T> {
        match self.machine.drive(future) {
            Ok(value) => Ok(value),
            Err(Halt::Stopped) => Err(Stop::Crashed),
            Err(halt) => Err(Stop::Broken(Violation {
                law: Law::Liveness,
                what: format!("{what}: {halt}"),
            })),
        }
    }

    /// Lets `future` go on by itself; its answer comes in as that of a request.
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

    /// Judges every answer that is there.
    fn drain(&mut self) -> Done {
        while let Some((number, answer)) = self.inbox.pop() {
            self.answered(number, answer)?;
        }
        Ok(())
    }

    /// Waits until no request that `concerns` is under way. Waits for entries are left alone.
    fn settle(&mut self, what: &str, concerns: impl Fn(&Op) -> bool) -> Done {
        loop {
            self.drain()?;
            let open = self
                .ops
                .iter()
                .find(|(_, op)| !matches!(op.ask, Ask::WaitPast { .. }) && concerns(op));
            let Some((number, _)) = open else {
                return Ok(());
            };
            let what = format!("{what}: request {number} is not answered");
            let filled = self.inbox.filled();
            self.drive(&what, filled)?;
        }
    }

    fn settle_all(&mut self) -> Done {
        self.settle("settle", |_| true)
    }

    /// Waits for one request.
    fn settle_one(&mut self, number: u64) -> Done {
        loop {
            self.drain()?;
            if !self.ops.contains_key(&number) {
                return Ok(());
            }
            let filled = self.inbox.filled();
            self.drive(&format!("request {number}"), filled)?;
        }
    }

    fn pause(&mut self, micros: u64) -> Done {
        let sleep = self
            .machine
            .executor
            .clock()
            .sleep(std::time::Duration::from_micros(micros));
        self.drive("a pause", sleep)
    }

    /// What may explain an error that a handle of a topic answers.
    fn allowed(&mut self, topic: usize, life: u64, handle: u64) -> Allowed {
        let topic = &mut self.topics[topic];
        let current = topic.life.as_ref().is_some_and(|life_now| life_now.number == life);
        let (fenced, closed, suspended) = topic.handle(handle).map_or((true, true, true), |handle| {
            (handle.fenced || handle.maybe_fenced, handle.closed, handle.failed)
        });
        Allowed {
            fenced,
            closed,
            gone: !current || topic.maybe_gone || topic.presence != topic::Presence::Live,
            terminated: topic.model(life).is_some_and(|model| model.may_be_terminated()),
            suspended,
            stream: topic.life.as_ref().map(|life| life.stream),
        }
    }

    fn entry(&mut self, length: u32) -> (Entry, Bytes) {
        let entry = Entry {
            id: self.number(),
            length,
        };
        (entry, entry.bytes())
    }

    /// The present handle, with the number of the present life.
    fn handle(&mut self, topic: usize) -> Option<(&mut Handle, u64)> {
        let handle = self.topics[topic].handle.as_mut()?;
        let life = handle.life;
        Some((handle, life))
    }
}
