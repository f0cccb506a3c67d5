//! One load for both logs: so many appends under way at any time, answers on the log's own thread, one thread that asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use rustix::time::{clock_gettime, ClockId};

/// What a log is asked to do.
pub trait Log {
    /// Appends; `reply` is called once the entry is durable, on any thread.
    fn append(&self, stream: usize, entry: Bytes, reply: impl FnOnce() + Send + 'static);
    /// Syncs of the log's own file so far.
    fn syncs(&self) -> u64;
    /// Between two measurements: lets go of what was appended.
    fn tidy(&self) {}
}

/// One load.
pub struct Load {
    /// Appends under way.
    pub outstanding: usize,
    /// Bytes of an entry.
    pub entry_bytes: usize,
    /// Streams of the engine that take them in turn.
    pub streams: usize,
    entry: Bytes,
}

impl Load {
    pub fn new(outstanding: usize, entry_bytes: usize) -> Load {
        let entry: Vec<u8> = (0..entry_bytes).map(|at| (at.wrapping_mul(167) >> 3) as u8).collect();
        Load {
            outstanding,
            entry_bytes,
            // A producer has a few messages under way.
            streams: outstanding.div_ceil(8),
            entry: entry.into(),
        }
    }
}

/// What one run of a load took.
pub struct Sample {
    pub appends: u64,
    pub time: Duration,
    /// CPU time of the whole process, the asking side included.
    pub cpu: Duration,
    pub syncs: u64,
    /// Nanoseconds from the call to the answer.
    pub latencies: Vec<u64>,
}

impl Sample {
    pub fn per_second(&self) -> f64 {
        self.appends as f64 / self.time.as_secs_f64()
    }
}

/// Both logs under the same load, one directly after the other.
pub struct Pair {
    pub engine: Sample,
    pub bare: Sample,
}

impl Pair {
    pub fn measure(engine: &impl Log, bare: &impl Log, load: &Load, appends: u64, engine_first: bool) -> Pair {
        if engine_first {
            let engine = run(engine, load, appends);
            Pair {
                engine,
                bare: run(bare, load, appends),
            }
        } else {
            let bare = run(bare, load, appends);
            Pair {
                engine: run(engine, load, appends),
                bare,
            }
        }
    }
}

/// Lets so many through at a time.
struct Gate {
    state: Mutex<State>,
    answered: Condvar,
}

struct State {
    free: usize,
    latencies: Vec<u64>,
}

impl Gate {
    fn wait_for(&self, wanted: usize) -> parking_lot::MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while state.free < wanted {
            self.answered.wait(&mut state);
        }
        state
    }

    fn answer(&self, asked: Instant) {
        let taken = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.state.lock();
        state.free = state.free.saturating_add(1);
        state.latencies.push(taken);
        drop(state);
        self.answered.notify_one();
    }
}

/// Runs `appends` of a load to their last answer.
pub fn run(log: &impl Log, load: &Load, appends: u64) -> Sample {
    log.tidy();
    let latencies = Vec::with_capacity(usize::try_from(appends).unwrap_or(0));
    let gate = Arc::new(Gate {
        state: Mutex::new(State {
            free: load.outstanding,
            latencies,
        }),
        answered: Condvar::new(),
    });
    let (syncs, cpu, began) = (log.syncs(), cpu_time(), Instant::now());
    let mut left = appends;
    let mut turn = 0;
    while left > 0 {
        // Everything that is free is used before the next wait.
        let free = {
            let mut state = gate.wait_for(1);
            let free = state.free.min(usize::try_from(left).unwrap_or(usize::MAX));
            state.free -= free;
            free
        };
        left -= free as u64;
        for _ in 0..free {
            let (gate, asked) = (gate.clone(), Instant::now());
            log.append(turn % load.streams, load.entry.clone(), move || gate.answer(asked));
            turn = turn.wrapping_add(1);
        }
    }
    let mut state = gate.wait_for(load.outstanding);
    Sample {
        appends,
        time: began.elapsed(),
        cpu: cpu_time().saturating_sub(cpu),
        syncs: log.syncs().saturating_sub(syncs),
        latencies: std::mem::take(&mut state.latencies),
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
