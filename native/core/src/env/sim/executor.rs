//! One thread, seeded order, virtual time. Dedicated and blocking work runs on the same thread, piece by piece.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::task::{waker, ArcWake};
use parking_lot::Mutex;

use super::SimRandom;
use crate::env::{BoxFuture, Clock, Spawner};

/// Virtual time that passes with every piece of work.
const STEP: Duration = Duration::from_micros(10);
/// Wall clock at the start: some day in 2023.
const WALL_START: u64 = 1_700_000_000_000;
/// The future that `run` was given.
const MAIN: u64 = 0;

type Job = Box<dyn FnOnce() + Send + 'static>;

#[derive(Default)]
struct Timers {
    now: Duration,
    next: u64,
    waiting: BTreeMap<(Duration, u64), Waker>,
}

#[derive(Default)]
struct Ready {
    next: u64,
    fresh: Vec<(u64, BoxFuture<()>)>,
    /// Sorted: what runs next follows from the seed, not from the order of wake-ups.
    woken: BTreeSet<u64>,
    jobs: Vec<Job>,
}

struct Shared {
    ready: Mutex<Ready>,
    timers: Mutex<Timers>,
}

/// Runs tasks until a future is done.
pub struct Executor {
    shared: Arc<Shared>,
    tasks: BTreeMap<u64, BoxFuture<()>>,
    random: SimRandom,
}

struct Wake {
    id: u64,
    shared: Arc<Shared>,
}

impl ArcWake for Wake {
    fn wake_by_ref(arc_self: &Arc<Self>) {
        arc_self.shared.ready.lock().woken.insert(arc_self.id);
    }
}

impl Executor {
    /// An executor whose order of work follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let ready = Ready {
            next: MAIN + 1,
            ..Ready::default()
        };
        let shared = Arc::new(Shared {
            ready: Mutex::new(ready),
            timers: Mutex::default(),
        });
        Executor {
            shared,
            tasks: BTreeMap::new(),
            random: SimRandom::new(seed),
        }
    }

    /// Its clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SimClock(self.shared.clone()))
    }

    /// Its way of starting work.
    pub fn spawner(&self) -> Arc<dyn Spawner> {
        Arc::new(SimSpawner(self.shared.clone()))
    }

    /// Runs everything until `future` is done.
    ///
    /// # Panics
    /// When nothing can go on any more: a lost wake-up or answer.
    pub fn run<T>(&mut self, future: impl Future<Output = T>) -> T {
        match self.run_unless(future, || false, Duration::MAX) {
            Ok(value) => value,
            Err(halt) => panic!("{halt}"),
        }
    }

    /// Runs everything until `future` is done, `stop` says so after a piece of work, or more than `most` of virtual time has
    /// passed.
    ///
    /// # Errors
    /// Why it was given up. Tasks stand where they were.
    pub fn run_unless<T>(
        &mut self,
        future: impl Future<Output = T>,
        stop: impl Fn() -> bool,
        most: Duration,
    ) -> Result<T, Halt> {
        let mut future = pin!(future);
        let until = self.shared.timers.lock().now.saturating_add(most);
        self.shared.ready.lock().woken.insert(MAIN);
        loop {
            if stop() {
                return Err(Halt::Stopped);
            }
            if let Turn::Main = self.turn(until)? {
                let waker = self.waker(MAIN);
                if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Ok(value);
                }
            }
        }
    }

    /// Runs everything for `time` of virtual time.
    pub fn run_for(&mut self, time: Duration) {
        let clock = self.clock();
        self.run(clock.sleep(time));
    }

    /// Forgets every task and job where it stands, as the end of a process does.
    pub fn kill(&mut self) {
        loop {
            let tasks = std::mem::take(&mut self.tasks);
            let (fresh, jobs) = {
                let mut ready = self.shared.ready.lock();
                ready.woken.clear();
                (std::mem::take(&mut ready.fresh), std::mem::take(&mut ready.jobs))
            };
            let waiting = std::mem::take(&mut self.shared.timers.lock().waiting);
            // What is dropped may start something in its turn.
            if tasks.is_empty() && fresh.is_empty() && jobs.is_empty() && waiting.is_empty() {
                return;
            }
            drop((tasks, fresh, jobs, waiting));
        }
    }

    fn waker(&self, id: u64) -> Waker {
        waker(Arc::new(Wake {
            id,
            shared: self.shared.clone(),
        }))
    }

    /// Does one piece of work, if there is one; otherwise lets time pass to the next timer.
    fn turn(&mut self, until: Duration) -> Result<Turn, Halt> {
        let picked = self.pick();
        let now = {
            let mut timers = self.shared.timers.lock();
            timers.now += STEP;
            timers.now
        };
        match picked {
            Some(Picked::Job(job)) => job(),
            Some(Picked::Task(MAIN)) => return Ok(Turn::Main),
            Some(Picked::Task(id)) => {
                let waker = self.waker(id);
                if let Some(task) = self.tasks.get_mut(&id) {
                    if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                        self.tasks.remove(&id);
                    }
                }
            }
            None => self.pass_time()?,
        }
        match now > until {
            true => Err(Halt::TooLong),
            false => Ok(Turn::Other),
        }
    }

    fn pick(&mut self) -> Option<Picked> {
        let mut ready = self.shared.ready.lock();
        for (id, task) in std::mem::take(&mut ready.fresh) {
            self.tasks.insert(id, task);
            ready.woken.insert(id);
        }
        let choices = ready.woken.len() + ready.jobs.len();
        let choice = usize::try_from(self.random.below(choices as u64)).unwrap_or(0);
        if let Some(id) = ready.woken.iter().nth(choice).copied() {
            ready.woken.remove(&id);
            return Some(Picked::Task(id));
        }
        let job = choice - ready.woken.len();
        (job < ready.jobs.len()).then(|| Picked::Job(ready.jobs.remove(job)))
    }

    fn pass_time(&mut self) -> Result<(), Halt> {
        let due = {
            let mut timers = self.shared.timers.lock();
            let Some(((at, _), waker)) = timers.waiting.pop_first() else {
                return Err(Halt::Stuck);
            };
            timers.now = timers.now.max(at);
            waker
        };
        due.wake();
        Ok(())
    }
}

/// Why a run was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// The caller's condition came true.
    Stopped,
    /// Nothing is ready, and no timer is set.
    Stuck,
    /// More virtual time passed than was allowed.
    TooLong,
}

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Halt::Stopped => "stopped",
            Halt::Stuck => "nothing can go on any more: a wake-up or an answer was lost",
            Halt::TooLong => "it goes on without an end: an answer was lost, or something turns in circles",
        })
    }
}

enum Turn {
    Main,
    Other,
}

enum Picked {
    Task(u64),
    Job(Job),
}

struct SimSpawner(Arc<Shared>);

impl Spawner for SimSpawner {
    fn spawn(&self, _name: &'static str, task: BoxFuture<()>) {
        let mut ready = self.0.ready.lock();
        let id = ready.next;
        ready.next += 1;
        ready.fresh.push((id, task));
    }

    fn spawn_dedicated(&self, name: &'static str, task: BoxFuture<()>) {
        self.spawn(name, task);
    }

    fn run_blocking(&self, work: Job) {
        self.0.ready.lock().jobs.push(work);
    }
}

struct SimClock(Arc<Shared>);

impl Clock for SimClock {
    fn wall_millis(&self) -> u64 {
        WALL_START + u64::try_from(self.monotonic().as_millis()).unwrap_or(0)
    }

    fn monotonic(&self) -> Duration {
        self.0.timers.lock().now
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<()> {
        let shared = self.0.clone();
        let until = self.monotonic() + pause;
        let mut key = None;
        Box::pin(std::future::poll_fn(move |context| {
            let mut timers = shared.timers.lock();
            if let Some(key) = key.take() {
                timers.waiting.remove(&key);
            }
            if timers.now >= until {
                return Poll::Ready(());
            }
            timers.next += 1;
            let fresh = (until, timers.next);
            timers.waiting.insert(fresh, context.waker().clone());
            key = Some(fresh);
            Poll::Pending
        }))
    }
}
