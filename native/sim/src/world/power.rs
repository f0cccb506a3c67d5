//! The life of the process: start, end, loss of power, clean restart.

use nereus_core::engine::Engine;
use nereus_core::env::sim::{Halt, SimRandom};
use nereus_core::env::Random;
use nereus_core::Error;

use super::errors::{check, Allowed};
use super::{Armed, Ask, Done, Stop, World, CAPACITY};
use crate::law::{broken, Law};
use crate::machine::Inbox;

/// Starts before somebody is to blame.
const STARTS: u32 = 6;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The power fails.
    Power,
    /// The process is killed.
    Kill,
}

impl World {
    /// The process ends; what came in before counts, what was under way may have happened.
    pub(super) fn die(&mut self, end: End) -> Done {
        self.drain()?;
        self.inbox = Inbox::default();
        self.trace
            .line(|| format!("  the process ends: {end:?}, {} requests under way", self.ops.len()));
        let random = SimRandom::new(self.dice.next_u64());
        self.machine.executor.kill();
        self.engine = None;
        for topic in &mut self.topics {
            topic.handle = None;
            topic.old.clear();
        }
        for op in std::mem::take(&mut self.ops).into_values() {
            if let (Ask::Cursor { name, .. }, Some(model)) = (&op.ask, self.topics[op.topic].model(op.life)) {
                if let Some(cursor) = model.cursors.get_mut(name) {
                    cursor.died()?;
                }
            }
        }
        match end {
            End::Power => self.machine.lose_power(&random),
            End::Kill => self.machine.end_process(),
        }
        self.trouble.disk = false;
        self.trouble.space &= !self.grown;
        Ok(())
    }

    /// After the power failed where a crash was armed, or at once.
    pub(super) fn reboot(&mut self) -> Done {
        let Armed { again, look } = self.armed.take().unwrap_or(Armed {
            again: None,
            look: true,
        });
        self.die(End::Power)?;
        self.boot(again, look)
    }

    /// Starts the engine; the power may fail again meanwhile.
    pub(super) fn boot(&mut self, again: Option<u64>, look: bool) -> Done {
        if let Some(after) = again {
            self.machine.disk.crash_in(after);
        }
        for start in 0..STARTS {
            let (env, store, backend) = (self.machine.env(), self.machine.store(), self.machine.backend());
            let setup = self.setup;
            let opening = Engine::open_on(env, self.config(), store, backend, move |options| {
                options.max_value = 40 << 10;
                options.group_bytes = setup.group_bytes;
                options.reserve_bytes = setup.reserve_bytes;
                options.checkpoint_bytes = setup.checkpoint_bytes;
                options.checkpoint_dirty = setup.checkpoint_dirty;
            });
            match self.machine.drive(opening) {
                Ok(Ok(engine)) => {
                    self.trace.line(|| "  the engine is open".into());
                    self.engine = Some(engine);
                    return match self.look_if(look) {
                        Err(Stop::Crashed) if start + 1 < STARTS => {
                            self.die(End::Power)?;
                            continue;
                        }
                        done => done,
                    };
                }
                Ok(Err(error)) => self.start_failed(&error)?,
                Err(Halt::Stopped) => {
                    self.trace.line(|| "  the power fails during the start".into());
                    self.die(End::Power)?;
                }
                Err(halt) => broken(Law::Liveness, format!("the start of the engine: {halt}"))?,
            }
        }
        broken(Law::L17, format!("the engine does not start in {STARTS} tries"))?;
        Ok(())
    }

    fn look_if(&mut self, look: bool) -> Done {
        match look {
            true => self.look_all(),
            false => Ok(()),
        }
    }

    /// A start was refused: rightly or not; then what was in the way is removed.
    fn start_failed(&mut self, error: &Error) -> Done {
        self.trace
            .line(|| format!("  the engine does not start: {:?}", error.code()));
        if self.machine.disk.has_crashed() {
            return self.die(End::Power);
        }
        let damaged = self.trouble.damage.is_some();
        check(&self.trouble, error, &Allowed::default(), "the start of the engine")?;
        if damaged && matches!(error, Error::Corrupt { .. }) {
            return Err(Stop::Ended);
        }
        self.heal();
        self.die(End::Kill)
    }

    /// Disk and broker behave from now on.
    pub(super) fn heal(&mut self) {
        self.machine.disk.heal();
        self.machine.disk.set_capacity(CAPACITY);
        self.machine.broker.faults().clear();
        self.machine.broker.faults().fail_reads(false);
        self.grown = true;
    }

    /// A clean end and a start.
    pub(super) fn restart(&mut self) -> Done {
        if let Some(engine) = self.engine.clone() {
            for topic in &mut self.topics {
                topic.close_all();
            }
            let closed = self.drive("the close of the engine", async move { engine.close().await })?;
            self.drain()?;
            self.trace
                .line(|| format!("  closed: {:?}", closed.as_ref().err().map(Error::code)));
            if let Err(error) = closed {
                check(&self.trouble, &error, &Allowed::default(), "the close of the engine")?;
            }
            self.settle("after the close of the engine", |_| true)?;
        }
        self.die(End::Kill)?;
        self.boot(None, true)
    }

    /// The engine stopped acknowledging: was there a reason?
    pub(super) fn check_poison(&mut self) -> Done<bool> {
        let Some(reason) = self.engine.as_ref().and_then(Engine::poisoned) else {
            return Ok(false);
        };
        if self.machine.disk.has_crashed() {
            return Ok(true);
        }
        if !self.trouble.disk {
            broken(Law::L17, format!("the journal stopped without a cause: {reason}"))?;
        }
        Ok(true)
    }
}
